//! Says in PostgreSQL's terms what went wrong: SQLSTATE, message, detail, hint.
//!
//! `duckdb` maps DuckDB's errors; everything else in the engine makes a [`Failure`] here.

mod duckdb;
mod rules;

use coldfront_common::frame::Failure;
use coldfront_common::sqlstate;

pub use duckdb::{Surroundings, from_duckdb};

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
pub fn from_commit(error: &CommitError, surroundings: &Surroundings<'_>) -> Failure {
    if let CommitError::Refused { status: 409, error } = error {
        // Plain words first: this one is met in ordinary operation, and asks for a retry.
        let detail = Some(surroundings.plain(&error.message));
        return Failure { detail, ..failure(sqlstate::SERIALIZATION_FAILURE, "another writer changed a table first") };
    }
    let state = match error {
        CommitError::DuckDb(error) => return from_duckdb(error, surroundings),
        CommitError::Refused { status: 401, .. } => sqlstate::INVALID_AUTHORIZATION,
        CommitError::Refused { status: 403, .. } => sqlstate::INSUFFICIENT_PRIVILEGE,
        CommitError::Refused { .. } | CommitError::Lost { .. } => sqlstate::IO_ERROR,
        CommitError::Partial { .. } | CommitError::Unknown { .. } => sqlstate::RESOLUTION_UNKNOWN,
    };
    failure(state, surroundings.plain(&error.to_string()))
}
