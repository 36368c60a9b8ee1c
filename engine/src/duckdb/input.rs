//! The table function that reads rows coming from outside: `coldfront_input(N)`.
//!
//! What number N means is decided by an [`InputSource`], which is told the connection that asks. Panics must not
//! cross into C++, so the callbacks only delegate and turn every failure into DuckDB's own error.

use std::ffi::{CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use libduckdb_sys as ffi;

use super::connection::Connection;
use super::convert::{Chunk, FromArrow};
use super::database::c_string;
use super::error::{Error, Kind};

/// Name of the table function.
pub const INPUT_FUNCTION: &str = "coldfront_input";

/// Knows the inputs that may be read.
pub trait InputSource: Send + Sync {
    /// Opens input `number` for the statement on connection `connection_id`; the error names what is wrong.
    fn open(&self, connection_id: u64, number: u64) -> Result<Arc<dyn InputReader>, String>;
}

/// A scan in progress: gives batches until `None`.
pub type BatchSource = Box<dyn FnMut() -> Result<Option<RecordBatch>, String> + Send>;

/// One input.
pub trait InputReader: Send + Sync {
    /// Columns; waits until they are known.
    fn schema(&self) -> Result<SchemaRef, String>;
    /// Number of rows, when it is known.
    fn rows(&self) -> Option<u64>;
    /// A connection for type conversion, used by nobody else.
    fn converter(&self) -> Result<Connection, String>;
    /// Starts reading from the first row; the scan that results ends with `None`.
    fn scan(self: Arc<Self>) -> Result<BatchSource, String>;
}

/// Registers the function on the connection's database.
pub(super) fn register(connection: &Connection, source: Arc<dyn InputSource>) -> Result<(), Error> {
    let name = c_string(INPUT_FUNCTION)?;
    let extra = Box::into_raw(Box::new(source));
    // SAFETY: the function object is created, filled, registered and destroyed here; `extra` is handed over together
    // with the callback that frees it; all callbacks have the signatures of the API.
    let state = unsafe {
        let mut function = ffi::duckdb_create_table_function();
        ffi::duckdb_table_function_set_name(function, name.as_ptr());
        let mut number = ffi::duckdb_create_logical_type(ffi::DUCKDB_TYPE_DUCKDB_TYPE_BIGINT);
        ffi::duckdb_table_function_add_parameter(function, number);
        ffi::duckdb_destroy_logical_type(&mut number);
        ffi::duckdb_table_function_set_extra_info(function, extra.cast(), Some(free::<Arc<dyn InputSource>>));
        ffi::duckdb_table_function_set_bind(function, Some(bind_callback));
        ffi::duckdb_table_function_set_init(function, Some(init_callback));
        ffi::duckdb_table_function_set_function(function, Some(rows_callback));
        ffi::duckdb_table_function_supports_projection_pushdown(function, true);
        let state = ffi::duckdb_register_table_function(connection.handle(), function);
        ffi::duckdb_destroy_table_function(&mut function);
        state
    };
    if state == ffi::DuckDBSuccess {
        Ok(())
    } else {
        Err(Error::new(Kind::Catalog, format!("cannot register {INPUT_FUNCTION}")))
    }
}

/// What binding leaves for execution.
struct Bound {
    reader: Arc<dyn InputReader>,
}

/// One running scan.
struct Scan {
    state: Mutex<ScanState>,
    /// For each output column, the column of the input.
    projection: Vec<usize>,
}

struct ScanState {
    connection: Connection,
    from_arrow: FromArrow,
    next: BatchSource,
    batch: Option<(RecordBatch, usize)>,
}

impl ScanState {
    /// The next rows, at most `limit`.
    fn chunk(&mut self, limit: usize) -> Result<Option<Chunk>, String> {
        loop {
            let (batch, at) = match self.batch.take() {
                Some(current) => current,
                None => match (self.next)()? {
                    Some(batch) => (batch, 0),
                    None => return Ok(None),
                },
            };
            let rows = limit.min(batch.num_rows() - at);
            if rows == 0 {
                continue;
            }
            let slice = batch.slice(at, rows);
            self.batch = Some((batch, at + rows));
            return self.from_arrow.chunk(&self.connection, &slice).map(Some).map_err(|e| e.message);
        }
    }
}

unsafe extern "C" fn free<T>(data: *mut c_void) {
    // SAFETY: DuckDB passes back, once, the pointer that was made by `Box::into_raw` for this type.
    drop(unsafe { Box::from_raw(data.cast::<T>()) });
}

/// Runs `body`, turning a panic into an error.
fn guarded<T>(body: impl FnOnce() -> Result<T, String>) -> Result<T, CString> {
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|_| Err(format!("{INPUT_FUNCTION} failed unexpectedly")))
        .map_err(|text| CString::new(text.replace('\0', " ")).unwrap_or_default())
}

unsafe extern "C" fn bind_callback(info: ffi::duckdb_bind_info) {
    // SAFETY: `info` is valid during the callback.
    if let Err(text) = guarded(|| unsafe { bind(info) }) {
        // SAFETY: as above.
        unsafe { ffi::duckdb_bind_set_error(info, text.as_ptr()) };
    }
}

/// # Safety
/// `info` is the one DuckDB passed to the bind callback.
unsafe fn bind(info: ffi::duckdb_bind_info) -> Result<(), String> {
    // SAFETY: extra info is what `register` set; the context and the value are destroyed after their one use.
    let (source, connection_id, number) = unsafe {
        let source = &*ffi::duckdb_bind_get_extra_info(info).cast::<Arc<dyn InputSource>>();
        let mut context = std::ptr::null_mut();
        ffi::duckdb_table_function_get_client_context(info, &mut context);
        let connection_id = ffi::duckdb_client_context_get_connection_id(context);
        ffi::duckdb_destroy_client_context(&mut context);
        let mut value = ffi::duckdb_bind_get_parameter(info, 0);
        let number = ffi::duckdb_get_int64(value) as u64;
        ffi::duckdb_destroy_value(&mut value);
        (source, connection_id, number)
    };
    let reader = source.open(connection_id, number)?;
    let schema = reader.schema()?;
    let converter = reader.converter()?;
    let from_arrow = FromArrow::new(&converter, schema.clone()).map_err(|e| e.message)?;
    let types = from_arrow.types(&converter).map_err(|e| e.message)?;
    for (field, logical_type) in schema.fields().iter().zip(&types.0) {
        let name = c_string(field.name()).map_err(|e| e.message)?;
        // SAFETY: name and type outlive the call, which copies both.
        unsafe { ffi::duckdb_bind_add_result_column(info, name.as_ptr(), *logical_type) };
    }
    if let Some(rows) = reader.rows() {
        // SAFETY: `info` is valid.
        unsafe { ffi::duckdb_bind_set_cardinality(info, rows, true) };
    }
    let bound = Box::into_raw(Box::new(Bound { reader }));
    // SAFETY: handed over together with the callback that frees it.
    unsafe { ffi::duckdb_bind_set_bind_data(info, bound.cast(), Some(free::<Bound>)) };
    Ok(())
}

unsafe extern "C" fn init_callback(info: ffi::duckdb_init_info) {
    // SAFETY: `info` is valid during the callback.
    if let Err(text) = guarded(|| unsafe { init(info) }) {
        // SAFETY: as above.
        unsafe { ffi::duckdb_init_set_error(info, text.as_ptr()) };
    }
}

/// # Safety
/// `info` is the one DuckDB passed to the init callback.
unsafe fn init(info: ffi::duckdb_init_info) -> Result<(), String> {
    // SAFETY: the bind data was set by `bind`; indexes are below the count.
    let (bound, projection) = unsafe {
        let bound = &*ffi::duckdb_init_get_bind_data(info).cast::<Bound>();
        let columns = ffi::duckdb_init_get_column_count(info);
        let projection = (0..columns).map(|i| ffi::duckdb_init_get_column_index(info, i) as usize).collect();
        // Rows arrive in one order from one place.
        ffi::duckdb_init_set_max_threads(info, 1);
        (bound, projection)
    };
    let connection = bound.reader.converter()?;
    let from_arrow = FromArrow::new(&connection, bound.reader.schema()?).map_err(|e| e.message)?;
    let next = bound.reader.clone().scan()?;
    let state = Mutex::new(ScanState { connection, from_arrow, next, batch: None });
    let scan = Box::into_raw(Box::new(Scan { state, projection }));
    // SAFETY: handed over together with the callback that frees it.
    unsafe { ffi::duckdb_init_set_init_data(info, scan.cast(), Some(free::<Scan>)) };
    Ok(())
}

unsafe extern "C" fn rows_callback(info: ffi::duckdb_function_info, output: ffi::duckdb_data_chunk) {
    // SAFETY: `info` and `output` are valid during the callback.
    if let Err(text) = guarded(|| unsafe { rows(info, output) }) {
        // SAFETY: as above.
        unsafe { ffi::duckdb_function_set_error(info, text.as_ptr()) };
    }
}

/// # Safety
/// The arguments are those DuckDB passed to the main callback.
unsafe fn rows(info: ffi::duckdb_function_info, output: ffi::duckdb_data_chunk) -> Result<(), String> {
    // SAFETY: the init data was set by `init` and lives as long as the scan.
    let scan = unsafe { &*ffi::duckdb_function_get_init_data(info).cast::<Scan>() };
    // SAFETY: a pure function of the library.
    let limit = unsafe { ffi::duckdb_vector_size() } as usize;
    let mut state = scan.state.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(chunk) = state.chunk(limit)? else {
        // SAFETY: an empty output ends the scan.
        unsafe { ffi::duckdb_data_chunk_set_size(output, 0) };
        return Ok(());
    };
    for (target, source) in scan.projection.iter().enumerate() {
        // The virtual row number stands beyond the columns; it is asked for when no column is (`count(*)`), and any value does.
        let vector = chunk.vector(*source);
        if !vector.is_null() {
            // SAFETY: both vectors are alive and have the same type; the reference keeps the source's buffers alive.
            unsafe {
                ffi::duckdb_vector_reference_vector(
                    ffi::duckdb_data_chunk_get_vector(output, target as ffi::idx_t),
                    vector,
                )
            };
        }
    }
    // SAFETY: at most `limit` rows, which is the capacity of the output.
    unsafe { ffi::duckdb_data_chunk_set_size(output, chunk.rows() as ffi::idx_t) };
    Ok(())
}
