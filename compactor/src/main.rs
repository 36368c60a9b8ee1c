//! `coldfront-compactor`: keeps the cold parts of tables healthy. Arguments, start, stop.

mod claim;
mod cli;
mod compact;
mod db;
mod error;
mod expire;
mod failpoint;
mod manifests;
mod metrics;
mod old_metadata;
mod orphans;
mod policy;
mod run;
mod serve;
mod settings;
mod state;
mod status;
mod work;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use error::{Error, Result};

fn main() -> ExitCode {
    let cli = Cli::parse();
    coldfront_program::logging::start("COLDFRONT_COMPACTOR_LOG");
    let start = || -> Result<ExitCode> {
        let settings = cli.settings()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(settings.jobs.max(2))
            .enable_all()
            .build()
            .map_err(Error::Runtime)?;
        runtime.block_on(async {
            match &cli.command {
                Command::Run(args) => return run::run(args, &settings).await,
                Command::Serve => serve::run(&settings).await?,
                Command::Status => status::run(&settings).await?,
            }
            Ok(ExitCode::SUCCESS)
        })
    };
    start().unwrap_or_else(|error| {
        tracing::error!("{}", error.chain());
        ExitCode::from(error.exit_code())
    })
}
