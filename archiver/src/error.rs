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
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(
        "{what}: gave up waiting for a lock after {waited_s} s, because the table is busy; run again later: {}",
        database::describe(.last)
    )]
    Busy { what: String, waited_s: u64, last: Box<sqlx::Error> },
    #[error("{0}")]
    Kept(String),
    #[error(transparent)]
    NoLake(#[from] LakeSettingsError),
    #[error(transparent)]
    Lake(#[from] LakeError),
    #[error("the registry has a wrong entry for {0}")]
    Registry(String),
    #[error("{0}")]
    Protocol(String),
    #[error("a part of the work ended unexpectedly")]
    Task(#[from] tokio::task::JoinError),
    #[error("another part of the export failed")]
    Stopped,
    #[error("cannot read {path}")]
    Read { path: String, source: std::io::Error },
    #[error("{path} does not hold lifecycles as `export` writes them")]
    Parse { path: String, source: Box<serde_saphyr::Error> },
    #[error("cannot write the lifecycles as YAML")]
    Write(#[source] Box<serde_saphyr::ser_error::Error>),
    #[error("cannot start")]
    Runtime(#[source] std::io::Error),
    #[error(transparent)]
    Http(#[from] HttpError),
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
            Self::Connect(_) | Self::NoExtension | Self::NoLake(_) | Self::Runtime(_) | Self::Http(_) => {
                EXIT_ENVIRONMENT
            }
            _ => EXIT_FAILED,
        }
    }

    /// SQLSTATE of a database error.
    pub fn sqlstate(&self) -> Option<String> {
        match self {
            Self::Database(error) => error.sqlstate(),
            _ => None,
        }
    }

    /// The message with all its causes, and the server's hint.
    pub fn chain(&self) -> String {
        database::chain(self)
    }
}
