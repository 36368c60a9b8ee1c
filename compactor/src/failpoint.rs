//! Places at which a crash test can stop the compactor: it waits there until it is killed.

/// Set to one of the names below.
const VARIABLE: &str = "COLDFRONT_COMPACTOR_PAUSE_AT";

/// In the order in which the tasks meet them.
pub const PLANNED: &str = "planned";
pub const REWRITING: &str = "rewriting";
pub const REWRITTEN: &str = "rewritten";
pub const CLAIMED: &str = "claimed";
pub const PREPARED: &str = "prepared";
pub const COMMITTED: &str = "committed";
pub const EXPIRED: &str = "expired";
pub const REMOVING: &str = "removing";
pub const LISTED: &str = "listed";

pub async fn reach(name: &'static str) {
    coldfront_program::pause::at(VARIABLE, name).await;
}
