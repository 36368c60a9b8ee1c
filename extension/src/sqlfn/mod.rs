//! Functions that the SQL files bind by name; what they mean to users is said there.

mod arrow;
mod engine;
mod handler;
mod row_hash;
mod tables;

/// The calling convention that functions without a safe form tell PostgreSQL.
static VERSION_1: pgrx::pg_sys::Pg_finfo_record = pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
