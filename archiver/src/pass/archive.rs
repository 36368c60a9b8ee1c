//! A range on its way to Iceberg: capture, purge, export, replay, verify, cut over, drop. Up to the cutover nothing of it
//! is visible, so whatever fails is begun again by removing what it left.

use coldfront_lake::LakeError;
use coldfront_program::progress::Progress;
use std::time::Instant;

use sqlx::Connection;

use super::cutover;
use super::table::Work;
use crate::cold::{self, Keys};
use crate::db::{During, briefly};
use crate::error::{Error, Result};
use crate::export;
use crate::failpoint;
use crate::metrics;

/// How often a range is exported when Iceberg turns out to hold something else than the heap.
const EXPORTS_MAX: usize = 3;
/// Changes that are few enough to stop replaying and verify.
const SHORT_TAIL: i64 = 1_000;
/// Rounds of replay before verification, however long the tail.
const REPLAYS_MAX: usize = 8;

/// Steps of a range that a person is shown.
const STEPS: u64 = 7;

/// What came of a range.
pub struct Archived {
    pub partitions: usize,
    /// Why its detached partitions were kept, if they were.
    pub kept: Option<String>,
}

/// Archives up to `upper`.
pub async fn range(work: &mut Work<'_>, upper: &str) -> Result<Archived> {
    let progress = Progress::start(format!("{} up to {upper}", work.table), STEPS);
    let mut tries = 0;
    let attempt = loop {
        tries += 1;
        match prepare(work, upper, &progress).await {
            Ok(attempt) => match cutover::run(work, attempt, &progress).await {
                Ok(()) => break attempt,
                Err(error) if tries < EXPORTS_MAX && may_repeat(&error) => warn(work, upper, &error),
                Err(error) => return Err(error),
            },
            Err(error) if tries < EXPORTS_MAX && may_repeat(&error) => warn(work, upper, &error),
            Err(error) => return Err(error),
        }
    };
    failpoint::reach(failpoint::CUT_OVER).await;
    progress.step("dropping");
    let (partitions, kept) = match drop_detached(work, attempt).await {
        Ok(dropped) => (dropped.len(), None),
        Err(error) => (0, Some(error.chain())),
    };
    Ok(Archived { partitions, kept })
}

fn warn(work: &Work<'_>, upper: &str, error: &Error) {
    tracing::warn!(table = %work.table, upper, "exporting again: {}", error.chain());
}

/// Iceberg and heap differ, or somebody else was quicker.
fn may_repeat(error: &Error) -> bool {
    matches!(error.sqlstate().as_deref(), Some("XX001" | "40001" | "40P01" | "55P03"))
        || matches!(error, Error::Lake(LakeError::Conflict { .. }))
}

/// Everything before the cutover. Returns the attempt, exported and verified.
async fn prepare(work: &mut Work<'_>, upper: &str, progress: &Progress) -> Result<i64> {
    progress.step("capturing changes");
    let attempt = open(work, upper).await?;
    failpoint::reach(failpoint::OPENED).await;
    watch(work, attempt).await?;
    failpoint::reach(failpoint::WATCHED).await;
    progress.step("clearing the range");
    purge(work, attempt).await?;
    failpoint::reach(failpoint::PURGED).await;
    progress.step("exporting");
    export(work, attempt).await?;
    failpoint::reach(failpoint::EXPORTED).await;
    progress.step("replaying changes");
    for _ in 0..REPLAYS_MAX {
        if replay(work, attempt).await? <= SHORT_TAIL {
            break;
        }
    }
    failpoint::reach(failpoint::REPLAYED).await;
    progress.step("verifying");
    verify(work, attempt).await?;
    failpoint::reach(failpoint::VERIFIED).await;
    Ok(attempt)
}

async fn open(work: &mut Work<'_>, upper: &str) -> Result<i64> {
    let (schema, name) = (work.table.schema.clone(), work.table.name.clone());
    briefly(&mut work.connection, "beginning to archive", work.settings.lock_wait, async |t| {
        sqlx::query_scalar("SELECT coldfront._attempt_open($1, $2, $3)")
            .bind(&schema)
            .bind(&name)
            .bind(upper)
            .fetch_one(&mut **t)
            .await
    })
    .await
}

async fn watch(work: &mut Work<'_>, attempt: i64) -> Result<()> {
    let began = Instant::now();
    let leaves: Vec<(sqlx::postgres::types::Oid, i64)> = sqlx::query_as(
        "SELECT l, pg_total_relation_size(l) FROM coldfront.archive_attempt, unnest(leaves) AS l WHERE attempt_id = $1",
    )
    .bind(attempt)
    .fetch_all(&mut work.connection)
    .await
    .during("listing partitions")?;
    for (leaf, _) in &leaves {
        briefly(&mut work.connection, "capturing changes", work.settings.lock_wait, async |t| {
            sqlx::query("SELECT coldfront._attempt_watch($1, $2)").bind(attempt).bind(*leaf).execute(&mut **t).await
        })
        .await?;
    }
    work.count(metrics::BYTES_TOTAL, leaves.iter().map(|(_, bytes)| bytes).sum());
    work.took("watch", began);
    Ok(())
}

async fn purge(work: &mut Work<'_>, attempt: i64) -> Result<()> {
    let began = Instant::now();
    let what = "removing what an earlier attempt left in Iceberg";
    let (lower, upper): (Option<i64>, Option<i64>) = sqlx::query_as(
        "SELECT coldfront._key_number((a).lower_bound, key_type), coldfront._key_number((a).upper_bound, key_type) \
         FROM coldfront._attempt($1)",
    )
    .bind(attempt)
    .fetch_one(&mut work.connection)
    .await
    .during(what)?;
    let mut removed = cold::remove_files(work, Keys { lower, upper }).await?;
    removed += sqlx::query_scalar::<_, i64>("SELECT coldfront._attempt_purge($1)")
        .bind(attempt)
        .fetch_one(&mut work.connection)
        .await
        .during(what)?;
    if removed > 0 {
        tracing::info!(table = %work.table, rows = removed, "removed what an earlier attempt left in Iceberg");
    }
    work.took("purge", began);
    Ok(())
}

async fn export(work: &mut Work<'_>, attempt: i64) -> Result<()> {
    let began = Instant::now();
    let rows = export::run(work, attempt).await?;
    work.count(metrics::ROWS_TOTAL, i64::try_from(rows).unwrap_or(i64::MAX));
    work.took("export", began);
    tracing::info!(table = %work.table, rows, seconds = began.elapsed().as_secs_f64(), "exported");
    Ok(())
}

/// Applies what was captured until now. Returns how many changes that were.
pub async fn replay(work: &mut Work<'_>, attempt: i64) -> Result<i64> {
    let began = Instant::now();
    let changes = apply(&mut work.connection, attempt).await?;
    work.count(metrics::CHANGES_TOTAL, changes);
    if changes > 0 {
        tracing::info!(table = %work.table, changes, "applied what changed during the export");
    }
    work.took("replay", began);
    Ok(changes)
}

async fn verify(work: &mut Work<'_>, attempt: i64) -> Result<()> {
    let began = Instant::now();
    let what = "verifying what Iceberg holds";
    let mut transaction = work.connection.begin().await.during(what)?;
    let (changes, rows, checksum): (i64, i64, String) =
        sqlx::query_as("SELECT changes, row_count, checksum::text FROM coldfront._attempt_replay($1, true)")
            .bind(attempt)
            .fetch_one(&mut *transaction)
            .await
            .during(what)?;
    failpoint::reach(failpoint::VERIFYING).await;
    transaction.commit().await.during(what)?;
    sqlx::query("SELECT coldfront._attempt_verify($1, $2, $3::text::numeric)")
        .bind(attempt)
        .bind(rows)
        .bind(checksum)
        .execute(&mut work.connection)
        .await
        .during(what)?;
    work.count(metrics::CHANGES_TOTAL, changes);
    work.took("verify", began);
    Ok(())
}

/// Applies captured changes, on whichever connection. Returns how many.
pub async fn apply(connection: &mut sqlx::PgConnection, attempt: i64) -> Result<i64> {
    let changes = sqlx::query_scalar("SELECT changes FROM coldfront._attempt_replay($1, false)")
        .bind(attempt)
        .fetch_one(connection)
        .await
        .during("applying captured changes")?;
    Ok(changes)
}

/// Drops the partitions of a range that is cold; on a connection that sees the committed cutover.
async fn drop_detached(work: &mut Work<'_>, attempt: i64) -> Result<Vec<String>> {
    let began = Instant::now();
    let dropped: Vec<String> =
        briefly(&mut work.connection, "dropping archived partitions", work.settings.lock_wait, async |t| {
            let dropped =
                sqlx::query_scalar("SELECT coldfront._attempt_drop($1)").bind(attempt).fetch_one(&mut **t).await?;
            failpoint::reach(failpoint::DROPPING).await;
            Ok(dropped)
        })
        .await?;
    failpoint::reach(failpoint::DROPPED).await;
    for partition in &dropped {
        tracing::info!(table = %work.table, partition, "archived and dropped");
    }
    work.took("drop", began);
    Ok(dropped)
}

/// Drops what earlier runs cut over and did not get to drop. Returns why some of it stays.
pub async fn finish_earlier(work: &mut Work<'_>) -> Result<Vec<String>> {
    let attempts: Vec<i64> = sqlx::query_scalar(
        "SELECT attempt_id FROM coldfront.archive_attempt \
         WHERE schema_name = $1 AND table_name = $2 AND phase = 'cut_over' ORDER BY 1",
    )
    .bind(&work.table.schema)
    .bind(&work.table.name)
    .fetch_all(&mut work.connection)
    .await
    .during("looking for what earlier runs left")?;
    let mut kept = Vec::new();
    for attempt in attempts {
        if let Err(error) = drop_detached(work, attempt).await {
            kept.push(error.chain());
        }
    }
    Ok(kept)
}
