//! What can go wrong, and the exit code it means.

use coldfront_common::config::ConfigError;
use coldfront_lake::LakeError;

use coldfront_program::database::{self, DatabaseError};
use coldfront_program::http::HttpError;
use coldfront_program::lake::LakeSettingsError;

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
    #[error(transparent)]
    NoLake(#[from] LakeSettingsError),
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("another compactor works on {0}")]
    Busy(String),
    #[error(transparent)]
    Lake(#[from] LakeError),
    #[error("{0}")]
    Refused(String),
    #[error("a part of the work ended unexpectedly")]
    Task(#[from] tokio::task::JoinError),
    #[error("cannot start")]
    Runtime(#[source] std::io::Error),
    #[error(transparent)]
    Http(#[from] HttpError),
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
        database::chain(self)
    }
}

impl From<iceberg::Error> for Error {
    fn from(source: iceberg::Error) -> Self {
        Self::Lake(LakeError::Metadata { what: "the table's metadata".to_owned(), source: Box::new(source) })
    }
}
