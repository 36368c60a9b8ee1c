//! How a catalog is reached. It knows bytes, credentials and retries, and nothing of what a request means.

pub mod body;
pub mod oauth;
pub mod retry;
pub mod transport;
pub mod upstream;
