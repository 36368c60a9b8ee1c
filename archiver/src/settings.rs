//! What the archiver runs with: command line and environment over configuration file over defaults.

use std::str::FromStr;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use crate::cli::Cli;
use crate::error::{Error, Result};

const EXPORT_JOBS: usize = 2;
const LOCK_WAIT_S: u64 = 600;

#[derive(Debug, Clone)]
pub struct Settings {
    pub connection: PgConnectOptions,
    pub jobs: usize,
    pub export_jobs: usize,
    pub lock_wait: Duration,
    pub schedule: Option<String>,
    pub time_zone: String,
    pub metrics_listen: Option<String>,
}

impl Cli {
    pub fn settings(&self) -> Result<Settings> {
        let file = coldfront_common::config::load(self.config.as_deref())?.archiver;
        let connection = match self.dsn.as_ref().or(file.dsn.as_ref()) {
            // The URL may hold a password, so the error does not show it.
            Some(url) => PgConnectOptions::from_str(url).map_err(|_| Error::Dsn)?,
            None => PgConnectOptions::new(),
        };
        Ok(Settings {
            // Statements that take long are what this program is for.
            connection: connection.application_name("coldfront-archiver").disable_statement_logging(),
            jobs: self.jobs.or(file.jobs).unwrap_or(1).max(1),
            export_jobs: self.export_jobs.or(file.export_jobs).unwrap_or(EXPORT_JOBS).max(1),
            lock_wait: Duration::from_secs(self.lock_wait_s.or(file.lock_wait_s).unwrap_or(LOCK_WAIT_S)),
            schedule: self.schedule.clone().or(file.schedule),
            time_zone: self.time_zone.clone().or(file.time_zone).unwrap_or_else(|| "UTC".to_owned()),
            metrics_listen: self.metrics_listen.clone().or(file.metrics_listen).filter(|l| !l.is_empty()),
        })
    }
}
