//! Main loop of the supervisor.

#![allow(unsafe_code)]

use std::{
    ffi::CStr,
    fs, io,
    os::unix::{fs::DirBuilderExt, process::CommandExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use pgrx::{
    bgworkers::{BackgroundWorker, SignalWakeFlags},
    pg_guard, pg_sys,
};

use crate::gucs;

/// An engine that lived this long is not failing to start.
const HEALTHY_AFTER: Duration = Duration::from_secs(1);
const BACK_OFF_MIN: Duration = Duration::from_millis(20);
const BACK_OFF_MAX: Duration = Duration::from_secs(10);
/// How long a stopping engine may take to roll back and clean up.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// The loop wakes at least this often; signals and ended children wake it at once.
const TICK: Duration = Duration::from_secs(5);

/// What the engine is doing.
enum Engine {
    Running {
        child: Child,
        since: Instant,
    },
    /// Start it at this moment.
    Waiting(Instant),
    /// `coldfront.engine_autostart` is off.
    Off,
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn coldfront_supervisor_main(_arg: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(
        SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGTERM | SignalWakeFlags::SIGCHLD,
    );
    let mut engine = Engine::Waiting(Instant::now());
    let mut back_off = BACK_OFF_MIN;
    loop {
        let now = Instant::now();
        engine = match engine {
            Engine::Running { child, since } => watch(child, since, &mut back_off),
            Engine::Waiting(at) if !gucs::engine_autostart() => {
                let _ = at;
                Engine::Off
            }
            Engine::Waiting(at) if now >= at => start(&mut back_off),
            Engine::Off if gucs::engine_autostart() => Engine::Waiting(now),
            other => other,
        };
        let nap = match &engine {
            Engine::Waiting(at) => at.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)),
            Engine::Running { .. } | Engine::Off => TICK,
        };
        if !BackgroundWorker::wait_latch(Some(nap.min(TICK))) {
            break;
        }
        if BackgroundWorker::sighup_received() {
            // SAFETY: the standard reaction to SIGHUP of a background worker.
            unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
        }
    }
    if let Engine::Running { child, .. } = engine {
        stop(child);
    }
}

/// Looks whether the engine still runs.
fn watch(mut child: Child, since: Instant, back_off: &mut Duration) -> Engine {
    match child.try_wait() {
        Ok(None) if gucs::engine_autostart() => Engine::Running { child, since },
        Ok(None) => {
            stop(child);
            Engine::Off
        }
        Ok(Some(status)) => {
            if since.elapsed() >= HEALTHY_AFTER {
                *back_off = BACK_OFF_MIN;
            }
            pgrx::log!(
                "coldfront: the engine ended ({}); it starts again in {} ms",
                describe(status),
                back_off.as_millis()
            );
            retry(back_off)
        }
        Err(error) => {
            pgrx::warning!("coldfront: cannot watch the engine: {error}");
            retry(back_off)
        }
    }
}

fn retry(back_off: &mut Duration) -> Engine {
    let at = Instant::now() + *back_off;
    *back_off = (*back_off * 2).min(BACK_OFF_MAX);
    Engine::Waiting(at)
}

fn start(back_off: &mut Duration) -> Engine {
    match spawn() {
        Ok(child) => {
            pgrx::log!("coldfront: engine started, process {}", child.id());
            Engine::Running { child, since: Instant::now() }
        }
        Err(error) => {
            pgrx::warning!("coldfront: cannot start the engine {}: {error}", engine_path().display());
            retry(back_off)
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

fn engine_path() -> PathBuf {
    let configured = gucs::engine_path();
    if configured.is_empty() { server_path().with_file_name("coldfront-engine") } else { configured.into() }
}

fn server_path() -> PathBuf {
    // SAFETY: my_exec_path is a NUL-terminated array that the server fills at start.
    unsafe { CStr::from_ptr((&raw const pg_sys::my_exec_path).cast()) }.to_string_lossy().into_owned().into()
}

fn extension_dir() -> PathBuf {
    let configured = gucs::engine_extension_dir();
    if !configured.is_empty() {
        return configured.into();
    }
    let mut share = [0; pg_sys::MAXPGPATH as usize];
    // SAFETY: both buffers have MAXPGPATH bytes.
    unsafe {
        pg_sys::get_share_path((&raw const pg_sys::my_exec_path).cast(), share.as_mut_ptr());
        Path::new(&*CStr::from_ptr(share.as_ptr()).to_string_lossy()).join("coldfront/duckdb")
    }
}

fn spawn() -> io::Result<Child> {
    let socket = PathBuf::from(gucs::engine_socket());
    let home = socket.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("coldfront"));
    if !home.exists() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    }
    let mut command = Command::new(engine_path());
    // The working directory is the data directory, which keeps the socket's path short.
    command.arg("--socket").arg(&socket).arg("--state-dir").arg(home).arg("--extension-dir").arg(extension_dir());
    command.arg("--die-with-parent");
    for (flag, value) in [
        ("--memory-limit-mb", gucs::engine_memory_limit_mb()),
        ("--threads", gucs::engine_threads()),
        ("--spill-limit-mb", gucs::engine_spill_limit_mb()),
    ] {
        if let Some(value) = value {
            command.arg(flag).arg(value.to_string());
        }
    }
    let metrics = gucs::engine_metrics_listen();
    if !metrics.is_empty() {
        command.arg("--metrics-listen").arg(metrics);
    }
    command.stdin(Stdio::null());
    // SAFETY: close_range is async-signal-safe; the engine must not inherit the server's files and sockets.
    unsafe {
        command.pre_exec(|| {
            libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int);
            Ok(())
        });
    }
    command.spawn()
}

/// Asks the engine to stop, insists after a while, and reaps it.
fn stop(mut child: Child) {
    let pid = libc::pid_t::try_from(child.id()).unwrap_or(0);
    // SAFETY: the child has not been reaped, so the number is still its.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    let deadline = Instant::now() + STOP_GRACE;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    if matches!(child.try_wait(), Ok(None)) {
        pgrx::warning!("coldfront: the engine did not stop in time and is killed");
        if let Err(error) = child.kill().and_then(|()| child.wait().map(drop)) {
            pgrx::warning!("coldfront: the engine could not be reaped: {error}");
        }
    }
}
