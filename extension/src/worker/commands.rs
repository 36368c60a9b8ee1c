//! How the supervised programs are started.

#![allow(unsafe_code)]

use std::{
    ffi::CStr,
    fs, io,
    os::unix::{fs::DirBuilderExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pgrx::pg_sys;

use crate::gucs;

/// `coldfront-engine` with its state below the data directory.
pub fn engine() -> io::Result<Command> {
    let socket = PathBuf::from(gucs::engine_socket());
    let home = socket.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("coldfront"));
    if !home.exists() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    }
    let configured = gucs::engine_path();
    let path = if configured.is_empty() { beside_server("coldfront-engine") } else { configured.into() };
    let mut command = base(path);
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
    Ok(command)
}

/// `coldfront-<name> serve` with the shared configuration file.
pub fn with_schedule(name: &str) -> io::Result<Command> {
    let mut command = base(beside_server(&format!("coldfront-{name}")));
    let config = gucs::config_file();
    if !config.is_empty() {
        command.arg("--config").arg(config);
    }
    let dsn = gucs::local_pg_dsn();
    if !dsn.is_empty() {
        // Not an argument: those are for everybody to read.
        command.env(format!("COLDFRONT_{}_DSN", name.to_uppercase()), dsn);
    }
    command.arg("serve");
    Ok(command)
}

fn base(path: PathBuf) -> Command {
    let mut command = Command::new(path);
    command.stdin(Stdio::null());
    // SAFETY: both calls are async-signal-safe. The program must not inherit the server's files and sockets, and ends
    // with the supervisor, however that ends.
    unsafe {
        command.pre_exec(|| {
            libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
    command
}

fn beside_server(program: &str) -> PathBuf {
    // SAFETY: my_exec_path is a NUL-terminated array that the server fills at start.
    let server = unsafe { CStr::from_ptr((&raw const pg_sys::my_exec_path).cast()) };
    PathBuf::from(server.to_string_lossy().into_owned()).with_file_name(program)
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
