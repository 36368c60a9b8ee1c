//! What a table is maintained by: command line over coldfront.maintenance_config over table properties over defaults.

use std::time::Duration;

use iceberg::spec::TableMetadata;

use crate::cli::{PolicyArgs, Task};
use crate::error::{Error, Result};

const TARGET_FILE_BYTES: u64 = 128 * 1024 * 1024;
const MIN_INPUT_FILES: usize = 5;
const DELETE_RATIO: f64 = 0.1;
const DELETE_FILES: usize = 5;
const MANIFESTS_MAX: usize = 20;
const SNAPSHOT_AGE_S: f64 = 120.0 * 3600.0;
const SNAPSHOTS_MIN: usize = 1;
const ORPHAN_AGE_S: f64 = 72.0 * 3600.0;
/// Below this, other engines' unfinished work is at stake.
const ORPHAN_AGE_MIN_S: f64 = 3600.0;

/// A table's row in coldfront.maintenance_config, and snapshots that other parts of ColdFront still need.
#[derive(Debug, Clone, Default)]
pub struct Configured {
    pub target_file_bytes: Option<u64>,
    pub small_file_bytes: Option<u64>,
    pub min_input_files: Option<usize>,
    pub delete_ratio: Option<f64>,
    pub delete_files: Option<usize>,
    pub sort_by: Option<Vec<String>>,
    pub manifests_max: Option<usize>,
    pub snapshot_age_s: Option<f64>,
    pub snapshots_min: Option<usize>,
    pub orphan_age_s: Option<f64>,
    pub pins: Vec<i64>,
    /// As in [`Task::ALL`].
    pub schedules: [Option<String>; 5],
}

impl Configured {
    pub fn schedule(&self, task: Task) -> Option<&str> {
        let at = Task::ALL.iter().position(|t| *t == task)?;
        self.schedules[at].as_deref()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub target_file_bytes: u64,
    pub small_file_bytes: u64,
    pub min_input_files: usize,
    pub delete_ratio: f64,
    pub delete_files: usize,
    pub sort_by: Vec<String>,
    pub manifests_max: usize,
    pub snapshot_age: Duration,
    pub snapshots_min: usize,
    pub orphan_age: Duration,
    /// Snapshots that may not expire.
    pub pins: Vec<i64>,
}

impl Policy {
    pub fn new(args: &PolicyArgs, configured: &Configured, metadata: &TableMetadata) -> Result<Self> {
        let property = |name: &str| metadata.properties().get(name).and_then(|value| value.parse::<u64>().ok());
        let target = (args.target_file_bytes.or(configured.target_file_bytes))
            .or_else(|| property("write.target-file-size-bytes"))
            .unwrap_or(TARGET_FILE_BYTES)
            .max(1);
        let small = args.small_file_bytes.or(configured.small_file_bytes).unwrap_or(target / 4 * 3).min(target);
        let snapshot_age_s = (args.older_than_hours.map(|h| h * 3600.0).or(configured.snapshot_age_s))
            .or_else(|| property("history.expire.max-snapshot-age-ms").map(|ms| ms as f64 / 1000.0))
            .unwrap_or(SNAPSHOT_AGE_S);
        let snapshots_min = (args.retain_last.or(configured.snapshots_min))
            .or_else(|| property("history.expire.min-snapshots-to-keep").map(|n| n as usize))
            .unwrap_or(SNAPSHOTS_MIN)
            .max(1);
        let min_input_files = args.min_input_files.or(configured.min_input_files).unwrap_or(MIN_INPUT_FILES).max(2);
        Ok(Self {
            target_file_bytes: target,
            small_file_bytes: small,
            min_input_files,
            delete_ratio: args.delete_ratio.or(configured.delete_ratio).unwrap_or(DELETE_RATIO),
            delete_files: args.delete_files.or(configured.delete_files).unwrap_or(DELETE_FILES).max(1),
            sort_by: match args.sort_by.is_empty() {
                true => configured.sort_by.clone().unwrap_or_default(),
                false => args.sort_by.clone(),
            },
            manifests_max: args.manifests_max.or(configured.manifests_max).unwrap_or(MANIFESTS_MAX).max(1),
            snapshot_age: seconds(snapshot_age_s)?,
            snapshots_min,
            orphan_age: seconds(args.orphan_age_s(configured.orphan_age_s)?)?,
            pins: configured.pins.clone(),
        })
    }
}

impl PolicyArgs {
    fn orphan_age_s(&self, configured: Option<f64>) -> Result<f64> {
        let age = self.orphan_age_hours.map(|h| h * 3600.0).or(configured).unwrap_or(ORPHAN_AGE_S);
        if age < ORPHAN_AGE_MIN_S && !self.i_know {
            return Err(Error::Usage(
                "an orphan age below one hour removes what other engines may be writing right now: \
                 give --i-know if none does"
                    .to_owned(),
            ));
        }
        Ok(age)
    }

    /// Refuses what no table can be maintained by, before anything is done.
    pub fn check(&self) -> Result<()> {
        self.orphan_age_s(None)?;
        for (name, hours) in
            [("--older-than-hours", self.older_than_hours), ("--orphan-age-hours", self.orphan_age_hours)]
        {
            if hours.is_some_and(|h| !h.is_finite() || h < 0.0) {
                return Err(Error::Usage(format!("{name} has to be a number of hours that is not negative")));
            }
        }
        if self.delete_ratio.is_some_and(|ratio| !(ratio > 0.0 && ratio <= 1.0)) {
            return Err(Error::Usage("--delete-ratio has to be above 0 and at most 1".to_owned()));
        }
        Ok(())
    }
}

fn seconds(value: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(value).map_err(|_| Error::Usage(format!("{value} s is not an age")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_orphan_age_takes_a_word() {
        let mut args = PolicyArgs { orphan_age_hours: Some(0.5), ..PolicyArgs::default() };
        assert!(args.check().unwrap_err().to_string().contains("--i-know"));
        args.i_know = true;
        args.check().unwrap();
        PolicyArgs::default().check().unwrap();
    }
}
