//! An engine process of one test, and a client that speaks the frame protocol.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use coldfront_common::frame::{
    self, Done, End, Exec, Failure, Frame, Hello, Kind, Lake, PROTOCOL_VERSION, Query, Scope, StreamId,
};
use coldfront_engine::ipc::{self, Encoder};
use serde::Serialize;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Engine {
    child: Child,
    pub directory: Arc<tempfile::TempDir>,
}

impl Engine {
    pub fn start() -> Self {
        Self::with(Arc::new(tempfile::tempdir().unwrap()), &[])
    }

    /// Starts an engine in a directory that may hold the remains of another.
    pub fn with(directory: Arc<tempfile::TempDir>, arguments: &[&str]) -> Self {
        Self::wait_for(command(directory.path(), arguments).spawn().unwrap(), directory)
    }

    fn wait_for(child: Child, directory: Arc<tempfile::TempDir>) -> Self {
        let mut engine = Self { child, directory };
        let began = Instant::now();
        while UnixStream::connect(engine.socket()).is_err() {
            if let Some(status) = engine.child.try_wait().unwrap() {
                panic!("the engine ended: {status}\n{}", engine.log());
            }
            assert!(began.elapsed() < PATIENCE, "the engine does not start\n{}", engine.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        engine
    }

    /// Starts an engine that looks for DuckDB's extensions in another place.
    pub fn with_extensions(directory: Arc<tempfile::TempDir>, extensions: &Path) -> Self {
        let mut command = command_with(directory.path(), extensions, &[]);
        Self::wait_for(command.spawn().unwrap(), directory)
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("engine.sock")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    pub fn client(&self) -> Client {
        self.client_of("test")
    }

    pub fn client_of(&self, database: &str) -> Client {
        let mut client = Client::connect(&self.socket());
        client.hello(database, PROTOCOL_VERSION).unwrap();
        client
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "the engine does not end\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command line of an engine that lives in `directory`.
pub fn command(directory: &Path, arguments: &[&str]) -> Command {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.local/duckdb/extensions");
    let extensions = std::env::var_os("COLDFRONT_DUCKDB_EXTENSIONS").map_or(installed, PathBuf::from);
    command_with(directory, &extensions, arguments)
}

fn command_with(directory: &Path, extensions: &Path, arguments: &[&str]) -> Command {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(directory.join("log")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_coldfront-engine"));
    command
        .arg("--socket")
        .arg(directory.join("engine.sock"))
        .arg("--state-dir")
        .arg(directory.join("state"))
        .arg("--extension-dir")
        .arg(extensions)
        .args(["--die-with-parent", "--threads", "2"])
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(log);
    command
}

pub struct Client {
    pub socket: UnixStream,
    next_seq: u32,
    next_stream: u32,
    answers: HashMap<u32, Frame>,
}

/// Everything a stream delivered.
pub struct Rows {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
    pub end: End,
}

impl Client {
    pub fn connect(socket: &Path) -> Self {
        let socket = UnixStream::connect(socket).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { socket, next_seq: 1, next_stream: 1, answers: HashMap::new() }
    }

    pub fn hello(&mut self, database: &str, version: u32) -> Result<Frame, Failure> {
        self.hello_to(database, version, Lake::default())
    }

    pub fn hello_to(&mut self, database: &str, version: u32, lake: Lake) -> Result<Frame, Failure> {
        self.call(Kind::Hello, &Hello { version, database: database.into(), pid: 1, lake })
    }

    /// Sends a request; returns its number.
    pub fn send<T: Serialize>(&mut self, kind: Kind, value: &T) -> u32 {
        let seq = self.next_seq;
        self.next_seq += 1;
        frame::write(&mut self.socket, &frame::encode_json(kind, seq, value)).unwrap();
        seq
    }

    pub fn cancel(&mut self, seq: u32) {
        frame::write(&mut self.socket, &frame::encode(Kind::Cancel, seq, &[])).unwrap();
    }

    /// The answer to request `seq`, whatever arrives before it.
    pub fn answer(&mut self, seq: u32) -> Result<Frame, Failure> {
        loop {
            if let Some(frame) = self.answers.remove(&seq) {
                return if frame.kind == Kind::Error { Err(frame.json().unwrap()) } else { Ok(frame) };
            }
            let frame = frame::read(&mut self.socket).unwrap().expect("the engine closed the connection");
            self.answers.insert(frame.seq, frame);
        }
    }

    pub fn call<T: Serialize>(&mut self, kind: Kind, value: &T) -> Result<Frame, Failure> {
        let seq = self.send(kind, value);
        self.answer(seq)
    }

    pub fn exec(&mut self, scope: Scope, sql: &str) -> Result<u64, Failure> {
        let frame = self.call(Kind::Exec, &Exec { scope, sql: sql.into(), input: None })?;
        Ok(frame.json::<Done>().unwrap().rows)
    }

    /// Starts an `Exec` that reads `input` while it arrives.
    pub fn start_exec(&mut self, sql: &str, input: u64) -> u32 {
        self.send(Kind::Exec, &Exec { scope: Scope::Write, sql: sql.into(), input: Some(input) })
    }

    pub fn commit(&mut self) -> Result<(), Failure> {
        self.call(Kind::Commit, &()).map(drop)
    }

    pub fn rollback(&mut self) {
        self.call(Kind::Rollback, &()).unwrap();
    }

    /// Sends a query; returns the stream's number and the request's.
    pub fn start_query(&mut self, scope: Scope, sql: &str) -> (u32, u32) {
        let stream = self.next_stream;
        self.next_stream += 1;
        (stream, self.send(Kind::Query, &Query { stream, scope, sql: sql.into(), shortcut: None, release: Vec::new() }))
    }

    pub fn query(&mut self, scope: Scope, sql: &str) -> Result<(u32, SchemaRef), Failure> {
        let (stream, seq) = self.start_query(scope, sql);
        let frame = self.answer(seq)?;
        assert_eq!(frame.kind, Kind::Schema);
        Ok((stream, ipc::decode_schema(&frame.payload).unwrap()))
    }

    /// The next batch of a stream, or its end.
    pub fn fetch(&mut self, stream: u32, schema: &SchemaRef) -> Result<Result<RecordBatch, End>, Failure> {
        let frame = self.call(Kind::Fetch, &StreamId { stream })?;
        Ok(match frame.kind {
            Kind::Batch => Ok(ipc::decode_batch(schema, &Buffer::from_vec(frame.payload)).unwrap()),
            Kind::End => Err(frame.json().unwrap()),
            other => panic!("{other:?} answers a fetch"),
        })
    }

    pub fn drain(&mut self, stream: u32, schema: SchemaRef) -> Result<Rows, Failure> {
        let mut batches = Vec::new();
        loop {
            match self.fetch(stream, &schema)? {
                Ok(batch) => batches.push(batch),
                Err(end) => return Ok(Rows { schema, batches, end }),
            }
        }
    }

    pub fn rows(&mut self, scope: Scope, sql: &str) -> Result<Rows, Failure> {
        let (stream, schema) = self.query(scope, sql)?;
        self.drain(stream, schema)
    }

    /// The one number that a query gives.
    pub fn number(&mut self, scope: Scope, sql: &str) -> Result<i64, Failure> {
        let rows = self.rows(scope, sql)?;
        let column = rows.batches[0].column(0);
        Ok(column.as_any().downcast_ref::<Int64Array>().expect("a bigint").value(0))
    }

    pub fn close_stream(&mut self, stream: u32) {
        self.send(Kind::CloseStream, &StreamId { stream });
    }

    pub fn open_input(&mut self, number: u64) -> io::Result<()> {
        let message = Encoder::new(input_schema()).schema().unwrap();
        frame::write(&mut self.socket, &frame::encode(Kind::InputOpen, 0, &[&number.to_le_bytes(), &message]))
    }

    pub fn send_batch(&mut self, number: u64, batch: &RecordBatch) -> io::Result<()> {
        let message = Encoder::new(input_schema()).batch(batch).unwrap();
        frame::write(&mut self.socket, &frame::encode(Kind::InputData, 0, &[&number.to_le_bytes(), &message]))
    }

    pub fn end_input(&mut self, number: u64) -> io::Result<()> {
        frame::write(&mut self.socket, &frame::encode(Kind::InputEnd, 0, &[&number.to_le_bytes()]))
    }

    /// Sends a whole input of `batches` batches of `rows` rows.
    pub fn input(&mut self, number: u64, batches: i64, rows: i64) {
        self.open_input(number).unwrap();
        for batch in 0..batches {
            self.send_batch(number, &input_batch(batch * rows, rows)).unwrap();
        }
        self.end_input(number).unwrap();
    }
}

/// Columns of the inputs that tests send: `n bigint, s varchar`.
pub fn input_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true), Field::new("s", DataType::Utf8, true)]))
}

/// Rows `from`, `from + 1`, …; every tenth has NULLs.
pub fn input_batch(from: i64, rows: i64) -> RecordBatch {
    let numbers = || (from..from + rows).map(|n| (n % 10 != 9).then_some(n));
    let texts = numbers().map(|n| n.map(|n| format!("row number {n}")));
    let columns: Vec<arrow_array::ArrayRef> =
        vec![Arc::new(Int64Array::from_iter(numbers())), Arc::new(StringArray::from_iter(texts))];
    RecordBatch::try_new(input_schema(), columns).unwrap()
}
