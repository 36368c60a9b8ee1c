//! Rows that a client sends, kept or passed on until a statement has read them.
//!
//! An input that an `Exec` named before it was opened is *passed on*: few batches wait in memory and a slow statement
//! slows the client down. Any other input is *kept*, in memory and then in a spill file, and may be read many times.
//! The end of a connection is never the end of an input: only `InputEnd` completes it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use metrics::counter;

use super::request::Request;
use crate::ipc;
use crate::metrics as names;
use crate::spill::{Block, Spill, SpillFile};

/// Batches of a passed-on input that may wait before the client is slowed down, in bytes.
const QUEUE_BYTES: usize = 4 * 1024 * 1024;
/// Most that may wait when the statement does not progress at all, in bytes.
const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long a full queue holds the client's frames back before it takes one more, so that a `Cancel` that stands
/// behind them in the socket is seen.
const PATIENCE: Duration = Duration::from_millis(250);
/// What a kept input holds in memory before it goes to disk, in bytes.
const KEPT_BYTES: usize = 16 * 1024 * 1024;
/// How often a waiting statement looks whether it was cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// Why an input cannot be written or read. The text is for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InputError(pub String);

impl InputError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// One input.
pub struct Input {
    number: u64,
    spill: Arc<Spill>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    schema: Option<SchemaRef>,
    rows: u64,
    progress: Progress,
    content: Content,
    /// The client has sent its last frame.
    ended: bool,
    /// Nobody will read it.
    discarded: bool,
    /// The `Exec` that named this input.
    consumer: Option<Arc<Request>>,
}

enum Progress {
    Arriving,
    Complete,
    Failed(InputError),
}

enum Content {
    PassedOn { queue: VecDeque<(RecordBatch, usize)>, bytes: usize, taken: bool },
    Kept { parts: Vec<Part>, bytes: usize, file: Option<Arc<Mutex<SpillFile>>> },
}

#[derive(Clone)]
enum Part {
    Memory(RecordBatch),
    Disk(Block),
}

impl Input {
    /// An input that `consumer` reads while it arrives.
    pub fn passed_on(number: u64, spill: Arc<Spill>, consumer: Arc<Request>) -> Arc<Self> {
        let content = Content::PassedOn { queue: VecDeque::new(), bytes: 0, taken: false };
        Self::new(number, spill, content, Some(consumer))
    }

    /// An input that waits for a statement.
    pub fn kept(number: u64, spill: Arc<Spill>) -> Arc<Self> {
        Self::new(number, spill, Content::Kept { parts: Vec::new(), bytes: 0, file: None }, None)
    }

    fn new(number: u64, spill: Arc<Spill>, content: Content, consumer: Option<Arc<Request>>) -> Arc<Self> {
        let state = State {
            schema: None,
            rows: 0,
            progress: Progress::Arriving,
            content,
            ended: false,
            discarded: false,
            consumer,
        };
        Arc::new(Self { number, spill, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Takes the schema message.
    pub fn open(&self, message: &[u8]) -> Result<(), InputError> {
        let mut state = self.lock();
        if matches!(state.progress, Progress::Failed(_)) {
            return Ok(());
        }
        if state.schema.is_some() {
            return Err(self.fail(&mut state, format!("input {} was opened twice", self.number)));
        }
        match ipc::decode_schema(message) {
            Ok(schema) => {
                state.schema = Some(schema);
                self.changed.notify_all();
                Ok(())
            }
            Err(error) => {
                Err(self
                    .fail(&mut state, format!("input {} does not begin with an Arrow schema: {error}", self.number)))
            }
        }
    }

    /// Takes a record batch message. Waits while a passed-on input is full; `abandoned` tells when to stop waiting.
    pub fn push(&self, message: Vec<u8>, at: usize, abandoned: &dyn Fn() -> bool) -> Result<(), InputError> {
        let mut state = self.lock();
        if matches!(state.progress, Progress::Failed(_)) {
            return Ok(());
        }
        let length = message.len() - at;
        let Some(schema) = state.schema.clone() else {
            return Err(self.fail(&mut state, format!("input {} got rows before it was opened", self.number)));
        };
        let bytes = Buffer::from_vec(message).slice(at);
        let batch = match ipc::decode_batch(&schema, &bytes) {
            Ok(batch) => batch,
            Err(error) => {
                return Err(self.fail(&mut state, format!("input {} got a broken batch: {error}", self.number)));
            }
        };
        counter!(names::ROWS_RECEIVED_TOTAL).increment(batch.num_rows() as u64);
        counter!(names::RECEIVED_BYTES_TOTAL).increment(length as u64);
        state.rows += batch.num_rows() as u64;
        match &mut state.content {
            Content::PassedOn { .. } => self.push_queue(state, batch, length, abandoned),
            Content::Kept { .. } => self.keep(&mut state, batch, &bytes),
        }
    }

    fn push_queue(
        &self,
        mut state: MutexGuard<'_, State>,
        batch: RecordBatch,
        length: usize,
        abandoned: &dyn Fn() -> bool,
    ) -> Result<(), InputError> {
        let mut began = Instant::now();
        loop {
            if matches!(state.progress, Progress::Failed(_)) {
                return Ok(());
            }
            let Content::PassedOn { queue, bytes, .. } = &mut state.content else { return Ok(()) };
            let limit = if began.elapsed() < PATIENCE { QUEUE_BYTES } else { QUEUE_BYTES_MAX };
            if queue.is_empty() || *bytes + length <= limit {
                queue.push_back((batch, length));
                *bytes += length;
                self.changed.notify_all();
                return Ok(());
            }
            if began.elapsed() >= PATIENCE {
                began = Instant::now();
                if abandoned() {
                    return Err(self.fail(&mut state, format!("the client went away during input {}", self.number)));
                }
            }
            state = self.changed.wait_timeout(state, CANCEL_POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn keep(&self, state: &mut State, batch: RecordBatch, message: &[u8]) -> Result<(), InputError> {
        let Content::Kept { parts, bytes, file } = &mut state.content else { return Ok(()) };
        if *bytes + message.len() <= KEPT_BYTES {
            *bytes += message.len();
            parts.push(Part::Memory(batch));
        } else {
            let spilled = match file {
                Some(file) => Ok(file.clone()),
                None => self.spill.file().map(|new| file.insert(Arc::new(Mutex::new(new))).clone()),
            }
            .and_then(|file| file.lock().unwrap_or_else(PoisonError::into_inner).append(message));
            match spilled {
                Ok(block) => parts.push(Part::Disk(block)),
                Err(error) => return Err(self.fail(state, error.to_string())),
            }
        }
        self.changed.notify_all();
        Ok(())
    }

    /// The client sent everything.
    pub fn complete(&self) -> Result<(), InputError> {
        let mut state = self.lock();
        state.ended = true;
        if matches!(state.progress, Progress::Failed(_)) {
            return Ok(());
        }
        if state.schema.is_none() {
            return Err(self.fail(&mut state, format!("input {} ended before it was opened", self.number)));
        }
        state.progress = Progress::Complete;
        self.changed.notify_all();
        Ok(())
    }

    /// Ends the input with an error unless it is complete; what still arrives is discarded.
    pub fn abort(&self, text: impl Into<String>) {
        let mut state = self.lock();
        if matches!(state.progress, Progress::Arriving) {
            self.fail(&mut state, text);
        }
    }

    /// Throws the content away: nobody will read it any more. True if the client has sent its last frame.
    pub fn discard(&self) -> bool {
        let mut state = self.lock();
        state.discarded = true;
        self.fail(&mut state, format!("input {} was already used", self.number));
        state.content = Content::Kept { parts: Vec::new(), bytes: 0, file: None };
        state.ended
    }

    pub fn is_discarded(&self) -> bool {
        self.lock().discarded
    }

    fn fail(&self, state: &mut State, text: impl Into<String>) -> InputError {
        let error = InputError::new(text);
        state.progress = Progress::Failed(error.clone());
        self.changed.notify_all();
        error
    }

    /// Makes `request` the statement whose cancellation ends waiting for this input.
    pub fn attach(&self, request: Arc<Request>) {
        self.lock().consumer = Some(request);
    }

    /// The columns; waits until the input is opened.
    pub fn schema(&self) -> Result<SchemaRef, InputError> {
        let mut state = self.lock();
        loop {
            if let Some(schema) = &state.schema {
                return Ok(schema.clone());
            }
            state = self.wait(state)?;
        }
    }

    /// Number of rows, once all are there.
    pub fn rows(&self) -> Option<u64> {
        let state = self.lock();
        matches!(state.progress, Progress::Complete).then_some(state.rows)
    }

    /// Waits for a change; errors when the input failed or its reader was cancelled.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>, InputError> {
        if let Progress::Failed(error) = &state.progress {
            return Err(error.clone());
        }
        if state.consumer.as_ref().is_some_and(|request| request.is_cancelled()) {
            return Err(InputError::new("cancelled while waiting for rows"));
        }
        Ok(self.changed.wait_timeout(state, CANCEL_POLL).unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Starts reading at the first row.
    pub fn reader(self: Arc<Self>) -> Result<Reader, InputError> {
        let mut state = self.lock();
        if let Content::PassedOn { taken, .. } = &mut state.content
            && std::mem::replace(taken, true)
        {
            return Err(InputError::new(format!("input {} can be read only once, while it arrives", self.number)));
        }
        drop(state);
        Ok(Reader { input: self, at: 0 })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads an input once from its beginning.
pub struct Reader {
    input: Arc<Input>,
    at: usize,
}

enum Found {
    Batch(RecordBatch),
    Disk(Block, Arc<Mutex<SpillFile>>),
}

impl Reader {
    /// The next batch; waits for it if the input is still arriving. `None` only when the input is complete.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, InputError> {
        match self.find()? {
            None => Ok(None),
            Some(Found::Batch(batch)) => Ok(Some(batch)),
            Some(Found::Disk(block, file)) => self.read(block, &file).map(Some),
        }
    }

    fn find(&mut self) -> Result<Option<Found>, InputError> {
        let mut state = self.input.lock();
        loop {
            let state_now = &mut *state;
            match &mut state_now.content {
                Content::PassedOn { queue, bytes, .. } => {
                    if let Some((batch, length)) = queue.pop_front() {
                        *bytes -= length;
                        self.input.changed.notify_all();
                        return Ok(Some(Found::Batch(batch)));
                    }
                }
                Content::Kept { parts, file, .. } => {
                    if let Some(part) = parts.get(self.at) {
                        self.at += 1;
                        return Ok(Some(match (part.clone(), file) {
                            (Part::Memory(batch), _) => Found::Batch(batch),
                            (Part::Disk(block), Some(file)) => Found::Disk(block, file.clone()),
                            (Part::Disk(_), None) => return Err(InputError::new("a spilled batch lost its file")),
                        }));
                    }
                }
            }
            if matches!(state.progress, Progress::Complete) {
                return Ok(None);
            }
            state = self.input.wait(state)?;
        }
    }

    fn read(&self, block: Block, file: &Mutex<SpillFile>) -> Result<RecordBatch, InputError> {
        let schema = self.input.schema()?;
        let bytes = file.lock().unwrap_or_else(PoisonError::into_inner).read(block);
        let bytes = Buffer::from_vec(bytes.map_err(|e| InputError::new(e.to_string()))?);
        ipc::decode_batch(&schema, &bytes).map_err(|e| InputError::new(format!("a spilled batch is broken: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::Encoder;
    use arrow_array::{Int64Array, cast::AsArray, types::Int64Type};
    use arrow_schema::{DataType, Field, Schema};

    fn messages(batches: usize, rows: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let mut encoder = Encoder::new(schema.clone());
        let head = encoder.schema().unwrap();
        let body = (0..batches)
            .map(|b| {
                let column = Int64Array::from_iter_values((0..rows).map(|r| (b * rows + r) as i64));
                encoder.batch(&RecordBatch::try_new(schema.clone(), vec![Arc::new(column)]).unwrap()).unwrap()
            })
            .collect();
        (head, body)
    }

    fn sum(mut reader: Reader) -> Result<i64, InputError> {
        let mut total = 0;
        while let Some(batch) = reader.next_batch()? {
            total += batch.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>();
        }
        Ok(total)
    }

    fn spill() -> (tempfile::TempDir, Arc<Spill>) {
        let directory = tempfile::tempdir().unwrap();
        let spill = Spill::new(directory.path().to_owned(), 1024);
        (directory, spill)
    }

    #[test]
    fn a_kept_input_spills_and_reads_twice() {
        let (_directory, spill) = spill();
        let (head, body) = messages(30, 100_000);
        let input = Input::kept(7, spill);
        input.open(&head).unwrap();
        for message in body {
            input.push(message, 0, &|| false).unwrap();
        }
        assert_eq!(input.rows(), None);
        input.complete().unwrap();
        assert_eq!(input.rows(), Some(3_000_000));
        let expected = (0..3_000_000).sum::<i64>();
        assert_eq!(sum(input.clone().reader().unwrap()), Ok(expected));
        assert_eq!(sum(input.reader().unwrap()), Ok(expected));
    }

    #[test]
    fn a_passed_on_input_slows_the_client_down_and_reads_once() {
        let (_directory, spill) = spill();
        let (head, body) = messages(30, 100_000);
        let input = Input::passed_on(7, spill, Request::new(1));
        let writer = {
            let input = input.clone();
            std::thread::spawn(move || {
                input.open(&head).unwrap();
                for message in body {
                    input.push(message, 0, &|| false).unwrap();
                }
                input.complete().unwrap();
            })
        };
        std::thread::sleep(Duration::from_millis(100));
        assert!(!writer.is_finished(), "24 MB fit into a queue of 4 MB");
        assert_eq!(sum(input.clone().reader().unwrap()), Ok((0..3_000_000).sum::<i64>()));
        writer.join().unwrap();
        assert!(input.reader().is_err());
    }

    #[test]
    fn an_unfinished_input_is_an_error_not_an_end() {
        let (_directory, spill) = spill();
        let (head, body) = messages(1, 10);
        let input = Input::passed_on(3, spill, Request::new(1));
        input.open(&head).unwrap();
        input.push(body[0].clone(), 0, &|| false).unwrap();
        input.abort("the client went away");
        let mut reader = input.reader().unwrap();
        reader.next_batch().unwrap();
        assert_eq!(reader.next_batch(), Err(InputError::new("the client went away")));
    }

    #[test]
    fn cancelling_the_reader_ends_its_wait() {
        let (_directory, spill) = spill();
        let request = Request::new(1);
        let input = Input::passed_on(3, spill, request.clone());
        input.open(&messages(1, 1).0).unwrap();
        request.cancel();
        assert!(input.reader().unwrap().next_batch().unwrap_err().0.contains("cancelled"));
    }

    #[test]
    fn rubbish_is_refused() {
        let (_directory, spill) = spill();
        let input = Input::kept(3, spill);
        assert!(input.open(b"rubbish!").is_err());
        assert!(input.schema().is_err());
    }
}
