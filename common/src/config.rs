//! The configuration file that all binaries share.
//!
//! TOML, one table per binary, every key optional. Precedence: command line, environment, file, default.
//! A binary reads only its own table, and an unknown key in it is an error, so a typo never passes silently.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The file as a whole.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct ConfigFile {
    #[serde(default)]
    pub engine: EngineConfig,
    #[serde(default)]
    pub archiver: ArchiverConfig,
    #[serde(default)]
    pub compactor: CompactorConfig,
}

/// `[engine]`
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineConfig {
    /// Path of the Unix socket.
    pub socket: Option<PathBuf>,
    /// Directory for the staging journal and spill files.
    pub state_dir: Option<PathBuf>,
    /// Directory that holds DuckDB's signed extensions.
    pub extension_dir: Option<PathBuf>,
    /// Loopback address of `/metrics` and `/healthz`, e.g. `127.0.0.1:9187`.
    pub metrics_listen: Option<String>,
    /// DuckDB memory limit per instance, in MiB.
    pub memory_limit_mb: Option<u64>,
    /// DuckDB threads per instance.
    pub threads: Option<u32>,
    /// Cap of the spill directory, in MiB.
    pub spill_limit_mb: Option<u64>,
}

/// `[archiver]`
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiverConfig {
    /// Connection URL, e.g. `postgres://archiver@/app?host=/run/postgresql`.
    pub dsn: Option<String>,
    /// Cron expression with seconds for `serve`, e.g. `0 15 * * * *`.
    pub schedule: Option<String>,
    /// Time zone of the schedule, e.g. `Europe/Prague`.
    pub time_zone: Option<String>,
    /// Loopback address of `/metrics` in `serve`, e.g. `127.0.0.1:9188`.
    pub metrics_listen: Option<String>,
    /// Tables that are worked on at a time.
    pub jobs: Option<usize>,
    /// Parts of a table that are exported at a time, each with a connection of its own.
    pub export_jobs: Option<usize>,
    /// For how long a lock on a busy table is tried again and again.
    pub lock_wait_s: Option<u64>,
}

/// `[compactor]`
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompactorConfig {
    /// Connection URL, e.g. `postgres://compactor@/app?host=/run/postgresql`.
    pub dsn: Option<String>,
    /// Time zone of the schedules, e.g. `Europe/Prague`.
    pub time_zone: Option<String>,
    /// Loopback address of `/metrics` in `serve`, e.g. `127.0.0.1:9189`.
    pub metrics_listen: Option<String>,
    /// Files that are written at a time.
    pub jobs: Option<usize>,
    /// `[compactor.schedule]`
    #[serde(default)]
    pub schedule: CompactorSchedule,
}

/// `[compactor.schedule]`: cron expressions with seconds for `serve`, e.g. `0 */10 * * * *`; what is not given never runs,
/// unless the table's own row in `coldfront.maintenance_config` says when.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CompactorSchedule {
    pub compact: Option<String>,
    pub rewrite_manifests: Option<String>,
    pub expire: Option<String>,
    pub orphans: Option<String>,
    pub metadata: Option<String>,
}

/// Why a configuration file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read configuration file {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("configuration file {path} is not valid")]
    Parse { path: PathBuf, source: Box<toml::de::Error> },
}

/// Reads `path`, or returns the defaults when there is none.
pub fn load(path: Option<&Path>) -> Result<ConfigFile, ConfigError> {
    let Some(path) = path else { return Ok(ConfigFile::default()) };
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    toml::from_str(&text).map_err(|source| ConfigError::Parse { path: path.to_owned(), source: Box::new(source) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_refused_by_name() {
        let error = toml::from_str::<ConfigFile>("[engine]\nmemory_limit = 3\n").unwrap_err();
        assert!(error.to_string().contains("memory_limit"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = load(Some(Path::new("/nonexistent/coldfront.toml"))).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/coldfront.toml"));
    }
}
