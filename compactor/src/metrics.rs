//! Names, units and meanings of the compactor's metrics, all in one place. All have the labels `table` and `task`.

use coldfront_program::http::{Described, Metrics};

pub const RUNS_TOTAL: &str = "coldfront_compactor_runs_total";
pub const FAILURES_TOTAL: &str = "coldfront_compactor_failures_total";
pub const FILES_REWRITTEN_TOTAL: &str = "coldfront_compactor_files_rewritten_total";
pub const FILES_WRITTEN_TOTAL: &str = "coldfront_compactor_files_written_total";
pub const ROWS_TOTAL: &str = "coldfront_compactor_rows_total";
pub const BYTES_READ_TOTAL: &str = "coldfront_compactor_bytes_read_total";
pub const BYTES_WRITTEN_TOTAL: &str = "coldfront_compactor_bytes_written_total";
pub const CONFLICTS_TOTAL: &str = "coldfront_compactor_conflicts_total";
pub const SNAPSHOTS_EXPIRED_TOTAL: &str = "coldfront_compactor_snapshots_expired_total";
pub const OBJECTS_REMOVED_TOTAL: &str = "coldfront_compactor_objects_removed_total";
pub const BYTES_REMOVED_TOTAL: &str = "coldfront_compactor_bytes_removed_total";
pub const REQUESTS_TOTAL: &str = "coldfront_compactor_requests_total";
pub const TASK_SECONDS: &str = "coldfront_compactor_task_seconds";
pub const LAST_SUCCESS: &str = "coldfront_compactor_last_success_timestamp_seconds";

/// All of them.
pub const ALL: Metrics = Metrics { counters: COUNTERS, gauges: GAUGES, histograms: HISTOGRAMS };

const COUNTERS: &[Described] = &[
    (RUNS_TOTAL, "Runs of a task over a table"),
    (FAILURES_TOTAL, "Runs that failed"),
    (FILES_REWRITTEN_TOTAL, "Data files that compaction replaced"),
    (FILES_WRITTEN_TOTAL, "Data files that compaction wrote"),
    (ROWS_TOTAL, "Rows that compaction wrote"),
    (BYTES_READ_TOTAL, "Bytes of the files that compaction replaced"),
    (BYTES_WRITTEN_TOTAL, "Bytes of the files that compaction wrote"),
    (CONFLICTS_TOTAL, "Rewritten groups of files that were given up because somebody changed them meanwhile"),
    (SNAPSHOTS_EXPIRED_TOTAL, "Snapshots expired"),
    (OBJECTS_REMOVED_TOTAL, "Objects removed from the store"),
    (BYTES_REMOVED_TOTAL, "Bytes of objects that the orphan task removed"),
    (REQUESTS_TOTAL, "Requests to the catalog and the object store"),
];
const GAUGES: &[Described] = &[(LAST_SUCCESS, "When a task last succeeded, in seconds since 1970")];
const HISTOGRAMS: &[Described] = &[(TASK_SECONDS, "Seconds that a task took")];
