//! A connection: runs statements to their end, or opens result streams.

use std::ptr;
use std::sync::{Arc, Weak};

use libduckdb_sys as ffi;

use super::database::{Database, c_string};
use super::error::{Error, Kind};
use super::stream::ResultStream;

/// A connection and the transaction in it. Only one result stream may be open on it; another statement ends it.
pub struct Connection {
    raw: Arc<RawConnection>,
    id: u64,
}

/// The C handle. Shared so that an [`Interrupter`] can reach it from another thread.
pub(super) struct RawConnection {
    pub(super) handle: ffi::duckdb_connection,
    /// Keeps the database open for as long as the connection lives.
    _database: Arc<Database>,
}

// SAFETY: the only call made through a shared reference from another thread is `duckdb_interrupt`, which is meant for
// that; every other use goes through `&mut Connection` or a `ResultStream`, which one thread owns at a time.
unsafe impl Send for RawConnection {}
// SAFETY: as above.
unsafe impl Sync for RawConnection {}

impl Drop for RawConnection {
    fn drop(&mut self) {
        // SAFETY: opened by us, closed once.
        unsafe { ffi::duckdb_disconnect(&mut self.handle) };
    }
}

/// Stops whatever runs on a connection, from any thread. Does nothing once the connection is closed.
#[derive(Clone)]
pub struct Interrupter(Weak<RawConnection>);

impl Interrupter {
    pub fn interrupt(&self) {
        if let Some(connection) = self.0.upgrade() {
            // SAFETY: the handle is open while we hold the reference; the call is allowed from any thread.
            unsafe { ffi::duckdb_interrupt(connection.handle) };
        }
    }
}

impl Connection {
    pub(super) fn open(database: Arc<Database>) -> Result<Self, Error> {
        let mut handle = ptr::null_mut();
        // SAFETY: the database is open and the out-pointer valid.
        if unsafe { ffi::duckdb_connect(database.raw(), &mut handle) } != ffi::DuckDBSuccess {
            return Err(Error::new(Kind::Connection, "cannot open a connection"));
        }
        let raw = Arc::new(RawConnection { handle, _database: database });
        let mut context = ptr::null_mut();
        // SAFETY: the connection is open; the context is destroyed after its one use.
        let id = unsafe {
            ffi::duckdb_connection_get_client_context(handle, &mut context);
            let id = ffi::duckdb_client_context_get_connection_id(context);
            ffi::duckdb_destroy_client_context(&mut context);
            id
        };
        Ok(Self { raw, id })
    }

    /// DuckDB's number for this connection, unique within its database.
    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn interrupter(&self) -> Interrupter {
        Interrupter(Arc::downgrade(&self.raw))
    }

    /// Runs every statement in `sql` and returns how many rows the last one changed.
    ///
    /// Statements are prepared and then executed, never run by `duckdb_query`: that way a write is bound twice, and the
    /// second time its scan sees the same state of an Iceberg table as its commit. Bound once, the scan may see an older
    /// one (DuckDB 1.5.5).
    pub fn execute(&mut self, sql: &str) -> Result<u64, Error> {
        let script = Script::parse(self, sql)?;
        let mut rows = 0;
        for index in 0..script.count {
            rows = script.prepare(self, index)?.execute()?;
        }
        Ok(rows)
    }

    /// Runs every statement in `sql` and returns the rows of the last one as a stream.
    pub fn stream(&mut self, sql: &str) -> Result<ResultStream, Error> {
        let script = Script::parse(self, sql)?;
        for index in 0..script.count - 1 {
            script.prepare(self, index)?.execute()?;
        }
        script.prepare(self, script.count - 1)?.stream(self.raw.clone())
    }

    pub(super) fn handle(&self) -> ffi::duckdb_connection {
        self.raw.handle
    }
}

/// A parsed text of one or more statements.
struct Script {
    raw: ffi::duckdb_extracted_statements,
    count: ffi::idx_t,
}

impl Script {
    fn parse(connection: &mut Connection, sql: &str) -> Result<Self, Error> {
        let text = c_string(sql)?;
        let mut raw = ptr::null_mut();
        // SAFETY: the connection is open, the text outlives the call, the out-pointer is valid.
        let count = unsafe { ffi::duckdb_extract_statements(connection.handle(), text.as_ptr(), &mut raw) };
        let script = Self { raw, count };
        if count == 0 {
            // SAFETY: `raw` was set by the call above and owns the text.
            let reason = unsafe { ffi::duckdb_extract_statements_error(script.raw) };
            if reason.is_null() {
                return Err(Error::new(Kind::Parser, "the text holds no statement"));
            }
            // SAFETY: not null, owned by `raw`, which is still alive.
            return Err(unsafe { Error::from_c(reason) });
        }
        Ok(script)
    }

    fn prepare(&self, connection: &mut Connection, index: ffi::idx_t) -> Result<Prepared, Error> {
        let mut prepared = Prepared { raw: ptr::null_mut() };
        // SAFETY: both handles are alive, `index` is below `count`, the out-pointer is valid.
        let state =
            unsafe { ffi::duckdb_prepare_extracted_statement(connection.handle(), self.raw, index, &mut prepared.raw) };
        if state != ffi::DuckDBSuccess {
            // SAFETY: a failed statement still owns its error text.
            return Err(unsafe { Error::from_c(ffi::duckdb_prepare_error(prepared.raw)) });
        }
        Ok(prepared)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // SAFETY: destroyed once, also after a failed parse, as the API asks.
        unsafe { ffi::duckdb_destroy_extracted(&mut self.raw) };
    }
}

struct Prepared {
    raw: ffi::duckdb_prepared_statement,
}

impl Prepared {
    fn execute(&self) -> Result<u64, Error> {
        let mut result = OwnedResult::empty();
        // SAFETY: the statement is prepared and the result is ours to fill.
        let state = unsafe { ffi::duckdb_execute_prepared(self.raw, &mut result.raw) };
        result.check(state)?;
        // SAFETY: a successful result.
        Ok(unsafe { ffi::duckdb_rows_changed(&mut result.raw) })
    }

    fn stream(&self, connection: Arc<RawConnection>) -> Result<ResultStream, Error> {
        let mut result = OwnedResult::empty();
        // SAFETY: as in `execute`.
        let state = unsafe { ffi::duckdb_execute_prepared_streaming(self.raw, &mut result.raw) };
        result.check(state)?;
        ResultStream::new(result, connection)
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: destroyed once, also after a failed prepare, as the API asks.
        unsafe { ffi::duckdb_destroy_prepare(&mut self.raw) };
    }
}

/// A result that is destroyed with its owner.
pub(super) struct OwnedResult {
    pub(super) raw: ffi::duckdb_result,
}

impl OwnedResult {
    fn empty() -> Self {
        let raw = ffi::duckdb_result {
            deprecated_column_count: 0,
            deprecated_row_count: 0,
            deprecated_rows_changed: 0,
            deprecated_columns: ptr::null_mut(),
            deprecated_error_message: ptr::null_mut(),
            internal_data: ptr::null_mut(),
        };
        Self { raw }
    }

    fn check(&mut self, state: ffi::duckdb_state) -> Result<(), Error> {
        if state == ffi::DuckDBSuccess { Ok(()) } else { Err(self.error().unwrap_or_else(no_reason)) }
    }

    /// The error in this result, if there is one.
    pub(super) fn error(&mut self) -> Option<Error> {
        // SAFETY: the result is initialised; the text belongs to it.
        let text = unsafe { ffi::duckdb_result_error(&mut self.raw) };
        // SAFETY: not null, and valid until the result is destroyed.
        (!text.is_null()).then(|| unsafe { Error::from_c(text) })
    }
}

fn no_reason() -> Error {
    Error::new(Kind::Other, "DuckDB gave no reason")
}

impl Drop for OwnedResult {
    fn drop(&mut self) {
        // SAFETY: destroyed once; an unused result is allowed.
        unsafe { ffi::duckdb_destroy_result(&mut self.raw) };
    }
}
