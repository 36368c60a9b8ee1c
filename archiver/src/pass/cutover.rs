//! The cutover: a short lock, nothing left to apply, then watermark, view and DETACH in one transaction.

use coldfront_program::progress::Progress;
use std::time::Instant;

use sqlx::Connection;

use super::archive;
use super::table::Work;
use crate::db::{self, During, Tries, gives_way};
use crate::error::{Error, Result};
use crate::failpoint;

/// Tries that let go of the lock when there is something left to apply. After them it is applied under the lock.
const OPEN_TRIES: usize = 3;
/// How a try ended.
enum Try {
    Flipped,
    /// Somebody uses the relation.
    Locked(sqlx::Error),
    /// Changes came in the meantime.
    Behind,
}

pub async fn run(work: &mut Work<'_>, attempt: i64, progress: &Progress) -> Result<()> {
    progress.step("cutting over");
    note_snapshot(&mut work.connection, attempt).await?;
    let began = Instant::now();
    let mut tries = Tries::new(work.settings.lock_wait);
    let mut behind = 0;
    loop {
        match once(work, attempt, &tries, behind >= OPEN_TRIES).await? {
            Try::Flipped => break,
            Try::Locked(source) => tries.pause("cutting over", source).await?,
            Try::Behind => {
                behind += 1;
                archive::replay(work, attempt).await?;
                note_snapshot(&mut work.connection, attempt).await?;
            }
        }
    }
    work.took("cutover", began);
    tracing::info!(table = %work.table, seconds = began.elapsed().as_secs_f64(), "cut over");
    Ok(())
}

/// One try. With `last`, changes that remain are applied by a second session while this one keeps writers out: they are
/// committed in Iceberg before the cutover is.
async fn once(work: &mut Work<'_>, attempt: i64, tries: &Tries, last: bool) -> Result<Try> {
    let what = "cutting over";
    let mut transaction = work.connection.begin().await.during(what)?;
    tries.limit(&mut transaction).await.during(what)?;
    let waiting: i64 =
        match sqlx::query_scalar("SELECT coldfront._attempt_lock($1)").bind(attempt).fetch_one(&mut *transaction).await
        {
            Ok(waiting) => waiting,
            Err(error) if gives_way(&error) => {
                transaction.rollback().await.during(what)?;
                return Ok(Try::Locked(error));
            }
            Err(error) => return Err(error).during(what)?,
        };
    failpoint::reach(failpoint::LOCKED).await;
    if waiting > 0 && !last {
        transaction.rollback().await.during(what)?;
        return Ok(Try::Behind);
    }
    if waiting > 0 {
        let mut second = db::connect(work.settings).await?;
        // A writer may hold the claim and wait for the relation.
        sqlx::query("SET lock_timeout = '500ms'").execute(&mut second).await.during(what)?;
        match archive::apply(&mut second, attempt).await {
            Ok(_) => note_snapshot(&mut second, attempt).await?,
            Err(Error::Database(error)) if gives_way(error.cause()) => {
                transaction.rollback().await.during(what)?;
                return Ok(Try::Locked(error.into_cause()));
            }
            Err(error) => return Err(error),
        }
    }
    sqlx::query("SELECT coldfront._attempt_flip($1)").bind(attempt).execute(&mut *transaction).await.during(what)?;
    failpoint::reach(failpoint::FLIPPED).await;
    transaction.commit().await.during(what)?;
    Ok(Try::Flipped)
}

async fn note_snapshot(connection: &mut sqlx::PgConnection, attempt: i64) -> Result<()> {
    sqlx::query("SELECT coldfront._attempt_note_snapshot($1)")
        .bind(attempt)
        .execute(connection)
        .await
        .during("asking the catalog for the snapshot")?;
    Ok(())
}
