//! Connections, and transactions that take locks only for as long as nobody has to queue behind them.

use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnection, Postgres};
use sqlx::{Connection, Transaction};

pub use coldfront_program::database::During;
use coldfront_program::database::{self, DatabaseError};

use crate::error::{Error, Result};
use crate::settings::Settings;

/// First and longest pause between tries for a lock.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// For how long others may have to queue behind a lock. Where statements are always under way that take longer, it
/// doubles after some tries.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);
const LOCK_TIMEOUT_MAX: Duration = Duration::from_millis(3_200);
const TRIES_BEFORE_DOUBLING: u32 = 3;

pub async fn connect(settings: &Settings) -> Result<PgConnection> {
    let mut connection = database::connect(&settings.connection).await.map_err(Error::Connect)?;
    let installed: bool = sqlx::query_scalar("SELECT to_regclass('coldfront.partition_config') IS NOT NULL")
        .fetch_one(&mut connection)
        .await
        .map_err(Error::Connect)?;
    if installed { Ok(connection) } else { Err(Error::NoExtension) }
}

/// Tries for a lock: how long each may take, and the pause after it.
pub struct Tries {
    began: Instant,
    wait: Duration,
    failed: u32,
    pause: Duration,
}

impl Tries {
    /// They end `wait` from now.
    pub fn new(wait: Duration) -> Self {
        Self { began: Instant::now(), wait, failed: 0, pause: PAUSE }
    }

    /// Sets the lock_timeout of the transaction that tries next.
    pub async fn limit(&self, transaction: &mut PgConnection) -> std::result::Result<(), sqlx::Error> {
        let timeout = LOCK_TIMEOUT * 2_u32.saturating_pow(self.failed / TRIES_BEFORE_DOUBLING);
        sqlx::query("SELECT set_config('lock_timeout', $1, true)")
            .bind(format!("{}ms", timeout.min(LOCK_TIMEOUT_MAX).as_millis()))
            .execute(transaction)
            .await
            .map(|_| ())
    }

    /// Pauses after a try that failed, or says that it was the last.
    pub async fn pause(&mut self, what: &str, source: sqlx::Error) -> Result<()> {
        if self.began.elapsed() > self.wait {
            return Err(Error::Busy { what: what.to_owned(), waited_s: self.wait.as_secs(), last: Box::new(source) });
        }
        self.failed += 1;
        // Half to one and a half times the pause, so that two that wait for each other part.
        let factor = 0.5 + f64::from(getrandom::u32().unwrap_or(0)) / f64::from(u32::MAX);
        tokio::time::sleep(self.pause.mul_f64(factor)).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }
}

/// Runs `work` in a transaction with a short lock_timeout, again and again while a lock is in the way.
pub async fn briefly<T>(
    connection: &mut PgConnection,
    what: &str,
    wait: Duration,
    mut work: impl AsyncFnMut(&mut Transaction<'_, Postgres>) -> std::result::Result<T, sqlx::Error>,
) -> Result<T> {
    let mut tries = Tries::new(wait);
    loop {
        let outcome = async {
            let mut transaction = connection.begin().await?;
            tries.limit(&mut transaction).await?;
            let value = work(&mut transaction).await?;
            transaction.commit().await?;
            Ok(value)
        }
        .await;
        match outcome {
            Ok(value) => return Ok(value),
            Err(source) if gives_way(&source) => tries.pause(what, source).await?,
            Err(source) => return Err(DatabaseError::new(what, source).into()),
        }
    }
}

/// A lock that was not to be had, a deadlock or a lost race: the same may work in a moment.
pub fn gives_way(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .and_then(|e| e.code().map(|code| matches!(code.as_ref(), "55P03" | "40P01" | "40001")))
        .unwrap_or(false)
}
