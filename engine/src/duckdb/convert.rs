//! Conversion between DuckDB data chunks and Arrow arrays, through the Arrow C data interface.

use std::ffi::CString;
use std::ptr;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type, to_ffi};
use arrow_array::{Array, RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::{DataType, Schema, SchemaRef};
use libduckdb_sys as ffi;

use super::connection::Connection;
use super::error::{Error, Kind};

/// DuckDB's settings for the Arrow arrays it produces.
pub(super) struct ArrowOptions(ffi::duckdb_arrow_options);

// SAFETY: a plain settings object without thread affinity.
unsafe impl Send for ArrowOptions {}

impl ArrowOptions {
    /// Takes the settings that belong to a result.
    pub(super) fn of_result(result: &mut ffi::duckdb_result) -> Self {
        // SAFETY: the result is initialised; we own what is returned.
        Self(unsafe { ffi::duckdb_result_get_arrow_options(result) })
    }

    /// Translates result columns into an Arrow schema.
    pub(super) fn schema(&self, names: &[CString], types: &mut LogicalTypes) -> Result<SchemaRef, Error> {
        let mut name_pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let mut out = FFI_ArrowSchema::empty();
        // SAFETY: both arrays have `names.len()` elements and outlive the call; `FFI_ArrowSchema` and `ArrowSchema`
        // are the same C struct, and the out-struct is released by its own drop.
        let error = unsafe {
            ffi::duckdb_to_arrow_schema(
                self.0,
                types.0.as_mut_ptr(),
                name_pointers.as_mut_ptr(),
                names.len() as ffi::idx_t,
                ptr::from_mut(&mut out).cast(),
            )
        };
        take_error(error)?;
        Schema::try_from(&out).map(Arc::new).map_err(arrow_error)
    }

    /// Copies a chunk into a record batch.
    pub(super) fn batch(&self, chunk: &Chunk, schema: &SchemaRef) -> Result<RecordBatch, Error> {
        let mut out = FFI_ArrowArray::empty();
        // SAFETY: the chunk is alive; the out-struct has the C layout and is released by its owner below.
        let error = unsafe { ffi::duckdb_data_chunk_to_arrow(self.0, chunk.0, ptr::from_mut(&mut out).cast()) };
        take_error(error)?;
        let data_type = DataType::Struct(schema.fields().clone());
        // SAFETY: DuckDB filled `out` for exactly these columns, from which `schema` was made.
        let data = unsafe { from_ffi_and_data_type(out, data_type) }.map_err(arrow_error)?;
        let rows = data.len();
        let (_, columns, _) = StructArray::from(data).into_parts();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(arrow_error)
    }
}

impl Drop for ArrowOptions {
    fn drop(&mut self) {
        // SAFETY: destroyed once.
        unsafe { ffi::duckdb_destroy_arrow_options(&mut self.0) };
    }
}

/// Owned logical types, in column order.
#[derive(Default)]
pub(super) struct LogicalTypes(pub(super) Vec<ffi::duckdb_logical_type>);

impl Drop for LogicalTypes {
    fn drop(&mut self) {
        for logical_type in &mut self.0 {
            // SAFETY: every element is owned and destroyed once.
            unsafe { ffi::duckdb_destroy_logical_type(logical_type) };
        }
    }
}

/// An owned data chunk.
pub(super) struct Chunk(pub(super) ffi::duckdb_data_chunk);

impl Chunk {
    pub(super) fn rows(&self) -> usize {
        // SAFETY: the chunk is alive.
        unsafe { ffi::duckdb_data_chunk_get_size(self.0) as usize }
    }

    pub(super) fn vector(&self, column: usize) -> ffi::duckdb_vector {
        // SAFETY: the chunk is alive; an index out of range gives null.
        unsafe { ffi::duckdb_data_chunk_get_vector(self.0, column as ffi::idx_t) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: destroyed once.
        unsafe { ffi::duckdb_destroy_data_chunk(&mut self.0) };
    }
}

/// Turns record batches of one schema into data chunks.
pub(super) struct FromArrow {
    raw: ffi::duckdb_arrow_converted_schema,
    schema: SchemaRef,
}

// SAFETY: a description of types without thread affinity; it is used by one thread at a time.
unsafe impl Send for FromArrow {}

impl FromArrow {
    pub(super) fn new(connection: &Connection, schema: SchemaRef) -> Result<Self, Error> {
        let mut c_schema = FFI_ArrowSchema::try_from(schema.as_ref()).map_err(arrow_error)?;
        let mut raw = ptr::null_mut();
        // SAFETY: the connection is open, the C structs share one layout, the out-pointer is valid.
        let error = unsafe {
            ffi::duckdb_schema_from_arrow(connection.handle(), ptr::from_mut(&mut c_schema).cast(), &mut raw)
        };
        take_error(error)?;
        Ok(Self { raw, schema })
    }

    /// The chunk shares the batch's buffers and keeps them alive.
    pub(super) fn chunk(&self, connection: &Connection, batch: &RecordBatch) -> Result<Chunk, Error> {
        if batch.schema_ref().fields() != self.schema.fields() {
            return Err(Error::new(Kind::InvalidInput, "a batch has other columns than its input"));
        }
        let (mut array, _) = to_ffi(&StructArray::from(batch.clone()).to_data()).map_err(arrow_error)?;
        let mut raw = ptr::null_mut();
        // SAFETY: all handles are alive and the array has the columns of the converted schema. DuckDB takes the array
        // over by moving out of the struct; `release` in what stays behind tells whether it did.
        let error = unsafe {
            ffi::duckdb_data_chunk_from_arrow(connection.handle(), ptr::from_mut(&mut array).cast(), self.raw, &mut raw)
        };
        take_error(error)?;
        Ok(Chunk(raw))
    }

    /// The DuckDB types of the columns.
    pub(super) fn types(&self, connection: &Connection) -> Result<LogicalTypes, Error> {
        let chunk = self.chunk(connection, &RecordBatch::new_empty(self.schema.clone()))?;
        let mut types = LogicalTypes::default();
        for column in 0..self.schema.fields().len() {
            // SAFETY: the chunk is alive and has this column; we own the returned type.
            types.0.push(unsafe { ffi::duckdb_vector_get_column_type(chunk.vector(column)) });
        }
        Ok(types)
    }
}

impl Drop for FromArrow {
    fn drop(&mut self) {
        // SAFETY: destroyed once.
        unsafe { ffi::duckdb_destroy_arrow_converted_schema(&mut self.raw) };
    }
}

pub(super) fn take_error(mut data: ffi::duckdb_error_data) -> Result<(), Error> {
    if data.is_null() {
        return Ok(());
    }
    // SAFETY: not null, and owned by us until the destroy below.
    let error = unsafe {
        let failed = ffi::duckdb_error_data_has_error(data);
        failed.then(|| Error::from_c(ffi::duckdb_error_data_message(data)))
    };
    // SAFETY: destroyed once.
    unsafe { ffi::duckdb_destroy_error_data(&mut data) };
    error.map_or(Ok(()), Err)
}

pub(super) fn arrow_error(error: arrow_schema::ArrowError) -> Error {
    Error::new(Kind::Internal, format!("Arrow conversion: {error}"))
}
