//! Which delete files apply to which data files. Spec, "Scan Planning".

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use coldfront_lake::read::Reader;
use futures::{StreamExt, TryStreamExt};
use iceberg::spec::{DataContentType, DataFileFormat, TableMetadata};

use super::positions;
use super::view::{File, Partition, View};
use crate::error::{Error, Result};

/// Delete files read at a time.
const AT_ONCE: usize = 16;

/// The delete files of a view.
#[derive(Default)]
pub struct Deletes {
    /// Position deletes by the data file they are for, with the number of rows they name in it.
    by_path: HashMap<String, Vec<(Arc<File>, u64)>>,
    equality: Vec<Arc<File>>,
    /// Data files that each position delete file names, by the delete file's path; kept for later views.
    named: HashMap<String, Arc<Vec<(String, u64)>>>,
    /// Specs without fields: their equality deletes apply to all partitions.
    global_specs: HashSet<i32>,
}

/// What applies to one data file.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    pub positions: Vec<Arc<File>>,
    pub equality: Vec<Arc<File>>,
    /// Rows that position deletes name; one that is named twice counts twice.
    pub rows: u64,
}

impl Applied {
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty() && self.equality.is_empty()
    }

    pub fn files(&self) -> usize {
        self.positions.len() + self.equality.len()
    }
}

impl Deletes {
    /// Reads what the manifests do not tell. What `before` knows of the same files is not read again.
    pub async fn of(reader: &Reader, metadata: &TableMetadata, view: &View, before: Self) -> Result<Self> {
        let global_specs = (metadata.partition_specs_iter())
            .filter(|spec| spec.is_unpartitioned())
            .map(|spec| spec.spec_id())
            .collect();
        let mut out = Self { global_specs, ..Self::default() };
        let mut named = before.named;
        let positions = view.deletes.iter().filter(|f| f.content == DataContentType::PositionDeletes);
        if let Some(file) = view.deletes.iter().find(|file| file.format != DataFileFormat::Parquet) {
            return Err(Error::Refused(format!(
                "{} is a delete file in format {}, which is not supported: compact with the engine that wrote it",
                file.path, file.format
            )));
        }
        // Bounds that were cut short may look like a path, but not like one that is there.
        let live: HashSet<&str> = view.data.iter().map(|file| file.path.as_str()).collect();
        let told = |file: &File| file.only_for.clone().filter(|path| live.contains(path.as_str()));
        let missing = positions.clone().filter(|f| told(f).is_none() && !named.contains_key(&f.path));
        let missing: Vec<_> = missing.cloned().collect();
        let mut reads = futures::stream::iter(missing)
            .map(|file| async move {
                let counts = positions::count_by_path(reader, &file).await?;
                Ok::<_, Error>((file.path.clone(), Arc::new(counts)))
            })
            .buffer_unordered(AT_ONCE);
        while let Some((path, counts)) = reads.try_next().await? {
            named.insert(path, counts);
        }
        drop(reads);
        for file in positions {
            if let Some(target) = told(file) {
                out.by_path.entry(target).or_default().push((Arc::clone(file), file.records));
            } else if let Some((path, counts)) = named.remove_entry(&file.path) {
                for (target, rows) in counts.iter() {
                    out.by_path.entry(target.clone()).or_default().push((Arc::clone(file), *rows));
                }
                out.named.insert(path, counts);
            }
        }
        out.equality = view.deletes.iter().filter(|f| f.content == DataContentType::EqualityDeletes).cloned().collect();
        Ok(out)
    }

    /// Deletes that have to be applied when `data` is read.
    pub fn applied_to(&self, data: &File) -> Applied {
        let named = self.by_path.get(&data.path).map(Vec::as_slice).unwrap_or_default();
        let positions = named.iter().filter(|(delete, _)| delete.sequence >= data.sequence);
        Applied {
            rows: positions.clone().map(|(_, rows)| rows).sum(),
            positions: positions.map(|(delete, _)| Arc::clone(delete)).collect(),
            equality: self.equality.iter().filter(|delete| self.removes_equal(delete, data)).cloned().collect(),
        }
    }

    fn removes_equal(&self, delete: &File, data: &File) -> bool {
        delete.sequence > data.sequence && self.in_scope(&delete.partition, &data.partition)
    }

    fn in_scope(&self, delete: &Partition, data: &Partition) -> bool {
        self.global_specs.contains(&delete.spec_id) || delete == data
    }

    /// Delete files that apply to nothing once the files in `gone` are gone and those in `added` are there, by their
    /// partitions and data sequence numbers. (No position delete can be for an added file.)
    pub fn dangling(&self, view: &View, gone: &HashSet<&str>, added: &[(Arc<Partition>, i64)]) -> Vec<String> {
        let alive = || view.data.iter().filter(|file| !gone.contains(file.path.as_str()));
        let needed_positions: HashSet<&str> = alive()
            .filter_map(|file| Some((file, self.by_path.get(&file.path)?)))
            .flat_map(|(file, deletes)| deletes.iter().filter(|(d, _)| d.sequence >= file.sequence))
            .map(|(delete, _)| delete.path.as_str())
            .collect();
        let sequences = alive().map(|file| (&file.partition, file.sequence));
        let needs_equality = self.needs_equality(sequences.chain(added.iter().map(|(of, sequence)| (of, *sequence))));
        view.deletes
            .iter()
            .filter(|delete| match delete.content {
                DataContentType::PositionDeletes => !needed_positions.contains(delete.path.as_str()),
                _ => !needs_equality(delete),
            })
            .map(|delete| delete.path.clone())
            .collect()
    }

    /// Whether an equality delete applies to one of the files: to the oldest of its scope, if to any.
    fn needs_equality<'a>(&self, files: impl Iterator<Item = (&'a Arc<Partition>, i64)>) -> Box<dyn Fn(&File) -> bool> {
        let (mut oldest, mut oldest_of) = (i64::MAX, HashMap::<Arc<Partition>, i64>::new());
        if !self.equality.is_empty() {
            for (partition, sequence) in files {
                oldest = oldest.min(sequence);
                let of = oldest_of.entry(Arc::clone(partition)).or_insert(i64::MAX);
                *of = sequence.min(*of);
            }
        }
        let global = self.global_specs.clone();
        Box::new(move |delete: &File| {
            let oldest = match global.contains(&delete.partition.spec_id) {
                true => oldest,
                false => oldest_of.get(&delete.partition).copied().unwrap_or(i64::MAX),
            };
            oldest < delete.sequence
        })
    }
}
