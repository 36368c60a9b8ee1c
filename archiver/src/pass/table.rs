//! The pass over one table, in order: premake, conversion, what earlier runs left, due ranges, retention.

use std::time::Instant;

use sqlx::postgres::PgConnection;

use super::{Outcome, archive, expire, lock};
use crate::db::{self, During, briefly};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::lifecycle::{Lifecycle, Table};
use crate::metrics;
use crate::settings::Settings;

/// A table being worked on.
pub struct Work<'a> {
    pub table: Table,
    pub settings: &'a Settings,
    pub connection: PgConnection,
}

impl Work<'_> {
    /// Says how long a phase took.
    pub fn took(&self, phase: &'static str, since: Instant) {
        ::metrics::histogram!(metrics::PHASE_SECONDS, "table" => self.table.to_string(), "phase" => phase)
            .record(since.elapsed().as_secs_f64());
    }

    pub fn count(&self, name: &'static str, n: i64) {
        ::metrics::counter!(name, "table" => self.table.to_string()).increment(u64::try_from(n).unwrap_or(0));
    }

    fn partitions(&self, done: &'static str, n: usize) {
        ::metrics::counter!(metrics::PARTITIONS_TOTAL, "table" => self.table.to_string(), "done" => done)
            .increment(n as u64);
    }
}

pub async fn run(lifecycle: &Lifecycle, settings: &Settings) -> Result<Outcome> {
    let table = lifecycle.name();
    let mut work = Work { table, settings, connection: db::connect(settings).await? };
    if !lock::take(&mut work.connection, &work.table).await? {
        return Ok(Outcome::Elsewhere);
    }
    let outcome = perform(&mut work, lifecycle).await;
    lock::give_back(&mut work.connection, &work.table).await;
    outcome
}

async fn perform(work: &mut Work<'_>, lifecycle: &Lifecycle) -> Result<Outcome> {
    premake(work).await?;
    if lifecycle.hot_period.is_none() {
        let expired = if lifecycle.retention_period.is_some() { expire::partitions(work).await? } else { 0 };
        work.partitions("expired", expired);
        return Ok(Outcome::Done);
    }
    convert(work).await?;
    // What cannot be finished is told at the end: new ranges do not depend on it.
    let mut trouble = archive::finish_earlier(work).await?;
    while let Some(upper) = next_cutoff(work, None).await? {
        let archived = archive::range(work, &upper).await?;
        work.partitions("archived", archived.partitions);
        trouble.extend(archived.kept);
    }
    report_lag(work).await?;
    trouble.extend(stranded(work).await?);
    purge_invisible(work).await?;
    if lifecycle.retention_period.is_some() {
        expire::cold_rows(work).await?;
    }
    if trouble.is_empty() { Ok(Outcome::Done) } else { Err(Error::Kept(trouble.join("; "))) }
}

async fn premake(work: &mut Work<'_>) -> Result<()> {
    let began = Instant::now();
    let (schema, name) = (work.table.schema.clone(), work.table.name.clone());
    let made: Vec<String> = briefly(&mut work.connection, "making partitions", work.settings.lock_wait, async |t| {
        sqlx::query_scalar("SELECT coldfront._premake($1, $2)").bind(&schema).bind(&name).fetch_all(&mut **t).await
    })
    .await?;
    for partition in &made {
        tracing::info!(table = %work.table, partition, "made");
    }
    work.partitions("made", made.len());
    work.took("premake", began);
    Ok(())
}

/// Puts the view in the place of the table, once.
async fn convert(work: &mut Work<'_>) -> Result<()> {
    let (schema, name) = (work.table.schema.clone(), work.table.name.clone());
    sqlx::query("SELECT coldfront._tier_prepare($1, $2)")
        .bind(&schema)
        .bind(&name)
        .execute(&mut work.connection)
        .await
        .during("preparing the conversion")?;
    failpoint::reach(failpoint::PREPARED).await;
    let began = Instant::now();
    let converted = briefly(&mut work.connection, "converting the table", work.settings.lock_wait, async |t| {
        let converted: bool = sqlx::query_scalar("SELECT coldfront._tier_convert($1, $2)")
            .bind(&schema)
            .bind(&name)
            .fetch_one(&mut **t)
            .await?;
        failpoint::reach(failpoint::CONVERTING).await;
        Ok(converted)
    })
    .await?;
    if converted {
        tracing::info!(table = %work.table, "converted: a view over hot and cold rows stands in its place");
        work.took("convert", began);
    }
    Ok(())
}

/// End of the oldest range after `after` (the cutoff, if None) that is due.
pub async fn next_cutoff(work: &mut Work<'_>, after: Option<&str>) -> Result<Option<String>> {
    let next = sqlx::query_scalar("SELECT coldfront._next_cutoff($1, $2, $3)")
        .bind(&work.table.schema)
        .bind(&work.table.name)
        .bind(after)
        .fetch_one(&mut work.connection)
        .await
        .during("looking for what is due")?;
    Ok(next)
}

async fn report_lag(work: &mut Work<'_>) -> Result<()> {
    let lag: Option<f64> = sqlx::query_scalar(
        "SELECT extract(epoch FROM coalesce(lag, interval '0'))::float8 FROM coldfront.archive_status() \
         WHERE schema_name = $1 AND table_name = $2",
    )
    .bind(&work.table.schema)
    .bind(&work.table.name)
    .fetch_optional(&mut work.connection)
    .await
    .during("reading the lag")?;
    ::metrics::gauge!(metrics::LAG_SECONDS, "table" => work.table.to_string()).set(lag.unwrap_or(0.0));
    Ok(())
}

/// Rows that somebody put where nobody reads them are kept and told.
async fn stranded(work: &mut Work<'_>) -> Result<Vec<String>> {
    let rows: Vec<(String, i64)> = sqlx::query_as("SELECT leaf, row_count FROM coldfront._stranded($1, $2)")
        .bind(&work.table.schema)
        .bind(&work.table.name)
        .fetch_all(&mut work.connection)
        .await
        .during("looking for stranded rows")?;
    let tell = |(leaf, count): (String, i64)| {
        format!(
            "partition {leaf} holds {count} rows below the cutoff, which nobody reads: insert them through {} and drop it",
            work.table
        )
    };
    Ok(rows.into_iter().map(tell).collect())
}

async fn purge_invisible(work: &mut Work<'_>) -> Result<()> {
    let removed: i64 = sqlx::query_scalar("SELECT coldfront._purge_invisible($1, $2)")
        .bind(&work.table.schema)
        .bind(&work.table.name)
        .fetch_one(&mut work.connection)
        .await
        .during("removing what a restore left in Iceberg")?;
    if removed > 0 {
        tracing::info!(table = %work.table, rows = removed, "removed from Iceberg what is hot again");
    }
    Ok(())
}
