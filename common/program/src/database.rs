//! Connections to the database, and its errors, told with what was being done.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection};

/// How often the server looks whether a session's program is still there while it works for it: what a killed one left
/// running must not hold locks against the next.
const ALIVE_CHECK: &str = "5s";

/// Opens a session that ends soon after this program, whatever it is doing then.
pub async fn connect(options: &PgConnectOptions) -> Result<PgConnection, sqlx::Error> {
    let mut connection = PgConnection::connect_with(options).await?;
    let check = format!("SET client_connection_check_interval = '{ALIVE_CHECK}'");
    sqlx::raw_sql(AssertSqlSafe(check)).execute(&mut connection).await?;
    Ok(connection)
}

/// A statement failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {}", describe(.driver))]
pub struct DatabaseError {
    pub what: String,
    // Not named `source`: the message says it all, and nothing is to be told after it.
    driver: Box<sqlx::Error>,
}

impl DatabaseError {
    pub fn new(what: impl Into<String>, source: sqlx::Error) -> Self {
        Self { what: what.into(), driver: Box::new(source) }
    }

    /// The driver's error.
    pub fn cause(&self) -> &sqlx::Error {
        &self.driver
    }

    pub fn into_cause(self) -> sqlx::Error {
        *self.driver
    }

    /// The server's SQLSTATE, if it is the server that failed.
    pub fn sqlstate(&self) -> Option<String> {
        self.driver.as_database_error()?.code().map(|code| code.into_owned())
    }
}

/// Says what was being done when a statement failed.
pub trait During<T> {
    fn during(self, what: impl Into<String>) -> Result<T, DatabaseError>;
}

impl<T> During<T> for Result<T, sqlx::Error> {
    fn during(self, what: impl Into<String>) -> Result<T, DatabaseError> {
        self.map_err(|source| DatabaseError::new(what, source))
    }
}

/// The server's message with its detail, hint and SQLSTATE.
pub fn describe(error: &sqlx::Error) -> String {
    let Some(server) = error.as_database_error() else { return error.to_string() };
    let mut text = server.message().to_owned();
    if let Some(postgres) = server.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
        for more in [postgres.detail(), postgres.hint()].into_iter().flatten() {
            text = format!("{text} ({more})");
        }
        text = format!("{text} [{}]", postgres.code());
    }
    text
}

/// An error's message with those of its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
