//! What a commit does, as far as its body tells. Reading is lenient: what is not understood is skipped.

use serde::Deserialize;

use crate::gateway::observe::CommittedTable;
use crate::gateway::table::{TableMetadata, snapshot_or_none};

/// One table's part of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub table: CommittedTable,
    /// The state of the table on which alone the catalog applies this.
    guard: Option<Guard>,
    /// What the table's uuid becomes, if the commit says so.
    uuid: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    /// There is no such table.
    Missing,
    /// Its current snapshot is this one.
    At(Option<i64>),
}

impl Change {
    /// Whether sending this twice applies it once.
    pub fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// Whether `table` is in a state on which this cannot be applied any more.
    pub fn is_stale(&self, table: Option<&TableMetadata>) -> bool {
        match (self.guard, table) {
            (Some(Guard::Missing), table) => table.is_some(),
            (Some(Guard::At(base)), Some(table)) => table.current_snapshot_id != base,
            (Some(Guard::At(_)), None) => true,
            (None, _) => false,
        }
    }

    /// Whether a table shows that this was applied to it; None if this leaves nothing behind that could be recognised.
    pub fn is_in(&self, table: Option<&TableMetadata>) -> Option<bool> {
        if let Some(id) = self.table.new_snapshots.last() {
            return Some(table.is_some_and(|t| t.snapshot(*id).is_some()));
        }
        let uuid = self.uuid.as_ref().filter(|_| self.table.creates)?;
        Some(table.is_some_and(|t| t.table_uuid == *uuid))
    }

    /// Whether there are files that only this commit makes part of the table.
    pub fn brings_files(&self) -> bool {
        !self.table.new_snapshots.is_empty()
    }
}

/// Reads the body of a commit to one table; without a readable body, the path still tells which table it is.
pub fn of_table(body: Option<&[u8]>, namespace: Vec<String>, name: String) -> Change {
    let wire: TableChange = body.and_then(|body| serde_json::from_slice(body).ok()).unwrap_or_default();
    wire.read(namespace, name)
}

/// Reads the body of a transaction; None if it cannot be understood.
pub fn of_transaction(body: &[u8]) -> Option<Vec<Change>> {
    let transaction: Transaction = serde_json::from_slice(body).ok()?;
    let read = |mut change: TableChange| {
        let Identifier { namespace, name } = change.identifier.take()?;
        Some(change.read(namespace, name))
    };
    transaction.table_changes.into_iter().map(read).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Transaction {
    table_changes: Vec<TableChange>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct TableChange {
    identifier: Option<Identifier>,
    requirements: Vec<Requirement>,
    updates: Vec<Update>,
}

#[derive(Deserialize)]
struct Identifier {
    namespace: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Requirement {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(rename = "ref")]
    reference: Option<String>,
    #[serde(rename = "snapshot-id", default, deserialize_with = "snapshot_or_none")]
    snapshot_id: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Update {
    #[serde(default)]
    action: String,
    snapshot: Option<AddedSnapshot>,
    ref_name: Option<String>,
    snapshot_id: Option<i64>,
    uuid: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct AddedSnapshot {
    snapshot_id: i64,
}

impl TableChange {
    fn read(self, namespace: Vec<String>, name: String) -> Change {
        let moves_main =
            |update: &&Update| update.action == "set-snapshot-ref" && update.ref_name.as_deref() == Some("main");
        let creates = self.requirements.iter().any(|r| r.kind == "assert-create");
        let fixes_main =
            |r: &&Requirement| r.kind == "assert-ref-snapshot-id" && r.reference.as_deref() == Some("main");
        let base = self.requirements.iter().find(fixes_main).map(|r| Guard::At(r.snapshot_id));
        Change {
            guard: if creates { Some(Guard::Missing) } else { base },
            uuid: self.updates.iter().rfind(|u| u.action == "assign-uuid").and_then(|u| u.uuid.clone()),
            table: CommittedTable {
                namespace,
                name,
                new_snapshots: self.updates.iter().filter_map(|u| u.snapshot.as_ref()).map(|s| s.snapshot_id).collect(),
                current_snapshot: self.updates.iter().rfind(moves_main).and_then(|u| u.snapshot_id),
                creates,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"table-changes": [
        {"identifier": {"namespace": ["a", "b"], "name": "t"},
         "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": null}],
         "updates": [
            {"action": "add-snapshot", "snapshot": {"snapshot-id": 7, "summary": {"operation": "append"}}},
            {"action": "add-snapshot", "snapshot": {"snapshot-id": -8, "parent-snapshot-id": 7}},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": -8},
            {"action": "set-snapshot-ref", "ref-name": "tag", "type": "tag", "snapshot-id": 7},
            {"action": "of-the-future", "x": [1]}]},
        {"identifier": {"namespace": ["c"], "name": "n"}, "requirements": [{"type": "assert-create"}],
         "updates": [{"action": "assign-uuid", "uuid": "u1"}]},
        {"identifier": {"namespace": ["c"], "name": "p"}, "requirements": [{"type": "assert-table-uuid", "uuid": "u2"}],
         "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}]}"#;

    fn table(uuid: &str, snapshots: &[i64]) -> TableMetadata {
        let snapshots: Vec<_> = snapshots.iter().map(|id| serde_json::json!({"snapshot-id": id})).collect();
        let json = serde_json::json!({"table-uuid": uuid, "location": "l", "snapshots": snapshots});
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_transaction_names_its_tables_and_snapshots() {
        let changes = of_transaction(BODY).unwrap();
        let expected = CommittedTable {
            namespace: vec!["a".into(), "b".into()],
            name: "t".into(),
            new_snapshots: vec![7, -8],
            current_snapshot: Some(-8),
            creates: false,
        };
        assert_eq!(changes[0].table, expected);
        assert_eq!((changes[1].table.name.as_str(), changes[1].table.creates), ("n", true));
        let guarded: Vec<_> = changes.iter().map(Change::is_guarded).collect();
        assert_eq!(guarded, [true, true, false]);
        let files: Vec<_> = changes.iter().map(Change::brings_files).collect();
        assert_eq!(files, [true, false, false]);
    }

    #[test]
    fn a_change_is_recognised_in_its_table() {
        let changes = of_transaction(BODY).unwrap();
        assert_eq!(changes[0].is_in(Some(&table("u", &[7, -8, 9]))), Some(true));
        assert_eq!(changes[0].is_in(Some(&table("u", &[7]))), Some(false));
        assert_eq!(changes[0].is_in(None), Some(false));
        assert_eq!(changes[1].is_in(Some(&table("u1", &[]))), Some(true));
        assert_eq!(changes[1].is_in(Some(&table("u3", &[]))), Some(false));
        assert_eq!(changes[2].is_in(Some(&table("u2", &[]))), None);
    }

    #[test]
    fn a_change_is_stale_once_its_table_moved_on() {
        let changes = of_transaction(BODY).unwrap();
        let mut moved = table("u", &[9]);
        assert!(!changes[0].is_stale(Some(&moved)));
        moved.current_snapshot_id = Some(9);
        assert!(changes[0].is_stale(Some(&moved)) && changes[0].is_stale(None));
        assert!(changes[1].is_stale(Some(&moved)) && !changes[1].is_stale(None));
        assert!(!changes[2].is_stale(Some(&moved)));
    }

    #[test]
    fn strange_bodies_are_not_understood_and_do_no_harm() {
        for body in [&b""[..], b"{", b"[]", b"{}", br#"{"table-changes":[{}]}"#, br#"{"table-changes":7}"#] {
            assert_eq!(of_transaction(body), None);
        }
        assert_eq!(of_table(Some(b"!"), vec!["n".into()], "t".into()).table.name, "t");
    }
}
