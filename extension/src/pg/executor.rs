//! Runs a planned statement that returns no rows.

#![allow(unsafe_code)]

use pgrx::pg_sys;

/// Runs a statement under a new snapshot; returns the rows it changed. `environment` may be null.
///
/// # Safety
/// `planned` changes data and has no RETURNING.
pub unsafe fn run(
    planned: *mut pg_sys::PlannedStmt,
    text: *const std::ffi::c_char,
    environment: *mut pg_sys::QueryEnvironment,
) -> u64 {
    // SAFETY: the order of calls is that of PostgreSQL's own callers.
    unsafe {
        pg_sys::CommandCounterIncrement();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let description = pg_sys::CreateQueryDesc(
            planned,
            text,
            pg_sys::GetActiveSnapshot(),
            std::ptr::null_mut(),
            pg_sys::None_Receiver,
            std::ptr::null_mut(),
            environment,
            0,
        );
        pg_sys::ExecutorStart(description, 0);
        super::compat::executor_run(description);
        let rows = (*(*description).estate).es_processed;
        pg_sys::ExecutorFinish(description);
        pg_sys::ExecutorEnd(description);
        pg_sys::FreeQueryDesc(description);
        pg_sys::PopActiveSnapshot();
        pg_sys::CommandCounterIncrement();
        rows
    }
}
