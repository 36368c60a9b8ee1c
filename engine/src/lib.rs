//! The engine as a library, so that its tests can start its parts; `main.rs` only wires them together.

pub mod gateway;
pub mod http;
pub mod metrics;
