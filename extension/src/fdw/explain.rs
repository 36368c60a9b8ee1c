//! What EXPLAIN says about cold scans and writes.

#![allow(unsafe_code)]

use std::ffi::CString;

use pgrx::{pg_guard, pg_sys};

use super::{
    modify::{ModifyKind, ModifyPlan},
    private, scan,
};

unsafe fn text(label: &std::ffi::CStr, value: &str, es: *mut pg_sys::ExplainState) {
    if let Ok(value) = CString::new(value) {
        // SAFETY: valid C strings and explain state.
        unsafe { pg_sys::ExplainPropertyText(label.as_ptr(), value.as_ptr(), es) }
    }
}

unsafe fn number(label: &std::ffi::CStr, value: u64, es: *mut pg_sys::ExplainState) {
    // SAFETY: valid C string and explain state.
    unsafe { pg_sys::ExplainPropertyInteger(label.as_ptr(), std::ptr::null(), value as i64, es) }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn scan_node(node: *mut pg_sys::ForeignScanState, es: *mut pg_sys::ExplainState) {
    // SAFETY: the node is one of ours; its state exists unless EXPLAIN runs nothing.
    unsafe {
        let plan = scan::plan_of(node);
        text(c"Engine SQL", &plan.sql.display(), es);
        if let Some(shortcut) = &plan.shortcut {
            text(c"Engine Shortcut", &shortcut.sql.display(), es);
            text(c"Engine Shortcut Unless", &shortcut.unless.display(), es);
        }
        if !(*es).analyze {
            return;
        }
        if let Some(scan) = scan::state(node) {
            let delivered = scan.delivered;
            number(c"Engine Rows", delivered.rows, es);
            number(c"Engine Bytes", delivered.bytes, es);
            if let Some(taken) = delivered.shortcut.filter(|_| plan.shortcut.is_some()) {
                text(c"Engine Shortcut Taken", if taken { "yes" } else { "no" }, es);
            }
            if delivered.files_known {
                number(c"Engine Files", delivered.files, es);
            }
        }
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn modify_node(
    _mtstate: *mut pg_sys::ModifyTableState,
    _info: *mut pg_sys::ResultRelInfo,
    fdw_private: *mut pg_sys::List,
    _subplan_index: i32,
    es: *mut pg_sys::ExplainState,
) {
    // SAFETY: the private list was packed by `modify::plan`.
    unsafe {
        let plan: ModifyPlan = private::unpack(fdw_private);
        let verb = match plan.kind {
            ModifyKind::Insert => "INSERT INTO",
            ModifyKind::Update => "UPDATE",
            ModifyKind::Delete => "DELETE FROM",
        };
        text(c"Engine Write", &format!("{verb} {}", plan.table), es);
    }
}
