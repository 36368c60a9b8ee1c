//! The engine as a library, so that its tests can start its parts; `main.rs` only wires them together.

pub mod cli;
pub mod duckdb;
pub mod engine;
pub mod failure;
pub mod gateway;
pub mod http;
pub mod instance;
pub mod ipc;
pub mod logging;
pub mod metrics;
pub mod server;
pub mod spill;
pub mod staging;
pub mod state;
