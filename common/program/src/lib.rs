//! What the archiver and the compactor have in common as programs: the database and its errors, the write claim, where the
//! lake is, logs, metrics and progress.
//!
//! It is a crate of its own because a PostgreSQL backend links `coldfront-common`, and may not link any of this.

pub mod claim;
pub mod database;
pub mod http;
pub mod lake;
pub mod logging;
pub mod pause;
pub mod progress;
