//! A result that is produced while it is read.

use std::ffi::CString;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use coldfront_common::turns::Turns;
use libduckdb_sys as ffi;

use super::connection::{OwnedResult, RawConnection};
use super::convert::{ArrowOptions, Chunk, LogicalTypes};
use super::error::Error;
use super::profile;

/// The rows of one statement. Dropping it early stops the statement.
pub struct ResultStream {
    result: OwnedResult,
    options: ArrowOptions,
    schema: SchemaRef,
    /// The database's sessions need this machine too.
    turns: Turns,
    /// Keeps the connection open for as long as the result lives; declared last so that it is dropped last.
    connection: Arc<RawConnection>,
}

// SAFETY: a result may be used from any thread, by one at a time, which `&mut self` ensures.
unsafe impl Send for ResultStream {}

impl ResultStream {
    pub(super) fn new(mut result: OwnedResult, connection: Arc<RawConnection>) -> Result<Self, Error> {
        let options = ArrowOptions::of_result(&mut result.raw);
        // SAFETY: an executed result.
        let columns = unsafe { ffi::duckdb_column_count(&mut result.raw) };
        let mut types = LogicalTypes::default();
        let mut names = Vec::<CString>::new();
        for column in 0..columns {
            // SAFETY: `column` is in range; we own the type.
            types.0.push(unsafe { ffi::duckdb_column_logical_type(&mut result.raw, column) });
            // SAFETY: `column` is in range; the name is NUL-terminated and belongs to the result.
            names
                .push(unsafe { std::ffi::CStr::from_ptr(ffi::duckdb_column_name(&mut result.raw, column)) }.to_owned());
        }
        let schema = options.schema(&names, &mut types)?;
        Ok(Self { result, options, schema, turns: Turns::begin(), connection })
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Files that the statement's scans read, if they read any. To be asked at the end of the stream.
    pub fn files_read(&self) -> Option<u64> {
        profile::files_read(&self.connection)
    }

    /// The next rows, as many as DuckDB hands out at a time; `None` at the end.
    pub fn next_chunk(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            self.turns.offer();
            // SAFETY: the result is alive; the struct is passed by value as a handle and stays ours.
            let chunk = unsafe { ffi::duckdb_fetch_chunk(self.result.raw) };
            if chunk.is_null() {
                // Null means both "no more" and "failed".
                return self.result.error().map_or(Ok(None), Err);
            }
            let chunk = Chunk(chunk);
            if chunk.rows() > 0 {
                return self.options.batch(&chunk, &self.schema).map(Some);
            }
        }
    }
}
