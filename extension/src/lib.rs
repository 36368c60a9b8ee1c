//! The ColdFront extension: what runs inside a PostgreSQL backend.
//!
//! No Iceberg, Parquet or object-store library is linked here and no thread is started; the engine process does that
//! work. Unsafe code lives in `pg/` and in the callbacks of `fdw/`, `txn/`, `ddl/` and `worker/`.

mod client;
mod convert;
mod ddl;
mod error;
mod fdw;
mod gucs;
mod lake;
mod log_mask;
mod pg;
mod session;
mod sqlfn;
mod tier;
mod txn;
mod worker;

use pgrx::{pg_guard, pg_sys};

pgrx::pg_module_magic!();

/// Runs when the library is loaded, which must be at server start: hooks and the supervisor belong to every process.
#[pg_guard]
#[allow(non_snake_case, unsafe_code)]
pub unsafe extern "C-unwind" fn _PG_init() {
    // SAFETY: a plain read of process-local state.
    if unsafe { !pg_sys::process_shared_preload_libraries_in_progress } {
        error::Error::refused(
            "55000",
            "coldfront must be loaded at server start",
            "Add coldfront to shared_preload_libraries and restart the server.",
        )
        .raise();
    }
    gucs::init();
    worker::init();
    txn::init();
    lake::init();
    ddl::init();
    log_mask::init();
    tier::init();
}
