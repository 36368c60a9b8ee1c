//! Small facts about the running transaction and process.

#![allow(unsafe_code)]

use std::ffi::CStr;

use pgrx::pg_sys;

/// Name of the database this backend is connected to.
pub fn database_name() -> String {
    // SAFETY: MyDatabaseId is set in a connected backend; the result is palloc'd or null.
    unsafe {
        let name = pg_sys::get_database_name(pg_sys::MyDatabaseId);
        if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
    }
}

/// Whether the transaction keeps one snapshot (REPEATABLE READ and above).
pub fn uses_one_snapshot() -> bool {
    // SAFETY: a plain read of process-local state.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Whether this process may start engine work: a leader, in a transaction that is not aborted.
pub fn may_work() -> bool {
    // SAFETY: plain reads of process-local state.
    unsafe { pg_sys::IsTransactionState() && pg_sys::ParallelWorkerNumber < 0 }
}

/// Present subtransaction.
pub fn current_subxact() -> u32 {
    // SAFETY: reads the transaction state of this process.
    unsafe { pg_sys::GetCurrentSubTransactionId() }
}

unsafe extern "C-unwind" {
    /// `storage/predicate.h`; not part of the generated bindings.
    fn PreCommit_CheckForSerializationFailure();
}

/// Raises if the transaction is part of a dangerous structure; does nothing below SERIALIZABLE. May be repeated.
pub fn check_for_serialization_failure() {
    // SAFETY: called in a transaction that is about to commit; the boundary turns an ERROR into an unwinding panic.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| PreCommit_CheckForSerializationFailure()) }
}
