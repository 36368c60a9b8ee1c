//! Errors of the extension and their one way out as PostgreSQL ERRORs.
//!
//! Inside, functions return [`Error`]; only [`Error::raise`] turns one into `ereport`.

use coldfront_common::{frame::Failure, sqlstate};
use pgrx::{PgLogLevel, PgSqlErrorCode, pg_sys::panic::ErrorReport};

use crate::pg::interrupts;

/// Everything that can go wrong between a backend and the lake.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine answered with a failure.
    #[error("{}", .0.message)]
    Engine(Failure),
    /// The engine went away while it worked for this backend.
    #[error("coldfront: the engine was lost while it ran this statement")]
    EngineLost { cause: String },
    /// The engine could not be reached at all.
    #[error("coldfront: the engine is not running")]
    EngineUnavailable { socket: String, cause: String },
    /// The statement asks for something that is not possible, found before anything was written.
    #[error("{message}")]
    Refused { sqlstate: &'static str, message: String, detail: Option<String>, hint: Option<String> },
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn refused(sqlstate: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { sqlstate, message: message.into(), detail: None, hint: Some(hint.into()) }
    }

    /// A value that the lake cannot hold; `class` is the SQLSTATE.
    pub fn value(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self::Refused { sqlstate, message: message.into(), detail: None, hint: None }
    }

    /// Prefixes the message with the user's relation, so that every error names it.
    pub fn on_relation(self, relation: &str) -> Self {
        match self {
            Self::Engine(mut failure) => {
                failure.message = format!("coldfront: relation {relation}: {}", failure.message);
                Self::Engine(failure)
            }
            other => other,
        }
    }

    /// SQLSTATE of the error.
    pub fn sqlstate(&self) -> &str {
        match self {
            Self::Engine(failure) => &failure.sqlstate,
            Self::EngineLost { .. } | Self::EngineUnavailable { .. } => sqlstate::SYSTEM_ERROR,
            Self::Refused { sqlstate, .. } => sqlstate,
        }
    }

    /// Reports the error; does not return.
    pub fn raise(self) -> ! {
        if [sqlstate::QUERY_CANCELED, sqlstate::IN_FAILED_SQL_TRANSACTION].contains(&self.sqlstate()) {
            // PostgreSQL's own words for a cancel or a timeout are better. One that came when its request had just been
            // answered may have failed the engine's transaction, which the next request is told.
            interrupts::serve();
        }
        let (detail, hint) = match &self {
            Self::Engine(failure) => (failure.detail.clone(), failure.hint.clone()),
            Self::EngineLost { cause } => {
                (Some(cause.clone()), Some("The engine restarts by itself; retry the transaction.".to_owned()))
            }
            Self::EngineUnavailable { socket, cause } => (
                Some(format!("Connecting to \"{socket}\" failed: {cause}.")),
                Some(
                    "See the server log for why the engine does not start, and coldfront.engine_autostart.".to_owned(),
                ),
            ),
            Self::Refused { detail, hint, .. } => (detail.clone(), hint.clone()),
        };
        let code = code_of(self.sqlstate());
        let mut report = ErrorReport::new(code, self.to_string(), "coldfront");
        if let Some(detail) = detail {
            report = report.set_detail(detail);
        }
        if let Some(hint) = hint {
            report = report.set_hint(hint);
        }
        report.report(PgLogLevel::ERROR);
        unreachable!("ereport(ERROR) does not return")
    }
}

/// Unwraps a result or raises its error.
pub trait OrRaise<T> {
    fn or_raise(self) -> T;
}

impl<T> OrRaise<T> for Result<T> {
    fn or_raise(self) -> T {
        self.unwrap_or_else(|error| error.raise())
    }
}

/// Packs a five-character SQLSTATE the way `MAKE_SQLSTATE` does: six bits a character.
fn code_of(state: &str) -> PgSqlErrorCode {
    let packed =
        state.bytes().take(5).enumerate().fold(0i32, |code, (i, b)| code | ((i32::from(b) - 0x30) & 0x3f) << (6 * i));
    PgSqlErrorCode::from(packed)
}
