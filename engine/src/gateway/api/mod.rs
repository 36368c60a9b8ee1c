//! The wire side of the gateway: routes, headers and error bodies. It may not reach a catalog by itself.

pub mod error_model;
pub mod headers;
pub mod serve;
pub mod target;
