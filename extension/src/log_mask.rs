//! Keeps credentials out of the server's log: statements that set them are not written there.
//!
//! The log gets a statement's text in three ways: with an error (`log_min_error_statement`), by `log_statement`, and
//! with its parameters by `log_min_duration_statement`. The error itself stays.

#![allow(unsafe_code)]

use std::ffi::CStr;

use pgrx::{pg_guard, pg_sys};

/// Functions whose arguments are credentials, and settings that may hold one.
const SETTERS: [&str; 3] = ["set_storage_secret", "set_catalog_", "coldfront.local_pg_dsn"];
/// What stands in the log in place of such a statement.
const INSTEAD: &CStr = c"statement that sets credentials (its text is not logged)";

static mut PREVIOUS: pg_sys::emit_log_hook_type = None;

/// Whether a text may hold credentials.
fn sets_credentials(text: &CStr) -> bool {
    let bytes = text.to_bytes();
    SETTERS
        .iter()
        .any(|setter| bytes.windows(setter.len()).any(|window| window.eq_ignore_ascii_case(setter.as_bytes())))
}

#[pg_guard]
unsafe extern "C-unwind" fn emit_log(data: *mut pg_sys::ErrorData) {
    // SAFETY: the server passes a valid ErrorData; replaced texts are allocated where it expects them to be freed.
    unsafe {
        let holds = |text: *const std::ffi::c_char| !text.is_null() && sets_credentials(CStr::from_ptr(text));
        // The detail of a logged EXECUTE shows what was prepared.
        // A reloaded setting is logged without any statement.
        let texts = [pg_sys::debug_query_string, (*data).detail.cast_const(), (*data).message.cast_const()];
        if (*data).output_to_server && texts.into_iter().any(holds) {
            (*data).hide_stmt = true;
            (*data).hide_ctx = true;
            (*data).detail_log = std::ptr::null_mut();
            let logs_the_statement = (*data).elevel <= pg_sys::LOG as i32;
            if logs_the_statement && (holds((*data).message) || holds((*data).detail)) {
                (*data).message = pg_sys::MemoryContextStrdup((*data).assoc_context, INSTEAD.as_ptr());
                (*data).detail = std::ptr::null_mut();
            }
        }
        if let Some(previous) = PREVIOUS {
            pg_sys::ffi::pg_guard_ffi_boundary(|| previous(data));
        }
    }
}

/// Installs the hook. Runs once, at load.
pub fn init() {
    // SAFETY: runs once, while libraries are preloaded.
    unsafe {
        PREVIOUS = pg_sys::emit_log_hook;
        pg_sys::emit_log_hook = Some(emit_log);
    }
}
