//! `coldfront-engine`: arguments, start, stop.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use coldfront_common::allocator;
use coldfront_engine::cli::{Cli, Settings, SettingsError};
use coldfront_engine::duckdb::library_version;
use coldfront_engine::engine::Engine;
use coldfront_engine::gateway::Gateway;
use coldfront_engine::http;
use coldfront_engine::instance::Instances;
use coldfront_engine::instance::settings::Limits;
use coldfront_engine::logging;
use coldfront_engine::server::listen::{ListenError, Server};
use coldfront_engine::spill::Spill;
use coldfront_engine::staging::JournalDir;
use coldfront_engine::state::{StateDir, StateError};
use tokio::signal::unix::{SignalKind, signal};

/// Buffers up to this size are kept by the allocator, which DuckDB shares, in bytes.
const KEPT_BUFFER_BYTES: i32 = 8 * 1024 * 1024;
/// Wrong arguments or configuration; also what clap uses.
const EXIT_USAGE: u8 = 2;
/// Something in the environment is missing or cannot be used.
const EXIT_ENVIRONMENT: u8 = 3;
/// Another engine is there already.
const EXIT_IN_USE: u8 = 4;

fn main() -> ExitCode {
    let cli = Cli::parse();
    logging::start();
    allocator::keep_buffers(KEPT_BUFFER_BYTES);
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    let in_use = matches!(error.downcast_ref(), Some(StateError::InUse { .. }))
        || matches!(error.downcast_ref(), Some(ListenError::InUse { .. }));
    match error.is::<SettingsError>() {
        true => EXIT_USAGE,
        false if in_use => EXIT_IN_USE,
        false => EXIT_ENVIRONMENT,
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    let settings = cli.settings()?;
    if cli.die_with_parent {
        end_with_parent()?;
    }
    // Signals are caught from here on, so that a stop during start-up is clean too.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut interrupt) = {
        let _entered = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    http::install_recorder()?;
    let state = StateDir::open(&settings.state_dir)?;
    let server = start(&settings, &state)?;
    let asked = server.clone();
    let _http = http::start(settings.metrics_listen.as_deref(), move || asked.health())?;
    let accepting = server.clone();
    std::thread::Builder::new().name("accept".into()).spawn(move || accepting.run())?;
    tracing::info!(socket = %settings.socket.display(), version = env!("CARGO_PKG_VERSION"), duckdb = library_version(), "ready");
    runtime.block_on(async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    });
    tracing::info!("stopping");
    server.stop();
    Ok(())
}

fn start(settings: &Settings, state: &StateDir) -> anyhow::Result<Arc<Server>> {
    let gateway = Gateway::start()?;
    let spill = Spill::new(state.spill_dir(), settings.spill_limit_mb);
    let limits = Limits {
        extension_dir: settings.extension_dir.clone(),
        spill_dir: state.spill_dir(),
        memory_limit_mb: settings.memory_limit_mb,
        threads: settings.threads,
        spill_limit_mb: settings.spill_limit_mb,
    };
    let journals = JournalDir::open(state.journal_dir()).context("cannot read the staging journals")?;
    let (wake, woken) = std::sync::mpsc::channel();
    let instances = Instances::new(limits, gateway, journals, wake.clone());
    let engine = Engine::start(instances, spill, (wake, woken))?;
    Ok(Server::bind(engine, &settings.socket)?)
}

/// Asks the kernel for SIGTERM when the parent ends; the parent may have ended just before.
fn end_with_parent() -> anyhow::Result<()> {
    let parent = rustix::process::getppid();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .context("cannot ask to end with the parent process")?;
    anyhow::ensure!(rustix::process::getppid() == parent, "the parent process ended during the start");
    Ok(())
}
