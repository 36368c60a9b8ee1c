//! One pass: every table by itself, so that one that fails does not keep the others from their turn.

mod archive;
mod cutover;
mod expire;
pub mod lock;
mod plan;
pub mod table;

use std::process::ExitCode;

use futures::stream::{self, StreamExt};

use crate::cli::Run;
use crate::db;
use crate::error::{EXIT_FAILED, Error, Result};
use crate::lifecycle::{Lifecycle, Table};
use crate::metrics;
use crate::settings::Settings;

/// What became of a table.
pub enum Outcome {
    Done,
    /// Another archiver works on it.
    Elsewhere,
}

pub async fn run(args: &Run, settings: &Settings) -> Result<ExitCode> {
    let chosen = choose(args, settings).await?;
    if args.print_sql {
        for lifecycle in &chosen {
            println!("{}", plan::as_sql(lifecycle));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run {
        let mut failed = 0;
        for lifecycle in &chosen {
            if let Err(error) = plan::show(lifecycle, settings).await {
                tracing::error!(table = %lifecycle.name(), "{}", error.chain());
                failed += 1;
            }
        }
        return Ok(exit(failed));
    }
    Ok(exit(all(&chosen, settings).await))
}

fn exit(failed: usize) -> ExitCode {
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) }
}

/// The lifecycles a run is for.
pub async fn choose(args: &Run, settings: &Settings) -> Result<Vec<Lifecycle>> {
    let mut connection = db::connect(settings).await?;
    let all = Lifecycle::all(&mut connection).await?;
    let Some(wanted) = &args.table else { return Ok(all.into_iter().filter(|l| l.enabled).collect()) };
    let wanted = Table::parse(wanted)?;
    match all.into_iter().find(|l| l.name() == wanted) {
        Some(lifecycle) => Ok(vec![lifecycle]),
        None => Err(Error::Usage(format!("{wanted} is not registered"))),
    }
}

/// Works on tables, as many at a time as configured. Returns how many failed.
pub async fn all(chosen: &[Lifecycle], settings: &Settings) -> usize {
    let outcomes: Vec<bool> = stream::iter(chosen)
        .map(|lifecycle| async move { one(lifecycle, settings).await })
        .buffer_unordered(settings.jobs)
        .collect()
        .await;
    let failed = outcomes.iter().filter(|ok| !**ok).count();
    ::metrics::counter!(metrics::PASSES_TOTAL).increment(1);
    tracing::info!(tables = chosen.len(), failed, "pass ended");
    failed
}

async fn one(lifecycle: &Lifecycle, settings: &Settings) -> bool {
    let name = lifecycle.name().to_string();
    match table::run(lifecycle, settings).await {
        Ok(Outcome::Done) => {
            ::metrics::gauge!(metrics::LAST_SUCCESS, "table" => name.clone())
                .set(chrono::Utc::now().timestamp() as f64);
            tracing::info!(table = name, "done");
            true
        }
        Ok(Outcome::Elsewhere) => {
            tracing::warn!(table = name, "another archiver works on it");
            true
        }
        Err(error) => {
            ::metrics::counter!(metrics::FAILURES_TOTAL, "table" => name.clone()).increment(1);
            tracing::error!(table = name, "{}", error.chain());
            false
        }
    }
}
