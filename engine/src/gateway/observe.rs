//! What became of the commits that passed through the gateway.
//!
//! A session must know whether the catalog applied its COMMIT, refused it, or whether nobody knows; DuckDB does not tell.
//! This module only reports: it may not change, delay or repeat a commit.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How a commit ended, as far as the gateway could see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The catalog answered 2xx, or was found to hold the new snapshots.
    Committed,
    /// The catalog answered with this status and changed nothing; 409 means that another writer came first.
    Refused { status: u16 },
    /// The request never reached the catalog, so nothing changed.
    NotSent { cause: String },
    /// The request was sent, but the connection was lost, or the catalog answered 5xx, and reading the table back did not
    /// settle it: it may have been applied or not, or be applied yet.
    Unknown { cause: String },
}

/// One table of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedTable {
    pub namespace: Vec<String>,
    pub name: String,
    /// Snapshots that the commit adds, in order.
    pub new_snapshots: Vec<i64>,
    /// What the commit makes the current snapshot, if it moves `main`.
    pub current_snapshot: Option<i64>,
    /// The commit creates the table.
    pub creates: bool,
}

/// A commit that passed through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitEvent {
    /// Every table of the commit; None if the request was too large or too strange to be understood.
    pub tables: Option<Vec<CommittedTable>>,
    pub outcome: CommitOutcome,
}

type Observer = Box<dyn Fn(&CommitEvent) + Send + Sync>;

/// The commits of one registration.
#[derive(Default)]
pub struct Commits {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    inner: Mutex<Inner>,
    settled: Condvar,
    observers: Mutex<Vec<Arc<Observer>>>,
}

#[derive(Default)]
struct Inner {
    /// Numbers of the commits on their way.
    in_flight: BTreeSet<u64>,
    last: u64,
    watches: Vec<Weak<Mutex<Vec<CommitEvent>>>>,
}

impl Commits {
    pub fn on_commit(&self, observer: Observer) {
        self.state.observers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(observer));
    }

    pub fn watch(&self) -> CommitWatch {
        let events = Arc::new(Mutex::new(Vec::new()));
        let mut inner = self.state.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.watches.retain(|watch| watch.strong_count() > 0);
        inner.watches.push(Arc::downgrade(&events));
        CommitWatch { events, state: self.state.clone() }
    }

    /// Announces a commit. It must be ended with [`InFlight::end`]; one that is dropped instead counts as unknown.
    pub fn begin(&self, tables: Option<Vec<CommittedTable>>) -> InFlight {
        let mut inner = self.state.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.last += 1;
        let number = inner.last;
        inner.in_flight.insert(number);
        InFlight { number, tables: Some(tables), state: self.state.clone() }
    }

    /// Whether somebody will look at the true outcome.
    pub fn is_watched(&self) -> bool {
        let inner = self.state.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.watches.iter().any(|watch| watch.strong_count() > 0)
    }
}

/// A commit on its way.
pub struct InFlight {
    number: u64,
    /// Taken when it ended.
    tables: Option<Option<Vec<CommittedTable>>>,
    state: Arc<State>,
}

impl InFlight {
    pub fn end(mut self, outcome: CommitOutcome) {
        self.publish(outcome);
    }

    fn publish(&mut self, outcome: CommitOutcome) {
        let Some(tables) = self.tables.take() else { return };
        let event = CommitEvent { tables, outcome };
        // Copied out, so that an observer may register another.
        let observers = self.state.observers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for observer in observers {
            observer(&event);
        }
        let mut inner = self.state.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for watch in inner.watches.iter().filter_map(Weak::upgrade) {
            watch.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
        }
        inner.in_flight.remove(&self.number);
        self.state.settled.notify_all();
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.publish(CommitOutcome::Unknown { cause: "the gateway stopped".to_owned() });
    }
}

/// Collects the commits of one registration while it lives.
pub struct CommitWatch {
    events: Arc<Mutex<Vec<CommitEvent>>>,
    state: Arc<State>,
}

impl CommitWatch {
    /// Commits that ended since the watch began.
    pub fn events(&self) -> Vec<CommitEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until every commit that the registration has in flight now has ended, so that [`Self::events`] knows them;
    /// false if that takes longer than `limit`. A client that was interrupted, or put off, leaves its commit running.
    pub fn settle(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut inner = self.state.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let last = inner.last;
        while inner.in_flight.first().is_some_and(|number| *number <= last) {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return false };
            inner = self.state.settled.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_sees_what_ends_during_its_life() {
        let commits = Commits::default();
        commits.begin(None).end(CommitOutcome::Committed);
        let watch = commits.watch();
        let in_flight = commits.begin(None);
        assert!(!watch.settle(Duration::from_millis(1)));
        in_flight.end(CommitOutcome::Refused { status: 409 });
        assert!(watch.settle(Duration::ZERO));
        assert_eq!(watch.events(), [CommitEvent { tables: None, outcome: CommitOutcome::Refused { status: 409 } }]);
    }

    #[test]
    fn a_commit_nobody_ended_is_unknown() {
        let commits = Commits::default();
        let watch = commits.watch();
        drop(commits.begin(None));
        assert!(matches!(watch.events()[0].outcome, CommitOutcome::Unknown { .. }));
    }

    #[test]
    fn observers_run_before_the_commit_counts_as_settled() {
        let commits = Commits::default();
        let seen = Arc::new(Mutex::new(0));
        let counter = seen.clone();
        commits.on_commit(Box::new(move |_| *counter.lock().unwrap() += 1));
        commits.begin(None).end(CommitOutcome::Committed);
        assert_eq!(*seen.lock().unwrap(), 1);
    }
}
