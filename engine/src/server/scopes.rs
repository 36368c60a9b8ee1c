//! The DuckDB transactions of a session: one read transaction per number, and one write transaction.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use coldfront_common::frame::{Failure, Scope};
use coldfront_common::sqlstate;

use super::request::Request;
use super::session::SessionInputs;
use crate::duckdb::{Error, Interrupter};
use crate::failure::failure;
use crate::instance::{Instance, SessionConnection};
use crate::staging::WriteStaging;

/// How long a running statement may take to stop when its transaction is rolled back.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// How often it is told to.
const STOP_REPEAT: Duration = Duration::from_millis(5);

/// A connection with a transaction in it.
pub struct Transaction {
    pub connection: SessionConnection,
    /// The stream that occupies the connection.
    pub live: Option<u32>,
    /// A statement failed; DuckDB takes nothing but ROLLBACK.
    pub failed: bool,
    /// What a write transaction put into the object store.
    pub staging: Option<WriteStaging>,
}

impl Transaction {
    /// Runs a call that may end in an error and remembers whether the transaction survived it.
    pub fn call<T>(
        &mut self,
        request: &Request,
        call: impl FnOnce(&mut SessionConnection) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let interrupter = self.connection.interrupter();
        let outcome = request.call(interrupter, || call(&mut self.connection));
        outcome.map_err(|error| {
            self.probe();
            // Whatever broke first: the client asked for it.
            match request.is_cancelled() {
                true => failure(sqlstate::QUERY_CANCELED, "the statement was cancelled"),
                false => self.connection.instance.explain(&error, request.began),
            }
        })
    }

    /// Finds out after an error whether the transaction can go on. Asking DuckDB is cheap and exact: parser, binder and
    /// catalog errors leave it usable, others do not.
    pub fn probe(&mut self) {
        self.failed = self.connection.execute("SELECT 1").is_err();
    }

    /// Gets ready for a statement: notes which tables it writes.
    pub fn prepare(&mut self, sql: &str) {
        if let Some(staging) = &mut self.staging {
            staging.prepare(sql);
        }
    }

    /// Rolls back, and removes what was staged. True if the connection can be used for another transaction.
    pub fn undo(&mut self) -> bool {
        let usable = self.connection.execute("ROLLBACK").is_ok();
        if let Some(mut staging) = self.staging.take() {
            staging.interrupted = self.failed;
            staging.undo();
        }
        usable
    }

    pub fn interrupter(&self) -> Interrupter {
        self.connection.interrupter()
    }
}

/// The write transaction's state.
#[derive(Default)]
pub enum Write {
    #[default]
    Idle,
    Open(Transaction),
    /// An `Exec` runs in its own thread and brings the transaction back.
    Busy {
        request: Arc<Request>,
        thread: JoinHandle<Transaction>,
    },
    /// A statement failed, or could not be stopped; everything was or will be undone, and only a rollback helps.
    Lost,
}

/// All transactions of a session.
#[derive(Default)]
pub struct Scopes {
    reads: HashMap<u64, Transaction>,
    pub write: Write,
    /// A connection without a transaction, kept for the next one.
    spare: Option<SessionConnection>,
}

impl Scopes {
    /// The transaction of `scope`, begun if need be.
    pub fn get(
        &mut self,
        scope: Scope,
        instance: &Arc<Instance>,
        inputs: &Arc<SessionInputs>,
    ) -> Result<&mut Transaction, Failure> {
        match scope {
            Scope::Read(number) => {
                if !self.reads.contains_key(&number) {
                    let transaction = self.begin(instance, inputs, "BEGIN TRANSACTION READ ONLY")?;
                    self.reads.insert(number, transaction);
                }
                usable(self.reads.get_mut(&number))
            }
            Scope::Write => {
                self.join_answered();
                match self.write {
                    Write::Idle => {
                        let mut transaction = self.begin(instance, inputs, "BEGIN TRANSACTION")?;
                        transaction.staging = Some(WriteStaging::new(instance.clone()));
                        self.write = Write::Open(transaction);
                    }
                    Write::Busy { .. } => return Err(busy()),
                    Write::Lost => return Err(aborted()),
                    Write::Open(_) => {}
                }
                let Write::Open(transaction) = &mut self.write else { return Err(aborted()) };
                usable(Some(transaction))
            }
        }
    }

    /// The transaction of `scope` if there is one.
    pub fn existing(&mut self, scope: Scope) -> Option<&mut Transaction> {
        match scope {
            Scope::Read(number) => self.reads.get_mut(&number),
            Scope::Write => match &mut self.write {
                Write::Open(transaction) => Some(transaction),
                _ => None,
            },
        }
    }

    fn begin(
        &mut self,
        instance: &Arc<Instance>,
        inputs: &Arc<SessionInputs>,
        sql: &str,
    ) -> Result<Transaction, Failure> {
        let mut connection = match self.spare.take() {
            Some(spare) => spare,
            None => instance.connect(inputs).map_err(|e| instance.explain(&e, Instant::now()))?,
        };
        connection.execute(sql).map_err(|e| instance.explain(&e, Instant::now()))?;
        Ok(Transaction { connection, live: None, failed: false, staging: None })
    }

    /// Takes the write transaction out, for a thread of its own.
    pub fn take_write(&mut self) -> Option<Transaction> {
        match std::mem::take(&mut self.write) {
            Write::Open(transaction) => Some(transaction),
            other => {
                self.write = other;
                None
            }
        }
    }

    /// Takes the write transaction back from a thread whose request was answered; it ends at once.
    pub fn join_answered(&mut self) {
        if matches!(&self.write, Write::Busy { request, .. } if request.is_answered()) {
            self.join();
        }
    }

    /// Stops the thread that has the write transaction, and takes it back. A thread that does not stop is left to itself.
    pub fn stop_busy(&mut self) {
        let began = Instant::now();
        while let Write::Busy { request, thread } = &self.write {
            if thread.is_finished() {
                self.join();
            } else if began.elapsed() < STOP_PATIENCE {
                request.cancel();
                std::thread::sleep(STOP_REPEAT);
            } else {
                self.write = Write::Lost;
            }
        }
    }

    /// Leaves a thread that does not stop to itself.
    pub fn abandon_busy(&mut self) {
        if let Write::Busy { request, .. } = &self.write {
            request.cancel();
            self.write = Write::Lost;
        }
    }

    fn join(&mut self) {
        if let Write::Busy { thread, .. } = std::mem::take(&mut self.write) {
            self.write = match thread.join() {
                Ok(transaction) if !transaction.failed => Write::Open(transaction),
                // The thread undid it.
                Ok(transaction) => {
                    self.keep(transaction.connection);
                    Write::Lost
                }
                Err(_) => Write::Lost,
            };
        }
    }

    /// Ends a read transaction.
    pub fn release(&mut self, number: u64) {
        if let Some(transaction) = self.reads.remove(&number) {
            self.retire(transaction);
        }
    }

    /// Ends all read transactions.
    pub fn release_all(&mut self) {
        let numbers: Vec<u64> = self.reads.keys().copied().collect();
        for number in numbers {
            self.release(number);
        }
    }

    /// Undoes a transaction and keeps its connection if it is the only spare one.
    pub fn retire(&mut self, mut transaction: Transaction) {
        if transaction.undo() {
            self.keep(transaction.connection);
        }
    }

    /// Undoes the write transaction at once if a statement made it unusable: nothing staged waits for the client.
    pub fn undo_failed_write(&mut self) {
        if matches!(&self.write, Write::Open(transaction) if transaction.failed)
            && let Some(transaction) = self.take_write()
        {
            self.retire(transaction);
            self.write = Write::Lost;
        }
    }

    pub fn drop_spare(&mut self) {
        self.spare = None;
    }

    /// Keeps a connection without a transaction.
    pub fn keep(&mut self, connection: SessionConnection) {
        if !connection.instance.is_broken() {
            self.spare.get_or_insert(connection);
        }
    }
}

fn usable(transaction: Option<&mut Transaction>) -> Result<&mut Transaction, Failure> {
    match transaction {
        Some(transaction) if !transaction.failed => Ok(transaction),
        _ => Err(aborted()),
    }
}

fn busy() -> Failure {
    failure(sqlstate::FEATURE_NOT_SUPPORTED, "a statement that still reads its rows holds the cold write transaction")
}

/// An earlier statement failed, and DuckDB has no savepoints to go back to.
pub fn aborted() -> Failure {
    failure(
        sqlstate::IN_FAILED_SQL_TRANSACTION,
        "an earlier statement of this transaction failed, so its cold tables cannot be used any more",
    )
}
