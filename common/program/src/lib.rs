//! What the archiver and the compactor have in common as programs: the database and its errors, the write claim, where the
//! lake is, logs, metrics and progress.
//!
//! It is a crate of its own because a PostgreSQL backend links `coldfront-common`, and may not link any of this.

/// Large buffers come and go all the time here; the C library's allocator gives each back to the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub mod claim;
pub mod database;
pub mod http;
pub mod lake;
pub mod logging;
pub mod pause;
pub mod progress;
