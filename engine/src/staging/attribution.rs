//! Tells which transaction an object belongs to that DuckDB writes.
//!
//! DuckDB's log names the object but not the connection. Writers of one table take turns, so the table's location
//! tells the transaction. Should two transactions claim one location, what is written there meanwhile belongs to
//! neither.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use super::journal::Journal;
use crate::duckdb::{LogEntry, LogSink};
use crate::gateway::observe::CommitEvent;

/// Name of the log storage that feeds [`Attribution`].
pub const LOG_STORAGE: &str = "coldfront_staging";

/// The table locations that transactions of one instance write to.
#[derive(Debug, Default)]
pub struct Attribution {
    claims: Mutex<HashMap<String, Vec<Claim>>>,
}

#[derive(Debug)]
struct Claim {
    journal: Arc<Journal>,
    /// The transaction is over, but DuckDB's threads may still begin uploads for it. Yields to any other claim: what they
    /// begin is rubbish in any transaction.
    closing: bool,
}

impl Attribution {
    /// SQL that makes DuckDB log what it does to files.
    pub fn enable_sql() -> String {
        format!("CALL enable_logging('FileSystem', level => 'trace', storage => '{LOG_STORAGE}')")
    }

    /// From now on, objects below `location` belong to `journal`.
    pub fn claim(&self, location: &str, journal: &Arc<Journal>) {
        let mut claims = self.lock();
        let holders = claims.entry(directory(location)).or_default();
        if !holders.iter().any(|claim| Arc::ptr_eq(&claim.journal, journal)) {
            if holders.iter().any(|claim| !claim.closing) {
                tracing::warn!(
                    location,
                    "two transactions write one table at a time; staged objects of both are left to the compactor"
                );
            }
            holders.push(Claim { journal: journal.clone(), closing: false });
        }
    }

    /// Hears of every commit that passes the gateway. One to a claimed table by anybody but the holder of the claim means
    /// that what is attributed to the holder may be somebody else's, and committed.
    pub fn committed(&self, event: &CommitEvent) {
        for claim in self.lock().values().flatten().filter(|claim| !claim.closing) {
            claim.journal.shared(|base| match &event.tables {
                Some(tables) => tables.iter().any(|t| t.namespace.join(".") == base.namespace && t.name == base.name),
                None => true,
            });
        }
    }

    /// Lets the claims of `journal` yield to others.
    pub fn close(&self, journal: &Arc<Journal>) {
        for claim in self.lock().values_mut().flatten().filter(|claim| Arc::ptr_eq(&claim.journal, journal)) {
            claim.closing = true;
        }
    }

    /// Ends every claim of the journal with this file.
    pub fn release(&self, file: &Path) {
        self.lock().retain(|_, holders| {
            holders.retain(|claim| claim.journal.path != file);
            !holders.is_empty()
        });
    }

    /// The one transaction that holds the place of `path`, and whether it is over.
    fn owner(&self, path: &str) -> Option<(Arc<Journal>, bool)> {
        let claims = self.lock();
        let holders = || {
            let here = claims.iter().filter(|(location, _)| bare(path).starts_with(location.as_str()));
            here.flat_map(|(_, holders)| holders)
        };
        let mut active = holders().filter(|claim| !claim.closing);
        let claim = match (active.next(), active.next()) {
            (Some(only), None) => Some(only),
            (Some(_), Some(_)) => None,
            (None, _) => holders().last(),
        };
        claim.map(|claim| (claim.journal.clone(), claim.closing))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Claim>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a `FileSystem` log message that matters.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    path: std::borrow::Cow<'a, str>,
}

impl LogSink for Attribution {
    /// DuckDB logs the opening before it happens and a write after it happened; an object appears when it is closed.
    fn write(&self, entry: &LogEntry<'_>) {
        let writes = entry.message.contains("\"op\":\"WRITE\"");
        // Most entries are reads; these tests spare parsing them.
        if !writes && !entry.message.contains("\"op\":\"OPEN\"") {
            return;
        }
        let Ok(message) = serde_json::from_str::<Message<'_>>(entry.message) else { return };
        let Some((journal, closing)) = self.owner(&message.path) else { return };
        if writes && !closing {
            journal.object(&message.path);
        } else if !is_older(&message.path, journal.began_ms) {
            journal.opened(&message.path);
        }
    }
}

/// True if the name of a data file tells that it was made before `time_ms`: DuckDB names them by UUIDs of version 7, which
/// begin with their time.
fn is_older(path: &str, time_ms: u64) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let hex: String = name.chars().filter(|c| *c != '-').take(13).collect();
    let made_ms = hex.get(..12).and_then(|time| u64::from_str_radix(time, 16).ok());
    hex.ends_with('7') && made_ms.is_some_and(|made_ms| made_ms < time_ms)
}

/// True if the object `path` lies at the table location `location`.
pub fn is_below(path: &str, location: &str) -> bool {
    bare(path).starts_with(&directory(location))
}

/// A location as a prefix of the paths below it, in one spelling.
fn directory(location: &str) -> String {
    format!("{}/", bare(location).trim_end_matches('/'))
}

/// DuckDB writes local paths without their scheme.
fn bare(path: &str) -> &str {
    path.strip_prefix("file://").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::observe::{CommitOutcome, CommittedTable};
    use crate::staging::journal::{Base, JournalDir};
    use coldfront_common::frame::Lake;

    fn log(attribution: &Attribution, path: &str, op: &str) {
        let message = format!(r#"{{"fs":"S3FileSystem","path":"{path}","op":"{op}","bytes":"3","pos":"0"}}"#);
        attribution.write(&LogEntry { log_type: "FileSystem", message: &message });
    }

    #[test]
    fn version_7_names_tell_their_age() {
        let name = "s3://lake/eng/t/data/p=1/01a22ce3-eb1c-7ebf-a00d-1d6a5592b347.parquet";
        assert!(is_older(name, 0x01a2_2ce3_eb1d) && !is_older(name, 0x01a2_2ce3_eb1c));
        assert!(!is_older("s3://lake/eng/t/data/84e9386f-e3a6-4396-9c14-1e1030c1e496-deletes.parquet", u64::MAX));
        assert!(!is_older("x", u64::MAX));
    }

    #[test]
    fn a_commit_by_somebody_else_protects_what_is_there() {
        let root = tempfile::tempdir().unwrap();
        let journals = JournalDir::open(root.path().to_owned()).unwrap();
        let attribution = Attribution::default();
        let holder = |name: &str| {
            let journal = journals.begin(&Lake::default());
            let location = format!("s3://w/n/{name}");
            journal.table(Base {
                namespace: "n".into(),
                name: name.into(),
                uuid: "u".into(),
                location: location.clone(),
                snapshot: None,
            });
            attribution.claim(&location, &journal);
            log(&attribution, &format!("{location}/data/1.parquet"), "WRITE");
            journal
        };
        let (idle, committing, other) = (holder("t"), holder("u"), holder("v"));
        committing.committing();
        let table = |name: &str| CommittedTable {
            namespace: vec!["n".into()],
            name: name.into(),
            new_snapshots: vec![1],
            current_snapshot: Some(1),
            creates: false,
        };
        let tables = Some(vec![table("t"), table("u")]);
        attribution.committed(&CommitEvent { tables, outcome: CommitOutcome::Committed });
        assert_eq!(idle.entries().shared.iter().collect::<Vec<_>>(), ["s3://w/n/t"]);
        assert!(committing.entries().shared.is_empty() && other.entries().shared.is_empty());
    }

    #[test]
    fn only_writes_below_a_location_with_one_holder_count() {
        let root = tempfile::tempdir().unwrap();
        let journals = JournalDir::open(root.path().to_owned()).unwrap();
        let (a, b) = (journals.begin(&Lake::default()), journals.begin(&Lake::default()));
        let attribution = Attribution::default();
        attribution.claim("s3://w/n/t", &a);
        attribution.claim("file:///w/n/u/", &b);
        log(&attribution, "s3://w/n/t/data/1.parquet", "WRITE");
        log(&attribution, "s3://w/n/t/data/1.parquet", "WRITE");
        log(&attribution, "s3://w/n/t/data/2.parquet", "READ");
        log(&attribution, "s3://w/n/t/data/9.parquet", "OPEN");
        log(&attribution, "s3://w/n/t2/data/3.parquet", "WRITE");
        log(&attribution, "/w/n/u/data/4.parquet", "WRITE");
        assert_eq!(a.entries().objects.iter().collect::<Vec<_>>(), ["s3://w/n/t/data/1.parquet"]);
        assert_eq!(a.entries().opened.iter().collect::<Vec<_>>(), ["s3://w/n/t/data/9.parquet"]);
        assert_eq!(b.entries().objects.iter().collect::<Vec<_>>(), ["/w/n/u/data/4.parquet"]);

        attribution.claim("s3://w/n/t", &b);
        log(&attribution, "s3://w/n/t/data/5.parquet", "WRITE");
        attribution.release(&b.path);
        log(&attribution, "s3://w/n/t/data/6.parquet", "WRITE");
        assert_eq!((a.entries().objects.len(), b.entries().objects.len()), (2, 1));

        attribution.close(&a);
        log(&attribution, "s3://w/n/t/data/7.parquet", "OPEN");
        log(&attribution, "s3://w/n/t/data/7.parquet", "WRITE");
        assert_eq!(a.entries().objects.len(), 2);
        assert!(a.entries().opened.contains("s3://w/n/t/data/7.parquet"), "its upload is to be given up");
        attribution.claim("s3://w/n/t", &b);
        log(&attribution, "s3://w/n/t/data/8.parquet", "WRITE");
        assert_eq!((a.entries().objects.len(), b.entries().objects.len()), (2, 2));
    }
}
