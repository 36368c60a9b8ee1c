//! What can go wrong, and the exit code it means.

use coldfront_common::config::ConfigError;
use coldfront_lake::LakeError;

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
    #[error("the DSN is not a connection URL, such as postgres://compactor@localhost/app")]
    Dsn,
    #[error("\"{0}\" is not a table name: write schema.table, with double quotes around parts that need them")]
    TableName(String),
    #[error("{0}")]
    Usage(String),
    #[error("cannot connect to the database")]
    Connect(#[source] sqlx::Error),
    #[error("the extension coldfront is not installed in this database: CREATE EXTENSION coldfront")]
    NoExtension,
    #[error("{0}")]
    NoLake(String),
    #[error("{what}")]
    Database { what: String, source: sqlx::Error },
    #[error("another compactor works on {0}")]
    Busy(String),
    #[error(transparent)]
    Lake(#[from] LakeError),
    #[error("{what}")]
    Parquet { what: String, source: parquet::errors::ParquetError },
    #[error("{what}")]
    Arrow { what: String, source: arrow_schema::ArrowError },
    #[error("cannot write {what}")]
    Upload { what: String, source: std::io::Error },
    #[error("{0}")]
    Refused(String),
    #[error("a part of the work ended unexpectedly")]
    Task(#[from] tokio::task::JoinError),
    #[error("cannot start")]
    Runtime(#[source] std::io::Error),
    #[error(transparent)]
    Http(#[from] crate::http::HttpError),
}

impl Error {
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Dsn | Self::TableName(_) | Self::Usage(_) => EXIT_USAGE,
            Self::Connect(_) | Self::NoExtension | Self::NoLake(_) | Self::Runtime(_) | Self::Http(_) => {
                EXIT_ENVIRONMENT
            }
            _ => EXIT_FAILED,
        }
    }

    /// The message with all its causes, and the server's hint.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        if let Self::Database { source, .. } = self {
            return format!("{text}: {}", describe(source));
        }
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            cause = error.source();
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

/// Says what was being done when Parquet failed.
pub trait InParquet<T> {
    fn in_parquet(self, what: &str) -> Result<T>;
}

impl<T> InParquet<T> for std::result::Result<T, parquet::errors::ParquetError> {
    fn in_parquet(self, what: &str) -> Result<T> {
        self.map_err(|source| Error::Parquet { what: what.to_owned(), source })
    }
}

/// Says what was being done when Arrow failed.
pub trait InArrow<T> {
    fn in_arrow(self, what: &str) -> Result<T>;
}

impl<T> InArrow<T> for std::result::Result<T, arrow_schema::ArrowError> {
    fn in_arrow(self, what: &str) -> Result<T> {
        self.map_err(|source| Error::Arrow { what: what.to_owned(), source })
    }
}
