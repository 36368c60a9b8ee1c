//! What more than one part of ColdFront needs, each thing in one place.
//!
//! This crate may not depend on PostgreSQL, DuckDB, Iceberg or an async
//! runtime: the extension links it into a backend.

pub mod allocator;
pub mod config;
pub mod frame;
pub mod ident;
pub mod numeric;
pub mod partition;
pub mod quote;
pub mod redact;
pub mod sqlstate;
pub mod turns;
pub mod types;
