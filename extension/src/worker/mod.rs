//! The supervisor: a background worker that keeps the engine running, and the archiver and the compactor where
//! `coldfront.supervise` names them.
//!
//! It starts each program, starts it again when it ends (at once, then ever later while it keeps failing), stops it with
//! the server, and reaps it. It never connects to a database. If the supervisor itself is killed, they follow it,
//! because the kernel signals them at the death of their parent.

mod commands;
mod supervisor;

use std::time::Duration;

use pgrx::bgworkers::{BackgroundWorkerBuilder, BgWorkerStartTime};

/// Registers the worker. Runs once, while libraries are preloaded.
pub fn init() {
    BackgroundWorkerBuilder::new("coldfront supervisor")
        .set_library("coldfront")
        .set_function("coldfront_supervisor_main")
        .set_type("coldfront supervisor")
        .enable_shmem_access(None)
        .set_start_time(BgWorkerStartTime::ConsistentState)
        .set_restart_time(Some(Duration::from_secs(1)))
        .load();
}
