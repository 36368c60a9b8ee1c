//! Places at which a crash test can stop the archiver: it waits there until it is killed.

/// Set to one of the names below.
const VARIABLE: &str = "COLDFRONT_ARCHIVER_PAUSE_AT";

/// In the order in which a pass meets them.
pub const PREPARED: &str = "prepared";
pub const CONVERTING: &str = "converting";
pub const OPENED: &str = "opened";
pub const WATCHED: &str = "watched";
pub const PURGED: &str = "purged";
pub const EXPORTING: &str = "exporting";
pub const APPENDED: &str = "appended";
pub const EXPORTED: &str = "exported";
pub const REPLAYED: &str = "replayed";
pub const VERIFYING: &str = "verifying";
pub const VERIFIED: &str = "verified";
pub const LOCKED: &str = "locked";
pub const FLIPPED: &str = "flipped";
pub const CUT_OVER: &str = "cut_over";
pub const DROPPING: &str = "dropping";
pub const DROPPED: &str = "dropped";
pub const RESTORING: &str = "restoring";
pub const RESTORED: &str = "restored";

pub async fn reach(name: &'static str) {
    coldfront_program::pause::at(VARIABLE, name).await;
}
