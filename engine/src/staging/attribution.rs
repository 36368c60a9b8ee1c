//! Tells which transaction an object belongs to that DuckDB writes.
//!
//! DuckDB's log names the object but not the connection. Writers of one table take turns, so the table's location
//! tells the transaction. Should two transactions claim one location, what is written there meanwhile belongs to
//! neither.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use super::journal::Journal;
use crate::duckdb::{LogEntry, LogSink};

/// Name of the log storage that feeds [`Attribution`].
pub const LOG_STORAGE: &str = "coldfront_staging";

/// The table locations that transactions of one instance write to.
#[derive(Debug, Default)]
pub struct Attribution {
    claims: Mutex<HashMap<String, Vec<Arc<Journal>>>>,
}

impl Attribution {
    /// SQL that makes DuckDB log what it does to files.
    pub fn enable_sql() -> String {
        format!("CALL enable_logging('FileSystem', level => 'trace', storage => '{LOG_STORAGE}')")
    }

    /// From now on, objects below `location` belong to `journal`.
    pub fn claim(&self, location: &str, journal: &Arc<Journal>) {
        let mut claims = self.lock();
        let owners = claims.entry(directory(location)).or_default();
        if !owners.iter().any(|owner| Arc::ptr_eq(owner, journal)) {
            owners.push(journal.clone());
            if owners.len() > 1 {
                tracing::warn!(
                    location,
                    "two transactions write one table at a time; staged objects of both are left to the compactor"
                );
            }
        }
    }

    /// Ends every claim of `journal`.
    pub fn release(&self, journal: &Arc<Journal>) {
        self.lock().retain(|_, owners| {
            owners.retain(|owner| !Arc::ptr_eq(owner, journal));
            !owners.is_empty()
        });
    }

    /// The one transaction that holds the place of `path`.
    fn owner(&self, path: &str) -> Option<Arc<Journal>> {
        let claims = self.lock();
        let mut holders = claims.iter().filter(|(location, _)| bare(path).starts_with(location.as_str()));
        match (holders.next(), holders.next()) {
            (Some((_, owners)), None) if owners.len() == 1 => Some(owners[0].clone()),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<Journal>>>> {
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
    fn write(&self, entry: &LogEntry<'_>) {
        // Most entries are reads; this test spares parsing them.
        if !entry.message.contains("\"op\":\"WRITE\"") {
            return;
        }
        let Ok(message) = serde_json::from_str::<Message<'_>>(entry.message) else { return };
        if let Some(journal) = self.owner(&message.path) {
            journal.object(&message.path);
        }
    }
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
    use crate::staging::journal::JournalDir;
    use coldfront_common::frame::Lake;

    fn log(attribution: &Attribution, path: &str, op: &str) {
        let message = format!(r#"{{"fs":"S3FileSystem","path":"{path}","op":"{op}","bytes":"3","pos":"0"}}"#);
        attribution.write(&LogEntry { log_type: "FileSystem", message: &message });
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
        log(&attribution, "s3://w/n/t2/data/3.parquet", "WRITE");
        log(&attribution, "/w/n/u/data/4.parquet", "WRITE");
        assert_eq!(a.entries().objects.iter().collect::<Vec<_>>(), ["s3://w/n/t/data/1.parquet"]);
        assert_eq!(b.entries().objects.iter().collect::<Vec<_>>(), ["/w/n/u/data/4.parquet"]);

        attribution.claim("s3://w/n/t", &b);
        log(&attribution, "s3://w/n/t/data/5.parquet", "WRITE");
        attribution.release(&b);
        log(&attribution, "s3://w/n/t/data/6.parquet", "WRITE");
        assert_eq!(a.entries().objects.len(), 2);
        assert_eq!(b.entries().objects.len(), 1);
    }
}
