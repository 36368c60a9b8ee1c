//! Retention: cold rows are deleted, partitions of tables without a cold part are dropped or detached.

use std::time::Instant;

use super::table::Work;
use crate::cold::{self, Keys};
use crate::db::{During, briefly};
use crate::error::Result;
use crate::metrics;

pub async fn cold_rows(work: &mut Work<'_>) -> Result<()> {
    let began = Instant::now();
    let what = "deleting cold rows past retention";
    let upper: Option<i64> = sqlx::query_scalar(
        "SELECT coldfront._key_number(coldfront._cold_expiry($1, $2), \
         (coldfront._range_key(coldfront._hot_table($1, $2))).key_type)",
    )
    .bind(&work.table.schema)
    .bind(&work.table.name)
    .fetch_one(&mut work.connection)
    .await
    .during(what)?;
    let mut rows = cold::remove_files(work, Keys { lower: None, upper }).await?;
    // What shares its file with rows that stay.
    rows += sqlx::query_scalar::<_, i64>("SELECT coldfront._expire_cold($1, $2)")
        .bind(&work.table.schema)
        .bind(&work.table.name)
        .fetch_one(&mut work.connection)
        .await
        .during(what)?;
    if rows > 0 {
        tracing::info!(table = %work.table, rows, "deleted cold rows past retention");
    }
    work.count(metrics::EXPIRED_ROWS_TOTAL, rows);
    work.took("expire", began);
    Ok(())
}

/// Returns how many partitions expired.
pub async fn partitions(work: &mut Work<'_>) -> Result<usize> {
    let began = Instant::now();
    let (schema, name) = (work.table.schema.clone(), work.table.name.clone());
    let expired: Vec<(sqlx::postgres::types::Oid, String)> =
        sqlx::query_as("SELECT leaf, name FROM coldfront._expired_partitions($1, $2)")
            .bind(&schema)
            .bind(&name)
            .fetch_all(&mut work.connection)
            .await
            .during("looking for expired partitions")?;
    for (leaf, partition) in &expired {
        briefly(&mut work.connection, "expiring a partition", work.settings.lock_wait, async |t| {
            sqlx::query("SELECT coldfront._expire_partition($1, $2, $3)")
                .bind(&schema)
                .bind(&name)
                .bind(*leaf)
                .execute(&mut **t)
                .await
        })
        .await?;
        tracing::info!(table = %work.table, partition, "expired");
    }
    work.took("expire", began);
    Ok(expired.len())
}
