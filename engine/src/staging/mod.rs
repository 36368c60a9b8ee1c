//! What a write transaction puts into the object store before it commits, and how that goes away if it does not.
//!
//! DuckDB logs every object it writes to before the object can exist. Each name is appended at once to a journal file
//! of the transaction that holds the table. After a failed, cancelled, rolled back or killed transaction exactly the
//! objects in its journal are removed; after a successful one the journal is forgotten. An object that cannot be
//! attributed to one transaction beyond doubt is never removed here: orphan reaping is the compactor's work.

mod attribution;
mod journal;
mod outcome;
mod recovery;
mod remove;
mod store;
mod target;
mod transaction;
pub mod uploads;

pub use attribution::{Attribution, LOG_STORAGE};
pub use journal::JournalDir;
pub use recovery::recover;
pub use transaction::{CommitError, WriteStaging};
