//! What can go wrong, and the exit code it means.

use coldfront_common::config::ConfigError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Wrong arguments or configuration; also what clap uses.
const EXIT_USAGE: u8 = 2;
/// The database cannot be reached, or something in the environment is missing.
const EXIT_ENVIRONMENT: u8 = 3;
/// Work on a table failed.
pub const EXIT_FAILED: u8 = 1;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the DSN is not a connection URL, such as postgres://archiver@localhost/app")]
    Dsn,
    #[error("\"{0}\" is not a table name: write schema.table, with double quotes around parts that need them")]
    TableName(String),
    #[error("{0}")]
    Usage(String),
    #[error("cannot connect to the database")]
    Connect(#[source] sqlx::Error),
    #[error("the extension coldfront is not installed in this database: CREATE EXTENSION coldfront")]
    NoExtension,
    #[error("{what}")]
    Database { what: String, source: sqlx::Error },
    #[error("{what}: gave up waiting for a lock after {waited_s} s, because the table is busy; run again later")]
    Busy { what: String, waited_s: u64, source: sqlx::Error },
    #[error("{0}")]
    Kept(String),
    #[error("cannot read {path}")]
    Read { path: String, source: std::io::Error },
    #[error("{path} does not hold lifecycles as `export` writes them")]
    Parse { path: String, source: Box<serde_saphyr::Error> },
    #[error("cannot write the lifecycles as YAML")]
    Write(#[source] Box<serde_saphyr::ser_error::Error>),
    #[error("cannot start")]
    Runtime(#[source] std::io::Error),
    #[error(transparent)]
    Http(#[from] crate::http::HttpError),
}

impl Error {
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::Dsn
            | Self::TableName(_)
            | Self::Usage(_)
            | Self::Read { .. }
            | Self::Parse { .. } => EXIT_USAGE,
            Self::Connect(_) | Self::NoExtension | Self::Runtime(_) | Self::Http(_) => EXIT_ENVIRONMENT,
            Self::Database { .. } | Self::Busy { .. } | Self::Kept(_) | Self::Write(_) => EXIT_FAILED,
        }
    }

    /// SQLSTATE of a database error.
    pub fn sqlstate(&self) -> Option<String> {
        match self {
            Self::Database { source, .. } => source.as_database_error()?.code().map(|code| code.into_owned()),
            _ => None,
        }
    }

    /// The message with all its causes, and the server's hint.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        match self {
            Self::Database { source, .. } | Self::Busy { source, .. } => {
                text = format!("{text}: {}", describe(source));
            }
            _ => {
                let mut cause = std::error::Error::source(self);
                while let Some(error) = cause {
                    text = format!("{text}: {error}");
                    cause = error.source();
                }
            }
        }
        text
    }
}

fn describe(error: &sqlx::Error) -> String {
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
