//! Connections, and transactions that take locks only for as long as nobody has to queue behind them.

use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnection, Postgres};
use sqlx::{Connection, Transaction};

use crate::error::{Error, Result};
use crate::settings::Settings;

/// First and longest pause between tries for a lock.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

pub async fn connect(settings: &Settings) -> Result<PgConnection> {
    let mut connection = PgConnection::connect_with(&settings.connection).await.map_err(Error::Connect)?;
    let installed: bool = sqlx::query_scalar("SELECT to_regclass('coldfront.partition_config') IS NOT NULL")
        .fetch_one(&mut connection)
        .await
        .map_err(Error::Connect)?;
    if installed { Ok(connection) } else { Err(Error::NoExtension) }
}

/// Says what was being done when a statement failed.
pub trait During<T> {
    fn during(self, what: impl Into<String>) -> Result<T>;
}

impl<T> During<T> for std::result::Result<T, sqlx::Error> {
    fn during(self, what: impl Into<String>) -> Result<T> {
        self.map_err(|source| Error::Database { what: what.into(), source })
    }
}

/// Runs `work` in a transaction with a short lock_timeout, again and again while a lock is in the way.
pub async fn briefly<T>(
    connection: &mut PgConnection,
    what: &str,
    wait: Duration,
    mut work: impl AsyncFnMut(&mut Transaction<'_, Postgres>) -> std::result::Result<T, sqlx::Error>,
) -> Result<T> {
    let began = Instant::now();
    let mut pause = PAUSE;
    loop {
        let outcome = async {
            let mut transaction = connection.begin().await?;
            sqlx::query("SET LOCAL lock_timeout = '100ms'").execute(&mut *transaction).await?;
            let value = work(&mut transaction).await?;
            transaction.commit().await?;
            Ok(value)
        }
        .await;
        match outcome {
            Ok(value) => return Ok(value),
            Err(source) if !gives_way(&source) => return Err(Error::Database { what: what.to_owned(), source }),
            Err(source) if began.elapsed() > wait => {
                return Err(Error::Busy { what: what.to_owned(), waited_s: wait.as_secs(), source });
            }
            Err(_) => {
                tokio::time::sleep(jittered(pause)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
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

/// Half to one and a half times a pause, so that two that wait for each other part.
pub fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + f64::from(getrandom::u32().unwrap_or(0)) / f64::from(u32::MAX))
}
