//! How a table is: measured by compaction or by `status`, kept for `coldfront.maintenance_status()`.

use iceberg::spec::TableMetadata;
use sqlx::PgConnection;

use crate::cli::PolicyArgs;
use crate::compact::State;
use crate::compact::plan::{Input, is_small};
use crate::db::During;
use crate::error::Result;
use crate::expire;
use crate::policy::Policy;
use crate::work::Work;

const RECORD: &str = "
INSERT INTO coldfront.maintenance_state AS s (schema_name, table_name, measured_at, files, small_files, delete_files,
       deleted_rows, rows, bytes, manifests, snapshots, bytes_reclaimable)
SELECT v.schema_name, v.table_name, now(), $3, $4, $5, $6, $7, $8, $9, $10, $11
  FROM coldfront.tiered_views AS v WHERE v.schema_name = $1 AND v.table_name = $2
ON CONFLICT (schema_name, table_name) DO UPDATE
   SET measured_at = EXCLUDED.measured_at, files = EXCLUDED.files, small_files = EXCLUDED.small_files,
       delete_files = EXCLUDED.delete_files, deleted_rows = EXCLUDED.deleted_rows, rows = EXCLUDED.rows,
       bytes = EXCLUDED.bytes, manifests = EXCLUDED.manifests, snapshots = EXCLUDED.snapshots,
       bytes_reclaimable = EXCLUDED.bytes_reclaimable";

#[derive(Debug, Default)]
pub struct Measured {
    pub files: u64,
    pub small_files: u64,
    pub delete_files: u64,
    /// Rows that position deletes name.
    pub deleted_rows: u64,
    pub rows: u64,
    pub bytes: u64,
    pub manifests: u64,
    pub snapshots: u64,
    /// What compaction and expiry would free, about: deletes, deleted rows, and what old snapshots alone still need.
    pub bytes_reclaimable: u64,
}

impl Measured {
    pub fn of(state: &State, policy: &Policy) -> Self {
        let (view, metadata) = (&state.view, &state.head.metadata);
        let mut out = Self {
            files: view.data.len() as u64,
            delete_files: view.deletes.len() as u64,
            rows: view.totals.records,
            bytes: view.totals.files_size,
            manifests: view.manifests.len() as u64,
            snapshots: metadata.snapshots().len() as u64,
            ..Self::default()
        };
        out.bytes_reclaimable = view.deletes.iter().map(|file| file.bytes).sum();
        for file in &view.data {
            let input = Input { file: file.clone(), deletes: state.deletes.applied_to(file) };
            let rows = input.deletes.rows.min(file.records);
            out.small_files += u64::from(is_small(&input, policy));
            out.deleted_rows += rows;
            out.bytes_reclaimable +=
                (u128::from(file.bytes) * u128::from(rows) / u128::from(file.records.max(1))) as u64;
        }
        let expired = expire::plan(&state.head, policy, coldfront_lake::commit::now_ms()).snapshots;
        out.bytes_reclaimable += held_by(metadata, &expired);
        out
    }
}

/// Bytes that the successors of the snapshots removed, as their summaries say: the snapshots alone still need them.
fn held_by(metadata: &TableMetadata, expired: &[i64]) -> u64 {
    let expired: std::collections::HashSet<i64> = expired.iter().copied().collect();
    let successors = metadata.snapshots().filter(|s| s.parent_snapshot_id().is_some_and(|id| expired.contains(&id)));
    let removed = |name: &str, summary: &iceberg::spec::Summary| {
        summary.additional_properties.get(name).and_then(|value| value.parse::<u64>().ok())
    };
    successors.filter_map(|s| removed("removed-files-size", s.summary())).sum()
}

/// Writes down what was measured.
pub async fn record(
    connection: &mut PgConnection,
    work: &Work<'_>,
    seen: State,
    args: &PolicyArgs,
) -> Result<Measured> {
    let policy = Policy::new(args, &work.relation.configured, &seen.head.metadata)?;
    let measured = Measured::of(&seen, &policy);
    let count = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    sqlx::query(RECORD)
        .bind(&work.relation.schema)
        .bind(&work.relation.table)
        .bind(count(measured.files))
        .bind(count(measured.small_files))
        .bind(count(measured.delete_files))
        .bind(count(measured.deleted_rows))
        .bind(count(measured.rows))
        .bind(count(measured.bytes))
        .bind(count(measured.manifests))
        .bind(count(measured.snapshots))
        .bind(count(measured.bytes_reclaimable))
        .execute(connection)
        .await
        .during(format!("recording the state of {}", work.relation))?;
    Ok(measured)
}
