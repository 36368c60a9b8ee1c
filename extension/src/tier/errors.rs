//! Errors of the hot table that a user of the unified view would not understand: a row that no partition takes.
//!
//! The error is put into other words while PostgreSQL reports it, so that everything else about it stays.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};

use pgrx::{pg_guard, pg_sys};

use super::{route, view::Tiered};
use crate::pg::{catalog, node};

static mut PREVIOUS_RUN: pg_sys::ExecutorRun_hook_type = None;
static mut PREVIOUS_FINISH: pg_sys::ExecutorFinish_hook_type = None;

/// `executor/executor.h` and `utils/elog.h`, without the guards of the generated bindings: errors only pass through here,
/// and the reporting functions run inside PostgreSQL's own error handling.
mod raw {
    use std::ffi::{c_char, c_int};

    use pgrx::pg_sys;

    unsafe extern "C-unwind" {
        pub fn standard_ExecutorRun(
            description: *mut pg_sys::QueryDesc,
            direction: pg_sys::ScanDirection::Type,
            count: u64,
            #[cfg(not(feature = "pg18"))] once: bool,
        );
        pub fn standard_ExecutorFinish(description: *mut pg_sys::QueryDesc);
        pub fn errmsg_internal(format: *const c_char, ...) -> c_int;
        pub fn errhint(format: *const c_char, ...) -> c_int;
        pub fn geterrcode() -> c_int;
        pub fn CopyErrorData() -> *mut pg_sys::ErrorData;
    }
}

/// Called for every statement, so it decides before it does anything. No Rust value lives across the call of the
/// executor, which may leave by a long jump; the stack of error contexts is put back by whoever catches the error.
unsafe extern "C-unwind" fn run(
    description: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: u64,
    #[cfg(not(feature = "pg18"))] once: bool,
) {
    // SAFETY: the arguments are those of this call; the callback is taken off the stack before it goes.
    unsafe {
        let before = pg_sys::error_context_stack;
        let mut callback = reword_errors_of(description);
        if concerns(description) {
            pg_sys::error_context_stack = &raw mut callback;
        }
        PREVIOUS_RUN.unwrap_or(raw::standard_ExecutorRun)(
            description,
            direction,
            count,
            #[cfg(not(feature = "pg18"))]
            once,
        );
        pg_sys::error_context_stack = before;
    }
}

/// As [`run`], for what the executor leaves to the end: parts of a statement that nobody reads.
unsafe extern "C-unwind" fn finish(description: *mut pg_sys::QueryDesc) {
    // SAFETY: as in `run`.
    unsafe {
        let before = pg_sys::error_context_stack;
        let mut callback = reword_errors_of(description);
        if concerns(description) {
            pg_sys::error_context_stack = &raw mut callback;
        }
        PREVIOUS_FINISH.unwrap_or(raw::standard_ExecutorFinish)(description);
        pg_sys::error_context_stack = before;
    }
}

fn reword_errors_of(description: *mut pg_sys::QueryDesc) -> pg_sys::ErrorContextCallback {
    pg_sys::ErrorContextCallback {
        // SAFETY: a plain read of process-local state.
        previous: unsafe { pg_sys::error_context_stack },
        callback: Some(reword),
        arg: description.cast(),
    }
}

/// Whether the statement writes to a tiered relation, by a look at its range table.
unsafe fn concerns(description: *mut pg_sys::QueryDesc) -> bool {
    // SAFETY: a description of the executor.
    unsafe {
        let planned = (*description).plannedstmt;
        !(*planned).resultRelations.is_null() && route::has_view((*planned).rtable)
    }
}

/// Called while an error is reported.
unsafe extern "C-unwind" fn reword(description: *mut c_void) {
    // SAFETY: PostgreSQL calls this with an error on its stack; texts are copied by the reporting functions.
    unsafe {
        if raw::geterrcode() != pgrx::PgSqlErrorCode::ERRCODE_CHECK_VIOLATION as c_int {
            return;
        }
        let mut message: *mut c_char = std::ptr::null_mut();
        in_terms_of_view(description.cast(), &raw mut message);
        if !message.is_null() {
            raw::errmsg_internal(c"%s".as_ptr(), message);
            raw::errhint(
                c"Create the partition, or let coldfront-archiver make partitions further ahead (premake).".as_ptr(),
            );
        }
    }
}

/// The new message in `out`, if the error is the one about partitions.
#[pg_guard]
unsafe extern "C-unwind" fn in_terms_of_view(description: *mut pg_sys::QueryDesc, out: *mut *mut c_char) {
    // SAFETY: valid nodes of the plan; the error is copied outside of the context that errors are made in.
    unsafe {
        let before = pg_sys::MemoryContextSwitchTo((*(*description).estate).es_query_cxt);
        let error = raw::CopyErrorData();
        let text = CStr::from_ptr((*error).message).to_string_lossy();
        for entry in node::members::<pg_sys::RangeTblEntry>((*(*description).plannedstmt).rtable) {
            let Some(tiered) = route::is_view(entry).then(|| Tiered::of_view((*entry).relid)).flatten() else {
                continue;
            };
            let (_, hot) = catalog::schema_and_name(tiered.hot.relation);
            if text == format!("no partition of relation \"{hot}\" found for row") {
                *out = node::c_string(&format!("coldfront: no hot partition of {} takes the row", tiered.name()));
            }
        }
        pg_sys::MemoryContextSwitchTo(before);
    }
}

pub fn init() {
    // SAFETY: runs once, while libraries are preloaded, before any statement.
    unsafe {
        PREVIOUS_RUN = pg_sys::ExecutorRun_hook;
        pg_sys::ExecutorRun_hook = Some(run);
        PREVIOUS_FINISH = pg_sys::ExecutorFinish_hook;
        pg_sys::ExecutorFinish_hook = Some(finish);
    }
}
