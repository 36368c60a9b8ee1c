//! Chooses the files that are rewritten together. Plain values in, plain values out.

use std::collections::HashMap;
use std::sync::Arc;

use super::deletes::{Applied, Deletes};
use super::view::{File, Partition, View};
use crate::policy::Policy;

/// Most files of one bin, so that a failure costs little and a commit stays small.
const BIN_FILES_MAX: usize = 2000;

/// Most bytes of a bin that is sorted, which happens in memory, decoded.
const SORTED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Data files of one partition that become one file, or few.
#[derive(Debug)]
pub struct Bin {
    pub partition: Arc<Partition>,
    pub inputs: Vec<Input>,
}

#[derive(Debug)]
pub struct Input {
    pub file: Arc<File>,
    pub deletes: Applied,
}

impl Bin {
    pub fn bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.file.bytes).sum()
    }

    pub fn records(&self) -> u64 {
        self.inputs.iter().map(|input| input.file.records).sum()
    }
}

/// Bins, in no particular order.
pub fn bins(view: &View, deletes: &Deletes, policy: &Policy) -> Vec<Bin> {
    let mut by_partition: HashMap<&Arc<Partition>, Vec<Input>> = HashMap::new();
    for file in &view.data {
        let input = Input { file: Arc::clone(file), deletes: deletes.applied_to(file) };
        if is_small(&input, policy) || has_too_many_deletes(&input, policy) {
            by_partition.entry(&file.partition).or_default().push(input);
        }
    }
    by_partition.into_iter().flat_map(|(partition, inputs)| pack(partition, inputs, policy)).collect()
}

pub fn is_small(input: &Input, policy: &Policy) -> bool {
    input.file.bytes < policy.small_file_bytes
}

pub fn has_too_many_deletes(input: &Input, policy: &Policy) -> bool {
    let applied = &input.deletes;
    applied.files() >= policy.delete_files
        || (applied.rows > 0 && applied.rows as f64 >= policy.delete_ratio * input.file.records as f64)
}

/// In the order of the sort columns, or of age: neighbours in it end up in one file, so that statistics prune.
fn pack(partition: &Arc<Partition>, mut inputs: Vec<Input>, policy: &Policy) -> Vec<Bin> {
    inputs.sort_by(|a, b| {
        let bounds = a.file.lower_bounds.iter().zip(&b.file.lower_bounds);
        let by_bounds = bounds.filter_map(|((_, x), (_, y))| x.partial_cmp(y)).find(|o| o.is_ne());
        by_bounds.unwrap_or(std::cmp::Ordering::Equal).then_with(|| a.file.sequence.cmp(&b.file.sequence))
    });
    let size = match policy.sort_by.is_empty() {
        true => policy.target_file_bytes,
        false => policy.target_file_bytes.min(SORTED_BYTES_MAX),
    };
    let mut bins: Vec<Vec<Input>> = Vec::new();
    let mut room = 0;
    for input in inputs {
        let full = bins.last().is_none_or(|bin| bin.len() >= BIN_FILES_MAX);
        if full || input.file.bytes > room {
            bins.push(Vec::new());
            room = size;
        }
        room = room.saturating_sub(input.file.bytes);
        if let Some(bin) = bins.last_mut() {
            bin.push(input);
        }
    }
    bins.into_iter()
        .filter(|bin| is_worth_it(bin, policy))
        .map(|inputs| Bin { partition: Arc::clone(partition), inputs })
        .collect()
}

/// Enough files, or nearly a whole file's worth, or deletes to be rid of.
fn is_worth_it(bin: &[Input], policy: &Policy) -> bool {
    let bytes: u64 = bin.iter().map(|input| input.file.bytes).sum();
    bin.len() >= policy.min_input_files
        || (bin.len() > 1 && bytes >= policy.small_file_bytes)
        || bin.iter().any(|input| has_too_many_deletes(input, policy))
}

#[cfg(test)]
mod tests {
    use iceberg::spec::{DataContentType, DataFileFormat, Struct};

    use super::*;

    fn policy() -> Policy {
        Policy {
            target_file_bytes: 100,
            small_file_bytes: 75,
            min_input_files: 3,
            delete_ratio: 0.5,
            delete_files: 2,
            sort_by: Vec::new(),
            manifests_max: 1,
            snapshot_age: Default::default(),
            snapshots_min: 1,
            orphan_age: Default::default(),
            pins: Vec::new(),
        }
    }

    fn partition() -> Arc<Partition> {
        Arc::new(Partition { spec_id: 0, values: Struct::empty() })
    }

    fn input(bytes: u64, deleted: u64) -> Input {
        let file = File {
            path: String::new(),
            partition: partition(),
            content: DataContentType::Data,
            format: DataFileFormat::Parquet,
            sequence: 1,
            records: 10,
            bytes,
            equality_ids: Vec::new(),
            only_for: None,
            lower_bounds: Vec::new(),
        };
        Input { file: Arc::new(file), deletes: Applied { rows: deleted, ..Applied::default() } }
    }

    fn sizes(inputs: Vec<Input>) -> Vec<usize> {
        pack(&partition(), inputs, &policy()).iter().map(|bin| bin.inputs.len()).collect()
    }

    #[test]
    fn bins_are_filled_up_to_the_target() {
        assert_eq!(sizes((0..8).map(|_| input(25, 0)).collect()), [4, 4]);
        assert_eq!(sizes(vec![input(10, 0), input(10, 0)]), [0usize; 0], "too few to be worth it");
        assert_eq!(sizes(vec![input(40, 0), input(40, 0)]), [2], "nearly a whole file");
        assert_eq!(sizes(vec![input(70, 0)]), [0usize; 0], "one file that is rewritten stays one");
    }

    #[test]
    fn deletes_are_reason_enough() {
        assert_eq!(sizes(vec![input(10, 5)]), [1]);
        assert!(!has_too_many_deletes(&input(10, 4), &policy()));
    }
}
