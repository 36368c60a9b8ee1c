//! What a pass would do: shown by `run --dry-run`, and as SQL by `run --print-sql`.

use coldfront_common::quote::literal;
use sqlx::{Connection, Row};

use super::table::{Work, next_cutoff};
use crate::db::{self, During};
use crate::error::Result;
use crate::lifecycle::Lifecycle;
use crate::settings::Settings;

pub async fn show(lifecycle: &Lifecycle, settings: &Settings) -> Result<()> {
    let table = lifecycle.name();
    let mut work = Work { table, settings, connection: db::connect(settings).await? };
    let mut transaction = work.connection.begin().await.during("looking at the plan")?;
    sqlx::query("SET LOCAL lock_timeout = '2s'").execute(&mut *transaction).await.during("looking at the plan")?;
    let made: Vec<String> = sqlx::query_scalar("SELECT coldfront._premake($1, $2)")
        .bind(&lifecycle.schema)
        .bind(&lifecycle.table)
        .fetch_all(&mut *transaction)
        .await
        .during("planning partitions")?;
    transaction.rollback().await.during("looking at the plan")?;
    for partition in made {
        println!("{}: would make {partition}", work.table);
    }
    if lifecycle.hot_period.is_none() {
        return show_expired(&mut work, lifecycle).await;
    }
    let tiered: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM coldfront.tiered_views WHERE schema_name = $1 AND table_name = $2)",
    )
    .bind(&lifecycle.schema)
    .bind(&lifecycle.table)
    .fetch_one(&mut work.connection)
    .await
    .during("looking at the plan")?;
    if !tiered {
        println!("{}: would be converted to a view over hot and cold rows", work.table);
    }
    let mut after: Option<String> = None;
    while let Some(upper) = next_cutoff(&mut work, after.as_deref()).await? {
        println!("{}: would archive up to {upper}", work.table);
        after = Some(upper);
    }
    if lifecycle.retention_period.is_some() {
        let expiry: Option<String> = sqlx::query_scalar("SELECT coldfront._expiry($1, $2)")
            .bind(&lifecycle.schema)
            .bind(&lifecycle.table)
            .fetch_one(&mut work.connection)
            .await
            .during("looking at the plan")?;
        println!("{}: would delete cold rows before {}", work.table, expiry.unwrap_or_default());
    }
    Ok(())
}

async fn show_expired(work: &mut Work<'_>, lifecycle: &Lifecycle) -> Result<()> {
    if lifecycle.retention_period.is_none() {
        return Ok(());
    }
    let expired = sqlx::query("SELECT name FROM coldfront._expired_partitions($1, $2)")
        .bind(&lifecycle.schema)
        .bind(&lifecycle.table)
        .fetch_all(&mut work.connection)
        .await
        .during("looking for expired partitions")?;
    for row in expired {
        let name: String = row.try_get(0).during("looking for expired partitions")?;
        println!("{}: would {} {name}", work.table, lifecycle.expiration);
    }
    Ok(())
}

/// The statements of a pass, for reading. psql's \gset carries values between them.
pub fn as_sql(lifecycle: &Lifecycle) -> String {
    let table = format!("{}, {}", literal(&lifecycle.schema), literal(&lifecycle.table));
    let mut lines = vec![
        format!("-- {}", lifecycle.name()),
        "SET lock_timeout = '100ms';".to_owned(),
        format!("SELECT coldfront._premake({table});"),
    ];
    if lifecycle.hot_period.is_none() {
        if lifecycle.retention_period.is_some() {
            lines.push(format!(
                "SELECT coldfront._expire_partition({table}, leaf) FROM coldfront._expired_partitions({table});"
            ));
        }
        return lines.join("\n");
    }
    lines.extend([
        format!("SELECT coldfront._tier_prepare({table});"),
        format!("SELECT coldfront._tier_convert({table});"),
        "-- For each range that is due:".to_owned(),
        format!("SELECT coldfront._attempt_open({table}, coldfront._next_cutoff({table})) AS attempt \\gset"),
        "SELECT coldfront._attempt_watch(:attempt, l) FROM coldfront.archive_attempt, unnest(leaves) AS l \
         WHERE attempt_id = :attempt;"
            .to_owned(),
        "SELECT coldfront._attempt_purge(:attempt);".to_owned(),
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT coldfront._attempt_snapshot(:attempt);".to_owned(),
        "-- The archiver writes the rows of these queries to Parquet files, and adds the files to the Iceberg table in one \
         commit under its claim:"
            .to_owned(),
        "SELECT coldfront._attempt_pieces(:attempt, 2);".to_owned(),
        "SELECT coldfront._claim_iceberg_external(iceberg_table) FROM coldfront._attempt(:attempt);".to_owned(),
        "SELECT coldfront._attempt_exported(:attempt, :rows); COMMIT;".to_owned(),
        "SELECT * FROM coldfront._attempt_replay(:attempt, true) \\gset".to_owned(),
        "SELECT coldfront._attempt_verify(:attempt, :row_count, :checksum);".to_owned(),
        "SELECT coldfront._attempt_note_snapshot(:attempt);".to_owned(),
        "BEGIN; SELECT coldfront._attempt_lock(:attempt); SELECT coldfront._attempt_flip(:attempt); COMMIT;".to_owned(),
        "SELECT coldfront._attempt_drop(:attempt);".to_owned(),
        "-- In the end:".to_owned(),
        format!("SELECT * FROM coldfront._stranded({table});"),
        format!("SELECT coldfront._purge_invisible({table});"),
    ]);
    if lifecycle.retention_period.is_some() {
        lines.push(format!("SELECT coldfront._expire_cold({table});"));
    }
    lines.join("\n")
}
