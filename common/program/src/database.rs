//! Errors of the database, told with what was being done.

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
