//! Says in PostgreSQL's terms what went wrong: SQLSTATE, message, detail, hint.
//!
//! One table maps DuckDB's errors; everything else in the engine makes a [`Failure`] through here as well.

use coldfront_common::frame::Failure;
use coldfront_common::sqlstate;

use crate::duckdb::{Error, Kind};
use crate::gateway::client::ClientError;
use crate::spill::SpillError;
use crate::staging::CommitError;

/// A failure without detail and hint.
pub fn failure(sqlstate: &str, message: impl Into<String>) -> Failure {
    Failure { sqlstate: sqlstate.into(), message: message.into(), detail: None, hint: None }
}

/// The client broke the protocol.
pub fn protocol(message: impl Into<String>) -> Failure {
    failure(sqlstate::PROTOCOL_VIOLATION, message)
}

/// Maps an error of DuckDB.
pub fn from_duckdb(error: &Error) -> Failure {
    let state = match error.kind {
        Kind::Interrupt => sqlstate::QUERY_CANCELED,
        Kind::OutOfRange => sqlstate::NUMERIC_OUT_OF_RANGE,
        Kind::Conversion => sqlstate::NUMERIC_OUT_OF_RANGE,
        Kind::NotImplemented => sqlstate::FEATURE_NOT_SUPPORTED,
        Kind::Parser => sqlstate::SYNTAX_ERROR,
        Kind::OutOfMemory => sqlstate::OUT_OF_MEMORY,
        Kind::Io | Kind::Http => sqlstate::IO_ERROR,
        _ => sqlstate::INTERNAL,
    };
    failure(state, &error.message)
}

/// Maps trouble with the spill directory.
pub fn from_spill(error: &SpillError) -> Failure {
    match error {
        SpillError::Full { .. } => Failure {
            hint: Some("Raise the engine's spill limit (spill_limit_mb).".into()),
            ..failure(sqlstate::DISK_FULL, error.to_string())
        },
        SpillError::Disk { source, .. } => {
            Failure { detail: Some(source.to_string()), ..failure(sqlstate::DISK_FULL, error.to_string()) }
        }
        SpillError::Io { source, .. } => {
            Failure { detail: Some(source.to_string()), ..failure(sqlstate::IO_ERROR, error.to_string()) }
        }
    }
}

/// Maps an answer of the catalog to a question of the engine itself.
pub fn from_catalog(error: &ClientError) -> Failure {
    let state = match error {
        ClientError::Unreachable(_) => sqlstate::UNABLE_TO_CONNECT,
        ClientError::Unauthorized(_) => sqlstate::INVALID_AUTHORIZATION,
        ClientError::NotFound { .. } => sqlstate::UNDEFINED_TABLE,
        ClientError::Status { status: 403, .. } => sqlstate::INSUFFICIENT_PRIVILEGE,
        ClientError::Status { .. } | ClientError::Malformed { .. } => sqlstate::IO_ERROR,
    };
    failure(state, error.to_string())
}

/// Maps a commit that is not known to have succeeded.
pub fn from_commit(error: &CommitError) -> Failure {
    let state = match error {
        CommitError::DuckDb(error) => return from_duckdb(error),
        CommitError::Refused { status: 409, .. } => sqlstate::SERIALIZATION_FAILURE,
        CommitError::Refused { status: 401, .. } => sqlstate::INVALID_AUTHORIZATION,
        CommitError::Refused { status: 403, .. } => sqlstate::INSUFFICIENT_PRIVILEGE,
        CommitError::Refused { .. } | CommitError::Lost { .. } => sqlstate::IO_ERROR,
        CommitError::Partial { .. } | CommitError::Unknown { .. } => sqlstate::RESOLUTION_UNKNOWN,
    };
    failure(state, error.to_string())
}
