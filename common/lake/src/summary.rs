//! Totals in a snapshot's summary, and what a commit adds to and takes from them.
//! Spec, appendix "Optional Snapshot Summary Fields".

use std::collections::HashMap;

use iceberg::spec::{DataContentType, DataFile, Summary};

/// What a snapshot holds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    pub records: u64,
    pub files_size: u64,
    pub data_files: u64,
    pub delete_files: u64,
    pub position_deletes: u64,
    pub equality_deletes: u64,
}

impl Totals {
    /// As the writer of the snapshot counted; none if it did not.
    pub fn from_summary(summary: &Summary) -> Option<Self> {
        let get = |name: &str| summary.additional_properties.get(name)?.parse().ok();
        Some(Self {
            records: get("total-records")?,
            files_size: get("total-files-size")?,
            data_files: get("total-data-files")?,
            delete_files: get("total-delete-files")?,
            position_deletes: get("total-position-deletes")?,
            equality_deletes: get("total-equality-deletes")?,
        })
    }

    pub fn count(&mut self, file: &DataFile) {
        self.add(file.content_type(), file.record_count(), file.file_size_in_bytes());
    }

    pub fn add(&mut self, content: DataContentType, records: u64, bytes: u64) {
        self.files_size += bytes;
        match content {
            DataContentType::Data => {
                self.data_files += 1;
                self.records += records;
            }
            DataContentType::PositionDeletes => {
                self.delete_files += 1;
                self.position_deletes += records;
            }
            DataContentType::EqualityDeletes => {
                self.delete_files += 1;
                self.equality_deletes += records;
            }
        }
    }

    fn changed(self, added: Self, removed: Self) -> Self {
        let change = |total: u64, added: u64, removed: u64| (total + added).saturating_sub(removed);
        Self {
            records: change(self.records, added.records, removed.records),
            files_size: change(self.files_size, added.files_size, removed.files_size),
            data_files: change(self.data_files, added.data_files, removed.data_files),
            delete_files: change(self.delete_files, added.delete_files, removed.delete_files),
            position_deletes: change(self.position_deletes, added.position_deletes, removed.position_deletes),
            equality_deletes: change(self.equality_deletes, added.equality_deletes, removed.equality_deletes),
        }
    }
}

/// Summary fields of a snapshot made from one with the totals `before`.
pub fn fields(before: Totals, added: Totals, removed: Totals) -> HashMap<String, String> {
    let after = before.changed(added, removed);
    let mut out: HashMap<String, String> = [
        ("total-records", after.records),
        ("total-files-size", after.files_size),
        ("total-data-files", after.data_files),
        ("total-delete-files", after.delete_files),
        ("total-position-deletes", after.position_deletes),
        ("total-equality-deletes", after.equality_deletes),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_string()))
    .into();
    let changes = [
        ("added-records", added.records),
        ("deleted-records", removed.records),
        ("added-files-size", added.files_size),
        ("removed-files-size", removed.files_size),
        ("added-data-files", added.data_files),
        ("deleted-data-files", removed.data_files),
        ("added-delete-files", added.delete_files),
        ("removed-delete-files", removed.delete_files),
        ("added-position-deletes", added.position_deletes),
        ("removed-position-deletes", removed.position_deletes),
        ("added-equality-deletes", added.equality_deletes),
        ("removed-equality-deletes", removed.equality_deletes),
    ];
    out.extend(changes.into_iter().filter(|(_, v)| *v > 0).map(|(name, value)| (name.to_owned(), value.to_string())));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_follow_what_is_added_and_removed() {
        let mut before = Totals::default();
        before.add(DataContentType::Data, 10, 100);
        before.add(DataContentType::PositionDeletes, 2, 20);
        let (mut added, removed) = (Totals::default(), before);
        added.add(DataContentType::Data, 8, 50);
        let out = fields(before, added, removed);
        assert_eq!((out["total-records"].as_str(), out["total-files-size"].as_str()), ("8", "50"));
        assert_eq!((out["total-delete-files"].as_str(), out["removed-position-deletes"].as_str()), ("0", "2"));
        assert!(!out.contains_key("added-delete-files"));
    }
}
