//! `coldfront-archiver`: moves partitions of tiered tables to Iceberg, and manages partitions. Arguments, start, stop.

mod cli;
mod cold;
mod commands;
mod db;
mod error;
mod export;
mod failpoint;
mod lifecycle;
mod metrics;
mod pass;
mod serve;
mod settings;

use std::process::ExitCode;

use clap::Parser;
use coldfront_common::allocator;

use cli::{Cli, Command};
use error::{Error, Result};
use settings::Settings;

/// Buffers up to this size are kept by the allocator: batches and columns in the making, in bytes.
const KEPT_BUFFER_BYTES: i32 = 8 * 1024 * 1024;

fn main() -> ExitCode {
    let cli = Cli::parse();
    allocator::keep_buffers(KEPT_BUFFER_BYTES);
    coldfront_program::logging::start("COLDFRONT_ARCHIVER_LOG");
    let run = || -> Result<ExitCode> {
        let settings = cli.settings()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2 * settings.export_jobs)
            .enable_all()
            .build()
            .map_err(Error::Runtime)?;
        runtime.block_on(dispatch(&cli.command, &settings))
    };
    run().unwrap_or_else(|error| {
        tracing::error!("{}", error.chain());
        ExitCode::from(error.exit_code())
    })
}

async fn dispatch(command: &Command, settings: &Settings) -> Result<ExitCode> {
    match command {
        Command::Register(args) => commands::register::run(args, settings).await?,
        Command::Set(args) => commands::set::run(args, settings).await?,
        Command::Remove(args) => commands::remove::run(args, settings).await?,
        Command::List => commands::list::run(settings).await?,
        Command::Import(args) => commands::import::run(args, settings).await?,
        Command::Export(args) => commands::export::run(args, settings).await?,
        Command::Status => commands::status::run(settings).await?,
        Command::Restore(args) => commands::restore::run(args, settings).await?,
        Command::Run(args) => return pass::run(args, settings).await,
        Command::Serve => serve::run(settings).await?,
    }
    Ok(ExitCode::SUCCESS)
}
