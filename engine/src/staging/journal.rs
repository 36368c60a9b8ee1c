//! The journal files: one per write transaction, a line of JSON per event, never a credential.
//!
//! A line is in the file before the object it names can exist. It survives the end of this process, not of the
//! machine: an `fsync` per object would cost more than the orphan it could save, which the compactor finds anyway.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use coldfront_common::frame::Lake;
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// Where the objects are; the first line.
    Lake { warehouse: String, catalog_uri: String },
    /// A table that the transaction writes, as it was before.
    Table(Base),
    /// An object that was written to.
    Object(String),
    /// An object that was opened, perhaps for writing: it may have an unfinished upload, and no more is known.
    Opened(String),
    /// Somebody else wrote at this table location meanwhile, so the objects there may be somebody else's.
    Shared(String),
    /// COMMIT was sent: from here on only the catalog knows whether the objects are in use.
    Committing,
}

/// A table before the transaction wrote to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    pub namespace: String,
    pub name: String,
    pub uuid: String,
    pub location: String,
    /// Current snapshot; none for an empty table.
    pub snapshot: Option<i64>,
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.name)
    }
}

/// Which lake a journal belongs to, without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LakeName {
    pub warehouse: String,
    pub catalog_uri: String,
}

impl From<&Lake> for LakeName {
    fn from(lake: &Lake) -> Self {
        Self { warehouse: lake.warehouse.clone(), catalog_uri: lake.catalog_uri.clone() }
    }
}

/// What a journal says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    pub lake: Option<LakeName>,
    pub tables: Vec<Base>,
    /// What the transaction wrote.
    pub objects: BTreeSet<String>,
    /// What may have an unfinished upload; all objects are among it.
    pub opened: BTreeSet<String>,
    /// Table locations where nothing may be removed.
    pub shared: BTreeSet<String>,
    pub committing: bool,
}

impl Entries {
    fn add(&mut self, line: Line) {
        match line {
            Line::Lake { warehouse, catalog_uri } => self.lake = Some(LakeName { warehouse, catalog_uri }),
            Line::Table(base) => self.tables.push(base),
            Line::Object(path) => {
                self.objects.insert(path);
            }
            Line::Opened(path) => {
                self.opened.insert(path);
            }
            Line::Shared(location) => {
                self.shared.insert(location);
            }
            Line::Committing => self.committing = true,
        }
    }

    /// Reads a file. A last line that was cut off is ignored: its object was never opened.
    fn read(path: &Path) -> io::Result<Self> {
        let mut entries = Self::default();
        for line in fs::read_to_string(path)?.lines() {
            match serde_json::from_str(line) {
                Ok(line) => entries.add(line),
                Err(_) => break,
            }
        }
        Ok(entries)
    }
}

/// The directory of journals.
#[derive(Debug)]
pub struct JournalDir {
    path: PathBuf,
    next: AtomicU64,
    /// Journals whose transaction is over but whose objects may still be there.
    left_over: Mutex<Vec<LeftOver>>,
}

#[derive(Debug)]
struct LeftOver {
    path: PathBuf,
    /// Not to be looked at before.
    due: Instant,
}

impl JournalDir {
    /// Opens the directory and notes what an earlier process left in it.
    pub fn open(path: PathBuf) -> io::Result<Arc<Self>> {
        let mut left_over = Vec::new();
        for entry in fs::read_dir(&path)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "jsonl") {
                left_over.push(LeftOver { path, due: Instant::now() });
            }
        }
        if !left_over.is_empty() {
            tracing::info!(transactions = left_over.len(), "an earlier engine left staged objects behind");
        }
        // Names never repeat across processes, so a left-over file is never appended to.
        let start = UNIX_EPOCH.elapsed().map_or(0, |t| u64::try_from(t.as_micros()).unwrap_or(0));
        Ok(Arc::new(Self { path, next: AtomicU64::new(start), left_over: Mutex::new(left_over) }))
    }

    /// Begins the journal of a transaction. Its file appears with the first object.
    pub fn begin(&self, lake: &Lake) -> Arc<Journal> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let LakeName { warehouse, catalog_uri } = lake.into();
        let path = self.path.join(format!("{number}.jsonl"));
        let state =
            State { file: None, pending: vec![Line::Lake { warehouse, catalog_uri }], entries: Entries::default() };
        let began_ms = UNIX_EPOCH.elapsed().map_or(0, |t| u64::try_from(t.as_millis()).unwrap_or(0));
        Arc::new(Journal { path, began_ms, state: Mutex::new(state) })
    }

    /// Takes the left-over journals of one lake that are due; the caller deals with them or gives them back.
    pub fn take_left_over(&self, lake: &LakeName) -> Vec<(PathBuf, Entries)> {
        let mut taken = Vec::new();
        let now = Instant::now();
        self.lock().retain(|LeftOver { path, due }| {
            if *due > now {
                return true;
            }
            match Entries::read(path) {
                Ok(entries) if entries.lake.as_ref() == Some(lake) => {
                    taken.push((path.clone(), entries));
                    false
                }
                Ok(_) => true,
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "cannot read a staging journal");
                    error.kind() != io::ErrorKind::NotFound
                }
            }
        });
        taken
    }

    /// Hands a journal over to whoever tidies up, to be looked at after `delay`.
    pub fn leave(&self, path: PathBuf, delay: Duration) {
        self.lock().push(LeftOver { path, due: Instant::now() + delay });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LeftOver>> {
        self.left_over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The journal of one transaction.
#[derive(Debug)]
pub struct Journal {
    pub path: PathBuf,
    /// When the transaction began, in milliseconds since 1970.
    pub began_ms: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: Option<File>,
    /// Lines that wait for the first object.
    pending: Vec<Line>,
    entries: Entries,
}

impl Journal {
    /// Notes a table that the transaction writes.
    pub fn table(&self, base: Base) {
        self.append_or_keep(Line::Table(base));
    }

    /// Writes a line that matters only if there is an object, now or in the future.
    fn append_or_keep(&self, line: Line) {
        let mut state = self.lock();
        if state.file.is_some() {
            self.append(&mut state, line);
        } else {
            state.pending.push(line);
        }
    }

    /// Notes an object that was written to; false if it was known.
    pub fn object(&self, path: &str) -> bool {
        let state = self.lock();
        !state.entries.objects.contains(path) && self.note(state, Line::Object(path.to_owned()))
    }

    /// Notes an object that was opened; false if it was known.
    pub fn opened(&self, path: &str) -> bool {
        let state = self.lock();
        !state.entries.opened.contains(path) && self.note(state, Line::Opened(path.to_owned()))
    }

    fn note(&self, mut state: MutexGuard<'_, State>, line: Line) -> bool {
        for line in std::mem::take(&mut state.pending) {
            self.append(&mut state, line);
        }
        self.append(&mut state, line);
        true
    }

    /// Notes that COMMIT is about to be sent.
    pub fn committing(&self) {
        self.append_or_keep(Line::Committing);
    }

    /// Notes that somebody else committed to the table of this name, unless it is this transaction that is committing.
    pub fn shared(&self, is_table: impl Fn(&Base) -> bool) {
        let state = self.lock();
        let pending = state.pending.iter().filter_map(|line| match line {
            Line::Table(base) => Some(base),
            _ => None,
        });
        let committing = state.entries.committing || state.pending.contains(&Line::Committing);
        let tables: Vec<Base> = match committing {
            true => Vec::new(),
            false => state.entries.tables.iter().chain(pending).filter(|base| is_table(base)).cloned().collect(),
        };
        drop(state);
        for base in tables {
            tracing::warn!(table = %base, "another transaction committed to a table that is being written; staged objects are left to the compactor");
            self.append_or_keep(Line::Shared(base.location));
        }
    }

    /// True if there is a file, that is, if anything was staged.
    pub fn is_begun(&self) -> bool {
        self.lock().file.is_some()
    }

    pub fn entries(&self) -> Entries {
        self.lock().entries.clone()
    }

    /// Removes the file: nothing is left to be done.
    pub fn forget(&self) {
        if self.lock().file.take().is_some() {
            forget(&self.path);
        }
    }

    /// A journal that cannot be written is logged, and the statement goes on: its objects may then outlive a crash.
    fn append(&self, state: &mut State, line: Line) {
        let mut text = serde_json::to_string(&line).unwrap_or_default();
        text.push('\n');
        state.entries.add(line);
        if let Err(error) = self.write(state, text.as_bytes()) {
            tracing::error!(path = %self.path.display(), %error, "cannot write a staging journal");
        }
    }

    fn write(&self, state: &mut State, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut state.file {
            Some(file) => file,
            None => {
                let file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&self.path)?;
                state.file.insert(file)
            }
        };
        file.write_all(bytes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a journal file.
pub fn forget(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "cannot remove a staging journal");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_survives_its_process_and_is_found_by_lake() {
        let root = tempfile::tempdir().unwrap();
        let lake = Lake { warehouse: "w".into(), catalog_uri: "http://c".into(), ..Lake::default() };
        {
            let directory = JournalDir::open(root.path().to_owned()).unwrap();
            let journal = directory.begin(&lake);
            let base = Base {
                namespace: "n".into(),
                name: "t".into(),
                uuid: "u".into(),
                location: "l".into(),
                snapshot: Some(7),
            };
            journal.table(base);
            assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "no object, no file");
            assert!(journal.object("s3://b/1"));
            assert!(!journal.object("s3://b/1"));
            journal.committing();
            let mut file = OpenOptions::new().append(true).open(&journal.path).unwrap();
            file.write_all(b"{\"object\":\"s3://b/cut").unwrap();
        }
        let directory = JournalDir::open(root.path().to_owned()).unwrap();
        let other = LakeName { warehouse: "other".into(), catalog_uri: "http://c".into() };
        assert!(directory.take_left_over(&other).is_empty());
        let taken = directory.take_left_over(&(&lake).into());
        assert_eq!(taken.len(), 1);
        let entries = &taken[0].1;
        assert_eq!(entries.objects.iter().collect::<Vec<_>>(), ["s3://b/1"]);
        assert!(entries.committing && entries.tables.len() == 1 && entries.tables[0].snapshot == Some(7));
        assert!(directory.take_left_over(&(&lake).into()).is_empty(), "taken once");
    }
}
