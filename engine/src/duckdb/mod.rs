//! A small safe wrapper around DuckDB's C API: the only place in the engine with `unsafe`.
//!
//! It knows about databases, connections, statements, result streams, Arrow conversion, table inputs and log
//! storage. It may not know about sessions, frames, Iceberg or configuration.

#![deny(unsafe_op_in_unsafe_fn)]

mod connection;
mod convert;
mod database;
mod error;
mod input;
mod log;
mod profile;
mod stream;

pub use connection::{Connection, Interrupter};
pub use database::{Database, library_version};
pub use error::{Error, Kind};
pub use input::{BatchSource, INPUT_FUNCTION, InputReader, InputSource};
pub use log::{LogEntry, LogSink};
pub use profile::ENABLE_SQL as PROFILE_SQL;
pub use stream::ResultStream;
