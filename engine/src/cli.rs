//! The command line. Precedence: command line, environment, configuration file, default.

use std::path::PathBuf;

use clap::Parser;
use coldfront_common::config::{ConfigError, EngineConfig};

const EXAMPLES: &str = "\
Examples:
  coldfront-engine --socket /run/coldfront/engine.sock --state-dir /var/lib/coldfront --extension-dir /usr/lib/coldfront/duckdb
  coldfront-engine --config /etc/coldfront.toml --metrics-listen 127.0.0.1:9187

Exit codes:
  0  stopped by SIGTERM or SIGINT
  2  wrong arguments or configuration
  3  the state directory, the socket or a port cannot be used
  4  another engine uses the same state directory or socket";

/// Default of `--memory-limit-mb`: enough for sorts and joins of some size beside a PostgreSQL server.
const MEMORY_LIMIT_MB: u64 = 2048;
/// Default of `--spill-limit-mb`.
const SPILL_LIMIT_MB: u64 = 20 * 1024;

/// Runs DuckDB sessions and an Iceberg gateway for one PostgreSQL cluster.
#[derive(Debug, Parser)]
#[command(name = "coldfront-engine", version, about, after_help = EXAMPLES)]
pub struct Cli {
    /// Path of the Unix socket for PostgreSQL backends
    #[arg(long, env = "COLDFRONT_ENGINE_SOCKET")]
    socket: Option<PathBuf>,
    /// Directory for the staging journal and spill files
    #[arg(long, env = "COLDFRONT_ENGINE_STATE_DIR")]
    state_dir: Option<PathBuf>,
    /// Directory that holds DuckDB's signed extensions
    #[arg(long, env = "COLDFRONT_ENGINE_EXTENSION_DIR")]
    extension_dir: Option<PathBuf>,
    /// Configuration file (TOML, table [engine])
    #[arg(long, env = "COLDFRONT_ENGINE_CONFIG")]
    config: Option<PathBuf>,
    /// Loopback address of /metrics and /healthz, for instance 127.0.0.1:9187
    #[arg(long, env = "COLDFRONT_ENGINE_METRICS_LISTEN")]
    metrics_listen: Option<String>,
    /// DuckDB memory limit per instance, in MiB [default: 2048]
    #[arg(long, env = "COLDFRONT_ENGINE_MEMORY_LIMIT_MB", value_parser = clap::value_parser!(u64).range(64..))]
    memory_limit_mb: Option<u64>,
    /// DuckDB threads per instance [default: all cores]
    #[arg(long, env = "COLDFRONT_ENGINE_THREADS", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Cap of the spill directory, in MiB [default: 20480]
    #[arg(long, env = "COLDFRONT_ENGINE_SPILL_LIMIT_MB")]
    spill_limit_mb: Option<u64>,
    /// End with the process that started this one
    #[arg(long, env = "COLDFRONT_ENGINE_DIE_WITH_PARENT")]
    pub die_with_parent: bool,
}

/// What the engine runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub socket: PathBuf,
    pub state_dir: PathBuf,
    pub extension_dir: PathBuf,
    pub metrics_listen: Option<String>,
    pub memory_limit_mb: u64,
    pub threads: u32,
    pub spill_limit_mb: u64,
}

/// Why the settings are not complete.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{option} is not set: give it on the command line, as {variable}, or as {key} in the configuration file")]
    Missing { option: &'static str, variable: &'static str, key: &'static str },
}

impl Cli {
    /// Fills what the command line and the environment left open from the configuration file and the defaults.
    pub fn settings(&self) -> Result<Settings, SettingsError> {
        let file = coldfront_common::config::load(self.config.as_deref())?.engine;
        self.merge(file)
    }

    fn merge(&self, file: EngineConfig) -> Result<Settings, SettingsError> {
        let missing = |option, variable, key| SettingsError::Missing { option, variable, key };
        Ok(Settings {
            socket: (self.socket.clone().or(file.socket)).ok_or(missing(
                "--socket",
                "COLDFRONT_ENGINE_SOCKET",
                "socket",
            ))?,
            state_dir: (self.state_dir.clone().or(file.state_dir)).ok_or(missing(
                "--state-dir",
                "COLDFRONT_ENGINE_STATE_DIR",
                "state_dir",
            ))?,
            extension_dir: (self.extension_dir.clone().or(file.extension_dir)).ok_or(missing(
                "--extension-dir",
                "COLDFRONT_ENGINE_EXTENSION_DIR",
                "extension_dir",
            ))?,
            metrics_listen: self.metrics_listen.clone().or(file.metrics_listen),
            memory_limit_mb: self.memory_limit_mb.or(file.memory_limit_mb).unwrap_or(MEMORY_LIMIT_MB),
            threads: self.threads.or(file.threads).unwrap_or_else(all_cores),
            spill_limit_mb: self.spill_limit_mb.or(file.spill_limit_mb).unwrap_or(SPILL_LIMIT_MB),
        })
    }
}

fn all_cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_wins_over_the_file() {
        let cli = Cli::parse_from(["x", "--socket", "/a", "--state-dir", "/b", "--threads", "3"]);
        let file = EngineConfig {
            socket: Some("/file".into()),
            extension_dir: Some("/ext".into()),
            threads: Some(9),
            memory_limit_mb: Some(77),
            ..EngineConfig::default()
        };
        let settings = cli.merge(file).unwrap();
        assert_eq!((settings.socket, settings.extension_dir), ("/a".into(), "/ext".into()));
        assert_eq!((settings.threads, settings.memory_limit_mb, settings.spill_limit_mb), (3, 77, SPILL_LIMIT_MB));
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = Cli::parse_from(["x", "--socket", "/a"]).merge(EngineConfig::default()).unwrap_err();
        assert!(error.to_string().contains("--state-dir"), "{error}");
    }
}
