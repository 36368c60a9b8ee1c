//! Opens and closes a DuckDB database in memory.

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::Arc;

use libduckdb_sys as ffi;

use super::connection::Connection;
use super::error::{Error, Kind};
use super::input::{self, InputSource};
use super::log::{self, LogSink};

/// One in-memory database. It is closed when this and the last of its connections are gone.
pub struct Database {
    raw: ffi::duckdb_database,
}

// SAFETY: DuckDB synchronises everything that is reached through a database handle; the handle itself never changes.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

impl Database {
    /// Opens an empty database with the given settings.
    pub fn open(settings: &[(&str, String)]) -> Result<Arc<Self>, Error> {
        let mut config = ptr::null_mut();
        // SAFETY: the out-pointer is valid; the object is destroyed below on every path.
        if unsafe { ffi::duckdb_create_config(&mut config) } != ffi::DuckDBSuccess {
            return Err(Error::new(Kind::OutOfMemory, "cannot allocate a configuration"));
        }
        let opened = Self::open_with(config, settings);
        // SAFETY: created above and not used afterwards.
        unsafe { ffi::duckdb_destroy_config(&mut config) };
        opened
    }

    fn open_with(config: ffi::duckdb_config, settings: &[(&str, String)]) -> Result<Arc<Self>, Error> {
        for (name, value) in settings {
            let (c_name, c_value) = (c_string(name)?, c_string(value)?);
            // SAFETY: `config` is live and both strings outlive the call.
            if unsafe { ffi::duckdb_set_config(config, c_name.as_ptr(), c_value.as_ptr()) } != ffi::DuckDBSuccess {
                return Err(Error::new(
                    Kind::InvalidConfiguration,
                    format!("setting {name} does not accept {value:?}"),
                ));
            }
        }
        let (mut raw, mut reason) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a null path opens in memory; the out-pointers are valid; `config` is only read.
        let state = unsafe { ffi::duckdb_open_ext(ptr::null(), &mut raw, config, &mut reason) };
        if state != ffi::DuckDBSuccess {
            // SAFETY: on failure `reason` is null or a string that we own and must free.
            let error = unsafe { Error::from_c(reason) };
            // SAFETY: as above; freeing null is allowed.
            unsafe { ffi::duckdb_free(reason.cast()) };
            return Err(error);
        }
        Ok(Arc::new(Self { raw }))
    }

    /// Opens a connection.
    pub fn connect(self: &Arc<Self>) -> Result<Connection, Error> {
        Connection::open(self.clone())
    }

    /// Offers `source` as the table function [`input::INPUT_FUNCTION`] on every connection of this database.
    pub fn serve_inputs(self: &Arc<Self>, source: Arc<dyn InputSource>) -> Result<(), Error> {
        input::register(&self.connect()?, source)
    }

    /// Registers `sink` as the log storage `name`; nothing is written to it until logging is enabled by SQL.
    pub fn register_log(&self, name: &str, sink: Arc<dyn LogSink>) -> Result<(), Error> {
        log::register(self.raw, name, sink)
    }

    pub(super) fn raw(&self) -> ffi::duckdb_database {
        self.raw
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: opened by us and closed once; connections hold an `Arc` to us, so none is left.
        unsafe { ffi::duckdb_close(&mut self.raw) };
    }
}

/// The version of the library that is loaded.
pub fn library_version() -> String {
    // SAFETY: returns a static NUL-terminated string.
    unsafe { CStr::from_ptr(ffi::duckdb_library_version()) }.to_string_lossy().into_owned()
}

/// SQL text cannot hold a NUL; saying so beats a silent cut.
pub(super) fn c_string(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::new(Kind::Parser, "the text holds a NUL character"))
}
