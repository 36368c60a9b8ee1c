//! The part of a table's metadata that the engine reads, as the catalog tells it. It may not be written back.

use std::collections::HashMap;

use serde::Deserialize;

/// Answer to loading a table.
#[derive(Deserialize)]
pub struct LoadedTable {
    pub metadata: TableMetadata,
}

/// A table as of its current snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TableMetadata {
    pub location: String,
    pub table_uuid: String,
    /// None for a table without a snapshot.
    #[serde(default, deserialize_with = "snapshot_or_none")]
    pub current_snapshot_id: Option<i64>,
    #[serde(default)]
    pub last_sequence_number: i64,
    #[serde(default)]
    pub snapshots: Vec<Snapshot>,
    #[serde(default)]
    pub properties: HashMap<String, String>,
}

impl TableMetadata {
    pub fn snapshot(&self, id: i64) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.id == id)
    }

    pub fn current_snapshot(&self) -> Option<&Snapshot> {
        self.snapshot(self.current_snapshot_id?)
    }
}

/// One snapshot of a table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Snapshot {
    #[serde(rename = "snapshot-id")]
    pub id: i64,
    #[serde(rename = "parent-snapshot-id", default)]
    pub parent: Option<i64>,
    #[serde(default)]
    pub sequence_number: i64,
    #[serde(default)]
    pub manifest_list: String,
    /// `operation`, `total-records`, `total-files-size`, … as the writer put them.
    #[serde(default)]
    pub summary: HashMap<String, String>,
}

/// Writers of old say -1 for "none".
pub fn snapshot_or_none<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    Ok(Option::<i64>::deserialize(from)?.filter(|id| *id != -1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_as_far_as_needed() {
        let json = r#"{"format-version": 2, "table-uuid": "u", "location": "s3://l/t", "current-snapshot-id": 5,
            "last-sequence-number": 2, "properties": {"a": "b"}, "schemas": [{"x": 1}],
            "snapshots": [{"snapshot-id": 4, "manifest-list": "m4", "sequence-number": 1, "summary": {"operation": "append"}},
                          {"snapshot-id": 5, "parent-snapshot-id": 4, "manifest-list": "m5", "summary": {"total-records": "3"}}]}"#;
        let table: TableMetadata = serde_json::from_str(json).unwrap();
        assert_eq!(table.current_snapshot().unwrap().parent, Some(4));
        assert_eq!(table.current_snapshot().unwrap().summary["total-records"], "3");
        assert_eq!(table.snapshot(4).unwrap().manifest_list, "m4");
    }

    #[test]
    fn a_table_without_snapshots_has_none() {
        for current in ["", r#", "current-snapshot-id": -1"#, r#", "current-snapshot-id": null"#] {
            let json = format!(r#"{{"table-uuid": "u", "location": "l"{current}}}"#);
            let table: TableMetadata = serde_json::from_str(&json).unwrap();
            assert_eq!((table.current_snapshot_id, table.snapshots.len()), (None, 0));
        }
    }
}
