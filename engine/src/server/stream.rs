//! An open result stream: collects DuckDB's small chunks into batches for the client, and can be parked so that
//! another statement may use its connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use coldfront_common::frame::{BATCH_TARGET_BYTES, End, FRAME_MAX_BYTES, HEAD_BYTES, Scope};
use metrics::counter;

use crate::duckdb::{self, ResultStream};
use crate::ipc::Encoder;
use crate::metrics as names;
use crate::spill::{Block, Spill, SpillError, SpillFile};

/// A batch is closed this long after its first row even if it is small, so that a slow query delivers as it goes.
const BATCH_AGE: Duration = Duration::from_millis(20);
/// What a parked stream holds in memory before it goes to disk, in bytes.
const PARKED_BYTES: usize = 4 * 1024 * 1024;
/// A stream whose last chunk took longer than this is not read ahead: the pull could hold up another request.
const READ_AHEAD_CHUNK: Duration = Duration::from_millis(5);

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error(transparent)]
    DuckDb(#[from] duckdb::Error),
    #[error(transparent)]
    Spill(#[from] SpillError),
    #[error("a row of the result takes {bytes} bytes, more than the {FRAME_MAX_BYTES} that can be sent to PostgreSQL")]
    RowTooLarge { bytes: usize },
    #[error("a batch cannot be encoded")]
    Encode(#[from] arrow_schema::ArrowError),
}

/// One stream.
pub struct Stream {
    pub scope: Scope,
    /// Produces rows; gone at the end, after an error, and once parked.
    live: Option<ResultStream>,
    encoder: Encoder,
    /// Chunks of the batch that is being collected.
    chunks: Vec<RecordBatch>,
    chunk_bytes: usize,
    chunks_since: Option<Instant>,
    /// True until the first batch is closed.
    first: bool,
    last_chunk: Duration,
    /// Encoded batches that wait for a fetch, oldest first.
    ready: VecDeque<Ready>,
    ready_bytes: usize,
    file: Option<SpillFile>,
    /// What made the stream end early; told at the fetch after the last good batch.
    failure: Option<StreamError>,
    /// What is told at the end.
    pub end: End,
}

enum Ready {
    Memory(Vec<u8>, u64),
    Disk(Block, u64),
}

impl Stream {
    /// Takes over a result; returns the stream and its schema message.
    pub fn new(scope: Scope, live: ResultStream) -> Result<(Self, Vec<u8>), StreamError> {
        let mut encoder = Encoder::new(live.schema().clone());
        let schema = encoder.schema()?;
        let stream = Self {
            scope,
            live: Some(live),
            encoder,
            chunks: Vec::new(),
            chunk_bytes: 0,
            chunks_since: None,
            first: true,
            last_chunk: Duration::ZERO,
            ready: VecDeque::new(),
            ready_bytes: 0,
            file: None,
            failure: None,
            end: End::default(),
        };
        Ok((stream, schema))
    }

    /// True while the stream needs its connection for itself.
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// True if pulling the next chunk now is likely to be quick and useful.
    pub fn wants_read_ahead(&self) -> bool {
        self.is_live() && self.ready.is_empty() && self.last_chunk < READ_AHEAD_CHUNK
    }

    /// Pulls one chunk. Errors are kept for the fetch they belong to.
    pub fn pull(&mut self) {
        let Some(live) = &mut self.live else { return };
        let began = Instant::now();
        let pulled = live.next_chunk();
        self.last_chunk = began.elapsed();
        let outcome = match pulled {
            Ok(Some(chunk)) => {
                self.chunks_since.get_or_insert(began);
                self.collect(chunk)
            }
            Ok(None) => {
                self.end.files = live.files_read();
                self.live = None;
                self.close_batch()
            }
            Err(error) => Err(error.into()),
        };
        if let Err(error) = outcome {
            self.live = None;
            self.failure = Some(error);
        }
    }

    /// Adds a chunk to the batch that is being collected, in pieces if it is larger than a batch should be.
    fn collect(&mut self, chunk: RecordBatch) -> Result<(), StreamError> {
        let bytes = batch_bytes(&chunk);
        let rows = chunk.num_rows();
        if bytes > 2 * BATCH_TARGET_BYTES && rows > 1 {
            self.collect(chunk.slice(0, rows / 2))?;
            return self.collect(chunk.slice(rows / 2, rows - rows / 2));
        }
        self.chunk_bytes += bytes;
        self.chunks.push(chunk);
        if self.batch_is_full() { self.close_batch() } else { Ok(()) }
    }

    /// The first batch goes out with the first chunk; later ones when they are large or old enough.
    fn batch_is_full(&self) -> bool {
        self.first
            || self.chunk_bytes >= BATCH_TARGET_BYTES
            || self.chunks_since.is_some_and(|since| since.elapsed() >= BATCH_AGE)
    }

    fn close_batch(&mut self) -> Result<(), StreamError> {
        self.chunk_bytes = 0;
        self.chunks_since = None;
        let batch = match self.chunks.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            many => concat_batches(many[0].schema_ref(), many)?,
        };
        self.chunks.clear();
        self.first = false;
        let message = self.encoder.batch(&batch)?;
        if message.len() + HEAD_BYTES > FRAME_MAX_BYTES {
            return Err(StreamError::RowTooLarge { bytes: message.len() });
        }
        self.keep(message, batch.num_rows() as u64)
    }

    fn keep(&mut self, message: Vec<u8>, rows: u64) -> Result<(), StreamError> {
        match &mut self.file {
            Some(file) if self.ready_bytes + message.len() > PARKED_BYTES => {
                self.ready.push_back(Ready::Disk(file.append(&message)?, rows));
            }
            _ => {
                self.ready_bytes += message.len();
                self.ready.push_back(Ready::Memory(message, rows));
            }
        }
        Ok(())
    }

    /// The next batch message, or how the stream ended.
    pub fn fetch(&mut self) -> Result<Result<Vec<u8>, End>, StreamError> {
        while self.ready.is_empty() && self.is_live() {
            self.pull();
        }
        let Some(ready) = self.ready.pop_front() else {
            return match self.failure.take() {
                Some(failure) => Err(failure),
                None => Ok(Err(self.end)),
            };
        };
        let (message, rows) = match ready {
            Ready::Memory(message, rows) => {
                self.ready_bytes -= message.len();
                (message, rows)
            }
            Ready::Disk(block, rows) => {
                let Some(file) = &self.file else { return Ok(Err(self.end)) };
                (file.read(block)?, rows)
            }
        };
        self.end.rows += rows;
        self.end.bytes += message.len() as u64;
        counter!(names::ROWS_SENT_TOTAL).increment(rows);
        counter!(names::SENT_BYTES_TOTAL).increment(message.len() as u64);
        Ok(Ok(message))
    }

    /// Reads the rest into memory and a spill file, which frees the connection. Errors are told at a later fetch.
    pub fn park(&mut self, spill: &Arc<Spill>) {
        if !self.is_live() {
            return;
        }
        counter!(names::PARKED_STREAMS_TOTAL).increment(1);
        match spill.file() {
            Ok(file) => self.file = Some(file),
            Err(error) => {
                self.live = None;
                self.failure = Some(error.into());
            }
        }
        while self.is_live() {
            self.pull();
        }
    }

    /// True if DuckDB's transaction cannot be used after this stream.
    pub fn failed(&self) -> bool {
        self.failure.is_some()
    }
}

/// Bytes that a batch's values take when sent.
fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duckdb::Database;

    fn drain(stream: &mut Stream) -> End {
        loop {
            if let Err(end) = stream.fetch().unwrap() {
                return end;
            }
        }
    }

    #[test]
    fn parking_frees_the_connection_and_loses_no_row() {
        let directory = tempfile::tempdir().unwrap();
        let spill = Spill::new(directory.path().to_owned(), 1024);
        let database = Database::open(&[]).unwrap();
        let mut connection = database.connect().unwrap();
        let live = connection.stream("SELECT i, 'row ' || i FROM range(3000000) t(i)").unwrap();
        let (mut stream, _) = Stream::new(Scope::Write, live).unwrap();
        stream.fetch().unwrap().unwrap();
        stream.park(&spill);
        assert!(!stream.is_live());
        assert_eq!(connection.execute("SELECT 1").unwrap(), 0);
        assert_eq!(drain(&mut stream).rows, 3_000_000);
    }

    #[test]
    fn an_error_comes_after_the_good_batches() {
        let database = Database::open(&[]).unwrap();
        let mut connection = database.connect().unwrap();
        // With several threads the last range may be reached, and fail, before anything was fetched.
        connection.execute("SET threads = 1").unwrap();
        let sql = "SELECT CASE WHEN i = 2900000 THEN error('late') ELSE i END FROM range(3000000) t(i)";
        let (mut stream, _) = Stream::new(Scope::Write, connection.stream(sql).unwrap()).unwrap();
        let mut batches = 0;
        let error = loop {
            match stream.fetch() {
                Ok(Ok(_)) => batches += 1,
                Ok(Err(_)) => panic!("the error was lost"),
                Err(error) => break error,
            }
        };
        assert!(batches > 1 && error.to_string().contains("late"), "{batches} {error}");
    }
}
