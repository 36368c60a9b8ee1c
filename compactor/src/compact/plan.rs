//! Chooses the files that are rewritten together. Plain values in, plain values out.

use std::collections::HashMap;
use std::sync::Arc;

use super::deletes::{Applied, Deletes};
use super::view::{File, Partition, View};
use crate::policy::Policy;

/// Most files of one bin, so that a failure costs little and a commit stays small.
const BIN_FILES_MAX: usize = 2000;

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
    let mut bins: Vec<Vec<Input>> = Vec::new();
    let mut room = 0;
    for input in inputs {
        let full = bins.last().is_none_or(|bin| bin.len() >= BIN_FILES_MAX);
        if full || input.file.bytes > room {
            bins.push(Vec::new());
            room = policy.target_file_bytes;
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
