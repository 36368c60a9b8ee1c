//! Main loop of the supervisor: starts the services that the settings want, restarts them when they end, and stops them
//! with the server.

#![allow(unsafe_code)]

use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus},
    time::{Duration, Instant},
};

use pgrx::{
    bgworkers::{BackgroundWorker, SignalWakeFlags},
    pg_guard, pg_sys,
};

use super::commands;
use crate::gucs;

/// A service that lived this long is not failing to start.
const HEALTHY_AFTER: Duration = Duration::from_secs(1);
const BACK_OFF_MIN: Duration = Duration::from_millis(20);
const BACK_OFF_MAX: Duration = Duration::from_secs(10);
/// How long a stopping service may take to roll back and clean up.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// The loop wakes at least this often; signals and ended children wake it at once.
const TICK: Duration = Duration::from_secs(5);

/// A program that the supervisor keeps running.
struct Service {
    name: &'static str,
    /// Whether the settings want it.
    is_wanted: fn() -> bool,
    /// How it is started.
    command: fn() -> io::Result<Command>,
    state: State,
    back_off: Duration,
}

/// What a service is doing.
enum State {
    Running {
        child: Child,
        since: Instant,
    },
    /// Start it at this moment.
    Waiting(Instant),
    /// The settings do not want it.
    Off,
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn coldfront_supervisor_main(_arg: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(
        SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGTERM | SignalWakeFlags::SIGCHLD,
    );
    let mut services = [
        Service::new("engine", || gucs::engine_autostart() && supervises("engine"), commands::engine),
        Service::new("archiver", || supervises("archiver"), || commands::with_schedule("archiver")),
        Service::new("compactor", || supervises("compactor"), || commands::with_schedule("compactor")),
    ];
    loop {
        let nap = services.iter_mut().map(Service::attend).min().unwrap_or(TICK);
        if !BackgroundWorker::wait_latch(Some(nap.clamp(Duration::from_millis(1), TICK))) {
            break;
        }
        if BackgroundWorker::sighup_received() {
            // SAFETY: the standard reaction to SIGHUP of a background worker.
            unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
        }
    }
    // The engine goes last: the others use it.
    services.iter_mut().rev().for_each(Service::stop);
}

fn supervises(name: &str) -> bool {
    gucs::supervise().split(',').any(|word| word.trim() == name)
}

impl Service {
    fn new(name: &'static str, is_wanted: fn() -> bool, command: fn() -> io::Result<Command>) -> Self {
        Self { name, is_wanted, command, state: State::Waiting(Instant::now()), back_off: BACK_OFF_MIN }
    }

    /// Brings the service into the state that is wanted; returns how long nothing is to be done.
    fn attend(&mut self) -> Duration {
        let wanted = (self.is_wanted)();
        match &mut self.state {
            State::Running { .. } if !wanted => {
                self.stop();
                self.state = State::Off;
            }
            State::Running { .. } => self.watch(),
            State::Waiting(_) if !wanted => self.state = State::Off,
            State::Off if wanted => self.state = State::Waiting(Instant::now()),
            State::Waiting(_) | State::Off => {}
        }
        if matches!(self.state, State::Waiting(at) if Instant::now() >= at) {
            self.start();
        }
        match self.state {
            State::Waiting(at) => at.saturating_duration_since(Instant::now()),
            State::Running { .. } | State::Off => TICK,
        }
    }

    /// Looks whether it still runs.
    fn watch(&mut self) {
        let State::Running { child, since } = &mut self.state else { return };
        let lived = since.elapsed();
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => {
                if lived >= HEALTHY_AFTER {
                    self.back_off = BACK_OFF_MIN;
                }
                pgrx::log!(
                    "coldfront: the {} ended ({}); it starts again in {} ms",
                    self.name,
                    describe(status),
                    self.back_off.as_millis()
                );
                self.retry();
            }
            Err(error) => {
                pgrx::warning!("coldfront: cannot watch the {}: {error}", self.name);
                self.retry();
            }
        }
    }

    fn retry(&mut self) {
        self.state = State::Waiting(Instant::now() + self.back_off);
        self.back_off = (self.back_off * 2).min(BACK_OFF_MAX);
    }

    fn start(&mut self) {
        match (self.command)().and_then(|mut command| command.spawn()) {
            Ok(child) => {
                pgrx::log!("coldfront: {} started, process {}", self.name, child.id());
                self.state = State::Running { child, since: Instant::now() };
            }
            Err(error) => {
                pgrx::warning!("coldfront: cannot start the {}: {error}", self.name);
                self.retry();
            }
        }
    }

    /// Asks it to stop, insists after a while, and reaps it.
    fn stop(&mut self) {
        let State::Running { child, .. } = &mut self.state else { return };
        let pid = libc::pid_t::try_from(child.id()).unwrap_or(0);
        // SAFETY: the child has not been reaped, so the number is still its.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let deadline = Instant::now() + STOP_GRACE;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        if matches!(child.try_wait(), Ok(None)) {
            pgrx::warning!("coldfront: the {} did not stop in time and is killed", self.name);
            if let Err(error) = child.kill().and_then(|()| child.wait().map(drop)) {
                pgrx::warning!("coldfront: the {} could not be reaped: {error}", self.name);
            }
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown status".to_owned(),
    }
}
