//! A range's rows on their way to Iceberg: read under one snapshot as Arrow, written as Parquet, added in one commit.
//!
//! Writers of the table are never held up: those of the heap by nothing here, those of the cold tier only by the claim,
//! which is held for the commit. Until the commit, files belong to nothing, and whatever fails removes them; after a crash
//! they are left to the compactor's orphan task.

mod append;
mod files;
mod order;
mod rows;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coldfront_lake::commit::NewFile;
use coldfront_lake::writable;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;

use crate::cold::Cold;
use crate::db::During;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::pass::table::Work;
use crate::settings::Settings;

const WHAT: &str = "exporting to Iceberg";
/// A copy takes as long as it takes, and each session waits for others meanwhile.
const NO_TIMEOUTS: &str = "SELECT set_config(name, '0', true) FROM pg_settings \
     WHERE name IN ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')";
/// How often a connection that only waits is used, so that nothing on its way takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// What the workers of an export share.
struct Export {
    settings: Settings,
    attempt: i64,
    /// Of the transaction whose snapshot they read.
    snapshot: String,
    cold: Cold,
    pieces: Mutex<VecDeque<String>>,
    /// Something failed: the others need not go on.
    stop: AtomicBool,
}

impl Export {
    fn next_piece(&self) -> Option<String> {
        if self.stop.load(Relaxed) {
            None
        } else {
            self.pieces.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
        }
    }

    async fn remove(&self, files: &[NewFile]) {
        let urls: Vec<String> = files.iter().map(|new| new.file.file_path().to_owned()).collect();
        if let Err(error) = self.cold.reader.stores().remove(&urls).await {
            tracing::debug!(%error, "left files of an export that failed to the orphan task");
        }
    }
}

/// Exports an attempt's range. Returns the rows.
pub async fn run(work: &mut Work<'_>, attempt: i64) -> Result<u64> {
    let cold = Cold::open(work).await?;
    writable::check(&cold.table.to_string(), &cold.head.metadata)?;
    let mut transaction = work.connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.during(WHAT)?;
    sqlx::query(NO_TIMEOUTS).execute(&mut *transaction).await.during(WHAT)?;
    let snapshot: String = sqlx::query_scalar("SELECT coldfront._attempt_snapshot($1)")
        .bind(attempt)
        .fetch_one(&mut *transaction)
        .await
        .during(WHAT)?;
    let pieces: Vec<String> = sqlx::query_scalar("SELECT coldfront._attempt_pieces($1, $2)")
        .bind(attempt)
        .bind(i32::try_from(work.settings.export_jobs).unwrap_or(i32::MAX))
        .fetch_all(&mut *transaction)
        .await
        .during(WHAT)?;
    let workers = work.settings.export_jobs.min(pieces.len());
    let export = Arc::new(Export {
        settings: work.settings.clone(),
        attempt,
        snapshot,
        cold,
        pieces: Mutex::new(pieces.into()),
        stop: AtomicBool::new(false),
    });
    let files = write_watching(&export, workers, &mut transaction).await?;
    let rows: u64 = files.iter().map(|new| new.file.record_count()).sum();
    failpoint::reach(failpoint::EXPORTING).await;
    if !files.is_empty() {
        append::commit(&export, &mut transaction, files).await?;
    }
    failpoint::reach(failpoint::APPENDED).await;
    sqlx::query("SELECT coldfront._attempt_exported($1, $2)")
        .bind(attempt)
        .bind(i64::try_from(rows).unwrap_or(i64::MAX))
        .execute(&mut *transaction)
        .await
        .during(WHAT)?;
    transaction.commit().await.during(WHAT)?;
    Ok(rows)
}

/// [`write`], while the transaction with the snapshot is kept alive. Without it, the work is in vain.
async fn write_watching(export: &Arc<Export>, workers: usize, transaction: &mut PgConnection) -> Result<Vec<NewFile>> {
    let mut writing = std::pin::pin!(write(export, workers));
    loop {
        let lost = tokio::select! {
            written = &mut writing => return written,
            () = tokio::time::sleep(KEEP_ALIVE) => sqlx::query("SELECT 1").execute(&mut *transaction).await.err(),
        };
        if let Some(lost) = lost {
            export.stop.store(true, Relaxed);
            if let Ok(files) = writing.await {
                export.remove(&files).await;
            }
            return Err(lost).during(WHAT)?;
        }
    }
}

/// Reads and writes all pieces. Where one fails, nothing stays.
async fn write(export: &Arc<Export>, workers: usize) -> Result<Vec<NewFile>> {
    let mut running = JoinSet::new();
    for _ in 0..workers {
        let export = Arc::clone(export);
        running.spawn(async move {
            let outcome = files::write_pieces(&export).await;
            if outcome.is_err() {
                export.stop.store(true, Relaxed);
            }
            outcome
        });
    }
    let (mut files, mut failure) = (Vec::new(), None);
    while let Some(ended) = running.join_next().await {
        match ended.map_err(Error::Task).flatten() {
            Ok(written) => files.extend(written),
            Err(error) => {
                export.stop.store(true, Relaxed);
                failure.get_or_insert(error);
            }
        }
    }
    match failure {
        None => Ok(files),
        Some(error) => {
            export.remove(&files).await;
            Err(error)
        }
    }
}
