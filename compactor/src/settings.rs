//! What the compactor runs with: command line and environment over configuration file over defaults.

use std::str::FromStr;

use coldfront_common::config::CompactorSchedule;
use sqlx::postgres::PgConnectOptions;

use crate::cli::Cli;
use crate::error::{Error, Result};

const JOBS: usize = 2;

#[derive(Debug, Clone)]
pub struct Settings {
    pub connection: PgConnectOptions,
    pub jobs: usize,
    pub schedule: CompactorSchedule,
    pub time_zone: String,
    pub metrics_listen: Option<String>,
}

impl Cli {
    pub fn settings(&self) -> Result<Settings> {
        let file = coldfront_common::config::load(self.config.as_deref())?.compactor;
        let connection = match self.dsn.as_ref().or(file.dsn.as_ref()) {
            // The URL may hold a password, so the error does not show it.
            Some(url) => PgConnectOptions::from_str(url).map_err(|_| Error::Dsn)?,
            None => PgConnectOptions::new(),
        };
        Ok(Settings {
            connection: connection.application_name("coldfront-compactor"),
            jobs: self.jobs.or(file.jobs).unwrap_or(JOBS).max(1),
            schedule: file.schedule,
            time_zone: self.time_zone.clone().or(file.time_zone).unwrap_or_else(|| "UTC".to_owned()),
            metrics_listen: self.metrics_listen.clone().or(file.metrics_listen).filter(|l| !l.is_empty()),
        })
    }
}
