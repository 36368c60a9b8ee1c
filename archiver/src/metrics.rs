//! Names, units and meanings of the archiver's metrics, all in one place. All but the last have the label `table`.

use coldfront_program::http::{Described, Metrics};

pub const ROWS_TOTAL: &str = "coldfront_archiver_rows_total";
pub const BYTES_TOTAL: &str = "coldfront_archiver_bytes_total";
pub const CHANGES_TOTAL: &str = "coldfront_archiver_replayed_changes_total";
pub const EXPIRED_ROWS_TOTAL: &str = "coldfront_archiver_expired_rows_total";
pub const PARTITIONS_TOTAL: &str = "coldfront_archiver_partitions_total";
pub const FAILURES_TOTAL: &str = "coldfront_archiver_failures_total";
/// Label: `phase` too.
pub const PHASE_SECONDS: &str = "coldfront_archiver_phase_seconds";
pub const LAG_SECONDS: &str = "coldfront_archiver_lag_seconds";
pub const LAST_SUCCESS: &str = "coldfront_archiver_last_success_timestamp_seconds";
pub const PASSES_TOTAL: &str = "coldfront_archiver_passes_total";

/// All of them.
pub const ALL: Metrics = Metrics { counters: COUNTERS, gauges: GAUGES, histograms: HISTOGRAMS };

const COUNTERS: &[Described] = &[
    (ROWS_TOTAL, "Rows moved to Iceberg"),
    (BYTES_TOTAL, "Heap bytes of the partitions moved to Iceberg"),
    (CHANGES_TOTAL, "Changes of partitions that were captured during their export and applied to it"),
    (EXPIRED_ROWS_TOTAL, "Cold rows deleted because they were past retention"),
    (PARTITIONS_TOTAL, "Partitions by what was done with them (label done: made, archived, expired)"),
    (FAILURES_TOTAL, "Passes over a table that failed"),
    (PASSES_TOTAL, "Passes over all tables"),
];
const GAUGES: &[Described] = &[
    (LAG_SECONDS, "For how long the oldest partition that is still hot has been past its hot period"),
    (LAST_SUCCESS, "When a pass over the table last succeeded, in seconds since 1970"),
];
const HISTOGRAMS: &[Described] = &[(PHASE_SECONDS, "Seconds that a phase of a table's pass took")];
