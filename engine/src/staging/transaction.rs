//! The staged objects of one write transaction, from its first statement to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coldfront_common::ident::TableRef;

use super::attribution::is_below;
use super::journal::{Base, Entries, Journal};
use super::outcome::{self, Outcome};
use super::recovery::RETRY;
use super::remove::remove_staged;
use super::target::written_tables;
use crate::duckdb;
use crate::gateway::client;
use crate::gateway::observe::{CommitEvent, CommitOutcome};
use crate::instance::Instance;

/// How long the removal may keep a rollback waiting.
const REMOVE_LIMIT: Duration = Duration::from_secs(10);
/// When to look a second time for objects of a statement that was interrupted.
const SECOND_LOOK: Duration = Duration::from_secs(2);
/// How long to wait for the gateway to learn what became of a commit.
const SETTLE_LIMIT: Duration = Duration::from_secs(150);
/// How long the catalog is asked again about a commit whose answer was lost.
const ASK_LIMIT: Duration = Duration::from_secs(10);
/// Pause between two such questions.
const ASK_PAUSE: Duration = Duration::from_millis(500);

/// Why a commit is not known to have succeeded.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Nothing was published.
    #[error("{0}")]
    DuckDb(duckdb::Error),
    /// The catalog refused it; 409 means that another writer came first.
    #[error("the Iceberg catalog refused the commit with status {status}: {error}")]
    Refused { status: u16, error: duckdb::Error },
    /// The answer was lost, and the catalog says that nothing was published.
    #[error("the Iceberg catalog did not apply the commit: {cause}")]
    Lost { cause: String },
    /// A catalog without multi-table commits applied it to some tables only.
    #[error("the Iceberg catalog applied the commit to some tables only: {error}")]
    Partial { error: duckdb::Error },
    /// Nobody knows.
    #[error("the Iceberg catalog cannot tell whether the commit was applied: {cause}")]
    Unknown { cause: String },
}

/// See the module.
pub struct WriteStaging {
    instance: Arc<Instance>,
    journal: Arc<Journal>,
    tables: Vec<TableRef>,
    /// A statement ended early, so that uploads may still be under way.
    pub interrupted: bool,
    resolved: bool,
}

impl WriteStaging {
    pub fn new(instance: Arc<Instance>) -> Self {
        let journal = instance.journals.begin(&instance.lake);
        Self { instance, journal, tables: Vec::new(), interrupted: false, resolved: false }
    }

    /// Gets ready for a statement: from now on, objects at the tables it writes are attributed to this transaction.
    pub fn prepare(&mut self, sql: &str) {
        for table in written_tables(sql) {
            if !self.tables.contains(&table) {
                self.claim(&table);
                self.tables.push(table);
            }
        }
    }

    /// A table that cannot be loaded is not claimed: the statement will fail or create it.
    fn claim(&self, table: &TableRef) {
        let Some(registration) = self.instance.registration() else { return };
        match client::load_table(registration, &[&table.namespace], &table.name) {
            Ok(metadata) => {
                self.journal.table(Base {
                    namespace: table.namespace.clone(),
                    name: table.name.clone(),
                    uuid: metadata.table_uuid,
                    location: metadata.location.clone(),
                    snapshot: metadata.current_snapshot_id,
                });
                self.instance.attribution.claim(&metadata.location, &self.journal);
            }
            Err(error) => tracing::debug!(%table, %error, "a table to be written is not in the catalog"),
        }
    }

    /// Commits through `commit` and finds out what became of it, whatever DuckDB says.
    pub fn commit(mut self, commit: impl FnOnce() -> Result<u64, duckdb::Error>) -> Result<(), CommitError> {
        let instance = self.instance.clone();
        let Some(registration) = instance.registration() else {
            self.resolved = true;
            return commit().map(drop).map_err(CommitError::DuckDb);
        };
        let watch = registration.watch_commits();
        self.journal.committing();
        let said = commit();
        let settled = watch.settle(SETTLE_LIMIT);
        let entries = self.journal.entries();
        if !settled {
            // Whatever DuckDB was told meanwhile, nobody knows.
            return self.settle_unknown(&entries, "the catalog has not answered yet".to_owned());
        }
        let events: Vec<CommitEvent> = (watch.events().into_iter()).filter(|e| self.is_ours(e, &entries)).collect();
        if let Some(cause) = events.iter().find_map(unknown) {
            return self.settle_unknown(&entries, cause);
        }
        let Err(error) = said else {
            self.forget();
            return Ok(());
        };
        let applied: Vec<&CommitEvent> = events.iter().filter(|e| e.outcome == CommitOutcome::Committed).collect();
        if !applied.is_empty() {
            if applied.len() == events.len() {
                tracing::warn!(%error, "DuckDB reports a failure of a commit that the catalog applied");
                self.forget();
                return Ok(());
            }
            self.undo_except(&locations(&entries, &applied));
            return Err(CommitError::Partial { error });
        }
        self.undo();
        let refused = events.iter().find_map(|event| match event.outcome {
            CommitOutcome::Refused { status } => Some(status),
            _ => None,
        });
        Err(match refused {
            Some(status) => CommitError::Refused { status, error },
            None => CommitError::DuckDb(error),
        })
    }

    /// True if a commit that passed the gateway is this transaction's.
    fn is_ours(&self, event: &CommitEvent, entries: &Entries) -> bool {
        let Some(tables) = &event.tables else { return true };
        tables.iter().any(|table| {
            let written = self.tables.iter().any(|t| table.namespace.join(".") == t.namespace && table.name == t.name);
            let staged = |id: &i64| entries.objects.iter().any(|object| object.contains(&format!("/snap-{id}-")));
            written || table.new_snapshots.iter().any(staged)
        })
    }

    /// The answer to the commit was lost: asks the catalog until it knows.
    fn settle_unknown(mut self, entries: &Entries, cause: String) -> Result<(), CommitError> {
        let Some(registration) = self.instance.registration() else { return Err(CommitError::Unknown { cause }) };
        let began = Instant::now();
        loop {
            let outcome = outcome::ask(registration, entries);
            if outcome == Outcome::Committed {
                self.forget();
                return Ok(());
            }
            if began.elapsed() < ASK_LIMIT {
                std::thread::sleep(ASK_PAUSE);
                continue;
            }
            // The journal stays: the objects are removed once the catalog had time to apply what may still be on its way.
            self.leave_to_recovery();
            return Err(match outcome {
                Outcome::NotCommitted => CommitError::Lost { cause },
                Outcome::Untraceable(why) | Outcome::Unreachable(why) => CommitError::Unknown { cause: why },
                Outcome::Committed => CommitError::Unknown { cause },
            });
        }
    }

    /// Removes everything that was staged. DuckDB's transaction must have ended before.
    pub fn undo(&mut self) {
        self.undo_except(&[]);
    }

    /// Removes what was staged, but nothing at these table locations.
    fn undo_except(&mut self, kept: &[String]) {
        if std::mem::replace(&mut self.resolved, true) {
            return;
        }
        self.instance.attribution.close(&self.journal);
        let mut entries = self.journal.entries();
        entries.objects.retain(|object| !kept.iter().any(|location| is_below(object, location)));
        if !self.interrupted {
            // Statements that ran to their end have finished their uploads.
            entries.opened.clear();
        }
        match remove_staged(&self.instance, &entries, REMOVE_LIMIT) {
            // DuckDB's upload threads do not stop with the statement.
            Ok(()) if self.interrupted && self.journal.is_begun() => {
                self.instance.journals.leave(self.journal.path.clone(), SECOND_LOOK);
            }
            Ok(()) => {
                self.instance.attribution.release(&self.journal.path);
                self.journal.forget();
            }
            Err(error) => {
                let chain = anyhow::Error::from(error);
                tracing::warn!("{chain:#}; it will be tried again");
                self.instance.journals.leave(self.journal.path.clone(), RETRY);
            }
        }
    }

    fn forget(&mut self) {
        self.resolved = true;
        self.instance.attribution.release(&self.journal.path);
        self.journal.forget();
    }

    fn leave_to_recovery(&mut self) {
        self.resolved = true;
        self.instance.attribution.release(&self.journal.path);
        self.instance.journals.leave(self.journal.path.clone(), RETRY);
    }
}

/// Locations of the tables of some commits.
fn locations(entries: &Entries, commits: &[&CommitEvent]) -> Vec<String> {
    let tables = || commits.iter().filter_map(|event| event.tables.as_ref()).flatten();
    let is_in = |base: &&Base| tables().any(|t| t.namespace.join(".") == base.namespace && t.name == base.name);
    entries.tables.iter().filter(is_in).map(|base| base.location.clone()).collect()
}

fn unknown(event: &CommitEvent) -> Option<String> {
    match &event.outcome {
        CommitOutcome::Unknown { cause } => Some(cause.clone()),
        _ => None,
    }
}

impl Drop for WriteStaging {
    /// A transaction that is dropped was lost with its connection.
    fn drop(&mut self) {
        self.interrupted = true;
        self.undo();
    }
}
