//! Structured logs to standard error: text for a person at a terminal, JSON lines for everything else.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;

/// Starts logging. The environment variable `variable` takes the filter syntax of `tracing`, the default is `info`.
pub fn start(variable: &str) {
    let filter = EnvFilter::try_from_env(variable).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).with_target(false);
    if stderr().is_terminal() {
        builder.init();
    } else {
        builder.json().init();
    }
}
