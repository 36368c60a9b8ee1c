//! Finds out from the catalog whether a transaction was committed whose answer is missing.
//!
//! "Not committed" is said only when the table's history from its current snapshot back to the one before the
//! transaction is complete and holds none of the transaction's snapshots. A gap (snapshots were expired meanwhile)
//! gives no verdict, because what was committed must never be removed.

use std::collections::{BTreeSet, HashMap};

use super::journal::{Base, Entries};
use crate::gateway::Registration;
use crate::gateway::client::{self, ClientError, TableMetadata};

/// The catalog's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    NotCommitted,
    /// The catalog answers, but its history does not tell any more.
    Untraceable(String),
    /// The catalog could not be asked.
    Unreachable(String),
}

/// Asks about all tables of a transaction. They were committed by one request, so one answer holds for all.
pub fn ask(registration: &Registration, entries: &Entries) -> Outcome {
    let mut verdict = Outcome::NotCommitted;
    for base in &entries.tables {
        let outcome = match client::load_table(registration, &[&base.namespace], &base.name) {
            Ok(metadata) => trace(base, &entries.objects, &metadata),
            Err(error @ ClientError::NotFound { .. }) => Outcome::Untraceable(error.to_string()),
            Err(error) => Outcome::Unreachable(error.to_string()),
        };
        match outcome {
            Outcome::Committed => return Outcome::Committed,
            Outcome::NotCommitted => {}
            other => verdict = other,
        }
    }
    verdict
}

/// Looks for the transaction's manifest lists in the table's history.
fn trace(base: &Base, objects: &BTreeSet<String>, metadata: &TableMetadata) -> Outcome {
    let name = format!("\"{}\".\"{}\"", base.namespace, base.name);
    if metadata.snapshots.iter().any(|snapshot| is_ours(&snapshot.manifest_list, objects)) {
        return Outcome::Committed;
    }
    if metadata.table_uuid != base.uuid {
        return Outcome::Untraceable(format!("{name} was dropped and created again"));
    }
    let parents: HashMap<i64, Option<i64>> = metadata.snapshots.iter().map(|s| (s.id, s.parent)).collect();
    let mut at = metadata.current_snapshot_id;
    // The history cannot be longer than the number of snapshots; a cycle would be a broken catalog.
    for _ in 0..=parents.len() {
        if at == base.snapshot {
            return Outcome::NotCommitted;
        }
        match at.and_then(|id| parents.get(&id)) {
            Some(parent) => at = *parent,
            None => break,
        }
    }
    Outcome::Untraceable(format!("the history of {name} does not reach back to the transaction"))
}

/// Manifest lists are compared without their scheme, which catalogs and DuckDB may spell differently.
fn is_ours(manifest_list: &str, objects: &BTreeSet<String>) -> bool {
    let bare = |path: &str| path.split_once("://").map_or(path, |(_, rest)| rest).to_owned();
    objects.contains(manifest_list) || objects.iter().any(|object| bare(object) == bare(manifest_list))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::client::Snapshot;

    fn table(current: Option<i64>, snapshots: &[(i64, Option<i64>)]) -> TableMetadata {
        TableMetadata {
            location: "s3://w/n/t".into(),
            table_uuid: "u".into(),
            current_snapshot_id: current,
            last_sequence_number: 0,
            snapshots: (snapshots.iter())
                .map(|(id, parent)| Snapshot {
                    id: *id,
                    parent: *parent,
                    sequence_number: 0,
                    manifest_list: format!("s3://w/n/t/metadata/snap-{id}-x.avro"),
                    summary: HashMap::new(),
                })
                .collect(),
            properties: HashMap::new(),
        }
    }

    #[test]
    fn only_a_complete_history_proves_absence() {
        let base = |snapshot| Base {
            namespace: "n".into(),
            name: "t".into(),
            uuid: "u".into(),
            location: "s3://w/n/t".into(),
            snapshot,
        };
        let ours = BTreeSet::from(["s3://w/n/t/metadata/snap-9-x.avro".to_owned()]);
        let is = |snapshot, metadata: TableMetadata| trace(&base(snapshot), &ours, &metadata);

        assert_eq!(is(Some(2), table(Some(2), &[(1, None), (2, Some(1))])), Outcome::NotCommitted);
        assert_eq!(is(Some(2), table(Some(3), &[(2, Some(1)), (3, Some(2))])), Outcome::NotCommitted);
        assert_eq!(is(None, table(None, &[])), Outcome::NotCommitted);
        assert_eq!(is(None, table(Some(1), &[(1, None)])), Outcome::NotCommitted);
        assert_eq!(is(Some(2), table(Some(9), &[(2, None), (9, Some(2))])), Outcome::Committed);
        assert_eq!(
            is(Some(2), table(Some(2), &[(2, None), (9, Some(2))])),
            Outcome::Committed,
            "rolled back, but kept"
        );
        assert!(matches!(is(Some(2), table(Some(5), &[(5, Some(4))])), Outcome::Untraceable(_)));
        assert!(matches!(is(Some(2), table(None, &[])), Outcome::Untraceable(_)));
        let other = TableMetadata { table_uuid: "v".into(), ..table(Some(2), &[(2, None)]) };
        assert!(matches!(is(Some(2), other), Outcome::Untraceable(_)));
    }
}
