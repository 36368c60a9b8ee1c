//! Receives what DuckDB logs, at the moment it logs it.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use libduckdb_sys as ffi;

use super::database::c_string;
use super::error::{Error, Kind};

/// One entry.
pub struct LogEntry<'a> {
    /// DuckDB's log type, such as `FileSystem`.
    pub log_type: &'a str,
    pub message: &'a str,
}

/// Takes log entries. Called on DuckDB's threads while a statement runs: be quick, never call DuckDB.
pub trait LogSink: Send + Sync {
    fn write(&self, entry: &LogEntry<'_>);
}

/// Registers `sink` as the log storage `name`.
pub(super) fn register(database: ffi::duckdb_database, name: &str, sink: Arc<dyn LogSink>) -> Result<(), Error> {
    let name = c_string(name)?;
    let extra = Box::into_raw(Box::new(sink));
    // SAFETY: the database is open; the object is created, filled, registered and destroyed here; `extra` is handed
    // over together with the callback that frees it.
    let state = unsafe {
        let mut storage = ffi::duckdb_create_log_storage();
        ffi::duckdb_log_storage_set_name(storage, name.as_ptr());
        ffi::duckdb_log_storage_set_write_log_entry(storage, Some(write_callback));
        ffi::duckdb_log_storage_set_extra_data(storage, extra.cast(), Some(free));
        let state = ffi::duckdb_register_log_storage(database, storage);
        ffi::duckdb_destroy_log_storage(&mut storage);
        state
    };
    if state == ffi::DuckDBSuccess { Ok(()) } else { Err(Error::new(Kind::Other, "cannot register the log storage")) }
}

unsafe extern "C" fn free(data: *mut c_void) {
    // SAFETY: DuckDB passes back, once, the pointer made by `register`.
    drop(unsafe { Box::from_raw(data.cast::<Arc<dyn LogSink>>()) });
}

unsafe extern "C" fn write_callback(
    extra: *mut c_void,
    _timestamp: *mut ffi::duckdb_timestamp,
    _level: *const c_char,
    log_type: *const c_char,
    message: *const c_char,
) {
    let text = |pointer: *const c_char| match pointer.is_null() {
        true => Default::default(),
        // SAFETY: not null, NUL-terminated, valid during the callback.
        false => unsafe { CStr::from_ptr(pointer) }.to_string_lossy(),
    };
    // SAFETY: the pointer made by `register`, alive while the storage is.
    let sink = unsafe { &*extra.cast::<Arc<dyn LogSink>>() };
    let (log_type, message) = (text(log_type), text(message));
    // A panic must not cross into C++; the sink has nobody to report to.
    let _ = catch_unwind(AssertUnwindSafe(|| sink.write(&LogEntry { log_type: &log_type, message: &message })));
}
