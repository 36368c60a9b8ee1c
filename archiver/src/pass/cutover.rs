//! The cutover: a short lock, nothing left to apply, then watermark, view and DETACH in one transaction.

use std::time::{Duration, Instant};

use sqlx::Connection;

use super::archive;
use super::table::Work;
use crate::db::{self, During, gives_way, jittered};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::progress::Progress;

/// Tries that let go of the lock when there is something left to apply. After them it is applied under the lock.
const OPEN_TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

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
    let mut pause = PAUSE;
    let mut behind = 0;
    loop {
        match once(work, attempt, behind >= OPEN_TRIES).await? {
            Try::Flipped => break,
            Try::Behind => {
                behind += 1;
                archive::replay(work, attempt).await?;
                note_snapshot(&mut work.connection, attempt).await?;
                continue;
            }
            Try::Locked(source) if began.elapsed() > work.settings.lock_wait => {
                let waited_s = work.settings.lock_wait.as_secs();
                return Err(Error::Busy { what: "cutting over".to_owned(), waited_s, source });
            }
            Try::Locked(_) => {
                tokio::time::sleep(jittered(pause)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
        archive::replay(work, attempt).await?;
    }
    work.took("cutover", began);
    tracing::info!(table = %work.table, seconds = began.elapsed().as_secs_f64(), "cut over");
    Ok(())
}

/// One try. With `last`, changes that remain are applied by a second session while this one keeps writers out: they are
/// committed in Iceberg before the cutover is.
async fn once(work: &mut Work<'_>, attempt: i64, last: bool) -> Result<Try> {
    let what = "cutting over";
    let mut transaction = work.connection.begin().await.during(what)?;
    sqlx::query("SET LOCAL lock_timeout = '100ms'").execute(&mut *transaction).await.during(what)?;
    let waiting: i64 = match sqlx::query_scalar("SELECT coldfront._attempt_lock($1, $2)")
        .bind(attempt)
        .bind(!last)
        .fetch_one(&mut *transaction)
        .await
    {
        Ok(waiting) => waiting,
        Err(error) if gives_way(&error) => {
            transaction.rollback().await.during(what)?;
            return Ok(Try::Locked(error));
        }
        Err(error) => return Err(error).during(what),
    };
    failpoint::reach(failpoint::LOCKED).await;
    if waiting > 0 && !last {
        transaction.rollback().await.during(what)?;
        return Ok(Try::Behind);
    }
    if waiting > 0 {
        let mut second = db::connect(work.settings).await?;
        archive::apply(&mut second, attempt, false).await?;
        note_snapshot(&mut second, attempt).await?;
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
