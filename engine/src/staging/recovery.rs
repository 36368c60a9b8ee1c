//! Deals with journals that outlived their transaction: of an engine that was killed, or whose store was down.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::journal::{self, Entries};
use super::outcome::{self, Outcome};
use super::remove::remove_staged;
use crate::instance::Instance;

/// A commit that was sent may still be applied for this long.
const GRACE: Duration = Duration::from_secs(60);
/// When to try again what could not be settled.
pub const RETRY: Duration = Duration::from_secs(15);
/// How long the removal of one transaction's objects may take.
const REMOVE_LIMIT: Duration = Duration::from_secs(120);

/// Looks after every left-over journal of the instance's lake. What cannot be settled now waits for the next call.
pub fn recover(instance: &Instance) {
    for (path, entries) in instance.journals.take_left_over(&(&instance.lake).into()) {
        if settle(instance, &path, &entries) {
            instance.attribution.release(&path);
            journal::forget(&path);
        } else {
            instance.journals.leave(path, RETRY);
        }
    }
}

/// True if the journal is not needed any more.
fn settle(instance: &Instance, path: &Path, entries: &Entries) -> bool {
    if entries.committing {
        let Some(registration) = instance.registration() else { return false };
        match outcome::ask(registration, entries) {
            Outcome::Committed => {
                tracing::info!(path = %path.display(), "an interrupted commit had been applied; its objects stay");
                return true;
            }
            Outcome::NotCommitted if age(path) >= GRACE => {}
            Outcome::NotCommitted => return false,
            Outcome::Untraceable(why) => {
                tracing::warn!(path = %path.display(), why, objects = entries.objects.len(), "cannot tell whether an interrupted commit was applied; its objects are left to the compactor");
                return true;
            }
            Outcome::Unreachable(why) => {
                tracing::warn!(path = %path.display(), why, "cannot ask the catalog about an interrupted commit yet");
                return false;
            }
        }
    }
    match remove_staged(instance, entries, REMOVE_LIMIT) {
        Ok(()) => {
            tracing::info!(path = %path.display(), objects = entries.objects.len(), "the staged objects of an interrupted transaction are gone");
            true
        }
        Err(error) => {
            let chain = anyhow::Error::from(error);
            tracing::warn!(path = %path.display(), "{chain:#}; it will be tried again");
            false
        }
    }
}

/// Time since the last line was written; a clock that went backwards counts as no time.
fn age(path: &Path) -> Duration {
    let modified = std::fs::metadata(path).and_then(|m| m.modified());
    modified.ok().and_then(|at| SystemTime::now().duration_since(at).ok()).unwrap_or_default()
}
