//! Sizes of tables, for the planner: read from the catalog and remembered for a moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use coldfront_common::frame::{Stats, TableStats};

use crate::gateway::Registration;
use crate::gateway::client::{self, ClientError, Snapshot};
use crate::gateway::observe::CommitEvent;

/// How long a size is believed when nobody committed through this engine.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Sizes by namespace and table.
#[derive(Default)]
pub struct StatsCache(Mutex<HashMap<(String, String), (Instant, TableStats)>>);

impl StatsCache {
    /// Forgets a table's size whenever a commit to it passes through the gateway.
    pub fn follow(cache: &Arc<Self>, registration: &Registration) {
        let cache = Arc::downgrade(cache);
        registration.on_commit(move |event| {
            if let Some(cache) = cache.upgrade() {
                cache.forget(event);
            }
        });
    }

    /// The size of a table; `fresh` asks the catalog in any case.
    pub fn get(&self, registration: &Registration, asked: &Stats) -> Result<TableStats, ClientError> {
        let key = (asked.namespace.clone(), asked.table.clone());
        if !asked.fresh
            && let Some((read_at, stats)) = self.lock().get(&key)
            && read_at.elapsed() < MAX_AGE
        {
            return Ok(*stats);
        }
        let asked_at = Instant::now();
        let metadata = client::load_table(registration, &[&asked.namespace], &asked.table)?;
        let stats = metadata.current_snapshot().map(of_snapshot).unwrap_or_default();
        self.lock().insert(key, (asked_at, stats));
        Ok(TableStats { has: asked.has.is_some_and(|id| metadata.snapshot(id).is_some()), ..stats })
    }

    fn forget(&self, event: &CommitEvent) {
        let mut known = self.lock();
        match &event.tables {
            Some(tables) => {
                for table in tables {
                    known.remove(&(table.namespace.join("."), table.name.clone()));
                }
            }
            None => known.clear(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), (Instant, TableStats)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writers may leave totals out; a missing one counts as zero.
fn of_snapshot(snapshot: &Snapshot) -> TableStats {
    let total = |key: &str| snapshot.summary.get(key).and_then(|value| value.parse().ok()).unwrap_or(0);
    TableStats {
        rows: total("total-records"),
        bytes: total("total-files-size"),
        files: total("total-data-files"),
        snapshot: Some(snapshot.id),
        has: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_come_from_the_summary() {
        let snapshot = Snapshot {
            id: 1,
            parent: None,
            sequence_number: 1,
            manifest_list: String::new(),
            summary: HashMap::from([("total-records".into(), "12".into()), ("total-files-size".into(), "x".into())]),
        };
        assert_eq!(of_snapshot(&snapshot), TableStats { rows: 12, snapshot: Some(1), ..TableStats::default() });
    }
}
