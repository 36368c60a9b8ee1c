//! Functions that the SQL files bind by name; what they mean to users is said there.

mod arrow;
mod engine;
mod handler;
mod row_hash;
mod tables;
