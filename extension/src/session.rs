//! The backend's session with the engine and what the current transaction did through it.
//!
//! One session per backend, opened by the first cold access and kept across transactions. The state of a
//! transaction lives here and is reset by [`crate::txn`]; nothing else may reset it.

use std::cell::RefCell;

use coldfront_common::{
    frame::{self, Done, Kind, Scope},
    ident::TableRef,
    sqlstate,
};

use crate::{
    client::{Connection, Interrupts, decode},
    error::{Error, Result},
    gucs, lake,
    pg::xact,
};

/// The session and its counters; numbers start at 1 and are not reused.
#[derive(Default)]
pub struct Session {
    connection: Option<Connection>,
    /// What the connection said hello with; a changed lake needs a new session.
    lake: Option<frame::Lake>,
    next_snapshot: u64,
    next_stream: u32,
    next_input: u64,
    pub txn: Transaction,
}

/// What the current transaction did in the engine.
#[derive(Default)]
pub struct Transaction {
    /// Anything at all, so that the engine must hear of its end.
    pub used: bool,
    /// Statements that changed the lake.
    pub writes: u32,
    /// Tables changed so far; scans of them must see uncommitted rows.
    pub dirty: Vec<TableRef>,
    /// Tables whose write lock is held.
    pub locked: Vec<TableRef>,
    /// Snapshot of each table when it was read first, in a transaction with one snapshot.
    pub heads: Vec<(TableRef, Option<i64>)>,
    /// Why the transaction can no longer commit.
    pub doomed: Option<Doom>,
    /// Subtransaction in which a statement began that reads its input while it arrives; nothing else may use the
    /// write scope meanwhile.
    pub streaming: Option<u32>,
    /// Snapshots whose executor has ended.
    released: Vec<u64>,
}

impl Transaction {
    /// Whether anything has to be undone or forgotten at its end; false for transactions without cold relations.
    pub fn is_touched(&self) -> bool {
        self.used || self.doomed.is_some() || !self.locked.is_empty()
    }
}

/// Why a transaction with cold writes cannot commit any more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Doom {
    /// A subtransaction with a cold write was rolled back.
    Savepoint,
    /// The engine, or the session with it, was lost with uncommitted writes in it.
    Lost,
    /// A statement failed inside the engine, which took earlier writes of the transaction with it.
    Failed,
}

impl Doom {
    pub fn error(self) -> Error {
        match self {
            Self::Savepoint => Error::refused(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "coldfront: a write to a cold table cannot be undone by rolling back to a savepoint",
                "Roll back the whole transaction, or keep cold writes out of savepoints and EXCEPTION blocks.",
            ),
            Self::Lost => Error::EngineLost {
                cause:
                    "The engine ended while this transaction held cold rows or a snapshot in it; nothing of it is kept."
                        .into(),
            },
            Self::Failed => Error::refused(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "coldfront: an earlier statement on a cold table failed and took this transaction's cold writes with it",
                "Roll back the transaction; cold writes cannot continue after an error that was caught.",
            ),
        }
    }
}

/// SQLSTATEs of failures that leave the engine's transaction usable.
const BENIGN: [&str; 5] = ["42601", "42703", "42883", sqlstate::UNDEFINED_TABLE, sqlstate::DUPLICATE_TABLE];

thread_local! {
    static SESSION: RefCell<Session> = RefCell::new(Session::default());
}

/// Runs `f` with the session. Not re-entrant: `f` may not run SQL.
pub fn with<T>(f: impl FnOnce(&mut Session) -> T) -> T {
    SESSION.with(|session| f(&mut session.borrow_mut()))
}

/// [`with`] for the ends of transactions and executors. A FATAL error ends the process from inside a wait, with the
/// session still in use and nothing unwound: then there is nothing left to do here, because the engine rolls back when
/// the socket closes with the process, and the callback must not fail.
pub fn try_with<T>(f: impl FnOnce(&mut Session) -> T) -> Option<T> {
    SESSION.with(|session| session.try_borrow_mut().ok().map(|mut s| f(&mut s)))
}

/// Makes sure that a connection with the present lake configuration exists. May run SQL (reads the secrets).
pub fn ensure_connected() -> Result<()> {
    ensure_connected_within(gucs::engine_wait_ms())
}

/// [`ensure_connected`], waiting at most so long for an engine that is starting.
pub fn ensure_connected_within(wait_ms: i32) -> Result<()> {
    let in_use = with(|s| s.txn.used);
    let fresh = with(|s| match &mut s.connection {
        // An engine that ended while nothing depended on it is no reason to fail.
        Some(connection) if !in_use => connection.is_alive(),
        Some(connection) => connection.is_healthy(),
        None => false,
    });
    if fresh && (in_use || !lake::changed()) {
        return Ok(());
    }
    let lake = lake::current()?;
    if fresh && with(|s| s.lake.as_ref() == Some(&lake)) {
        lake::settled();
        return Ok(());
    }
    with(|s| {
        s.drop_connection();
        match s.txn.doomed {
            Some(doom) => Err(doom.error()),
            None => Ok(()),
        }
    })?;
    let hello = frame::Hello {
        version: frame::PROTOCOL_VERSION,
        database: xact::database_name(),
        pid: i32::try_from(std::process::id()).unwrap_or(0),
        lake: lake.clone(),
    };
    let connection = Connection::open(&gucs::engine_socket(), &hello, wait_ms)?;
    with(|s| {
        s.connection = Some(connection);
        s.lake = Some(lake);
    });
    lake::settled();
    Ok(())
}

/// Runs a statement to its end in the write transaction and returns the rows it changed.
pub fn exec(sql: &str, changes: &[&TableRef]) -> Result<u64> {
    ensure_connected()?;
    with(|s| {
        s.refuse_doomed()?;
        let request = frame::Exec { scope: Scope::Write, sql: sql.to_owned(), input: None };
        let answer = s.write_call(|c| c.call(Kind::Exec, Kind::Done, &request, Interrupts::Serve))?;
        s.txn.writes += 1;
        for table in changes {
            s.mark_dirty(table);
        }
        Ok(decode::<Done>(&answer)?.rows)
    })
}

/// Creates a namespace. The catalog only knows it once the engine's transaction has committed, and an empty namespace
/// does no harm, so it is committed at once, unless the transaction has written already and must stay open.
pub fn create_namespace(quoted: &str) -> Result<()> {
    ensure_connected()?;
    with(|s| {
        s.refuse_doomed()?;
        let sql = format!("CREATE SCHEMA IF NOT EXISTS ice.{quoted}");
        let request = frame::Exec { scope: Scope::Write, sql, input: None };
        s.write_call(|c| c.call(Kind::Exec, Kind::Done, &request, Interrupts::Serve))?;
        if s.txn.writes == 0 {
            s.write_call(|c| c.call(Kind::Commit, Kind::Done, &(), Interrupts::Hold))?;
        }
        Ok(())
    })
}

impl Session {
    /// The connection; [`ensure_connected`] came before.
    pub fn connection(&mut self) -> Result<&mut Connection> {
        self.connection
            .as_mut()
            .ok_or_else(|| Error::EngineLost { cause: "There is no session with the engine.".into() })
    }

    /// Runs a request on the write scope and keeps the books when it fails: the engine's transaction is gone then.
    pub fn write_call<T>(&mut self, f: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        self.txn.used = true;
        let outcome = f(self.connection()?);
        match &outcome {
            // The engine's transaction survives what its parser, binder and catalog refuse.
            Err(error) if BENIGN.contains(&error.sqlstate()) => {}
            Err(_) => self.write_failed(),
            Ok(_) => {}
        }
        outcome
    }

    /// Books a failure on the write scope.
    pub fn write_failed(&mut self) {
        self.txn.streaming = None;
        let healthy = self.connection.as_ref().is_some_and(Connection::is_healthy);
        if self.txn.writes > 0 {
            self.txn.doomed.get_or_insert(if healthy { Doom::Failed } else { Doom::Lost });
        } else if healthy {
            // Nothing was written yet, so a fresh engine transaction loses nothing.
            self.end_engine_transaction();
        }
    }

    pub fn refuse_doomed(&self) -> Result<()> {
        match self.txn.doomed {
            Some(doom) => Err(doom.error()),
            None => Ok(()),
        }
    }

    pub fn mark_dirty(&mut self, table: &TableRef) {
        if !self.txn.dirty.contains(table) {
            self.txn.dirty.push(table.clone());
        }
    }

    pub fn new_snapshot(&mut self) -> u64 {
        self.next_snapshot += 1;
        self.next_snapshot
    }

    pub fn new_stream(&mut self) -> u32 {
        self.next_stream = self.next_stream.wrapping_add(1);
        self.next_stream
    }

    pub fn new_input(&mut self) -> u64 {
        self.next_input += 1;
        self.next_input
    }

    /// Notes that no executor needs the snapshot any more; the engine hears of it with the next query.
    pub fn release_snapshot(&mut self, snapshot: u64) {
        if self.txn.used {
            self.txn.released.push(snapshot);
        }
    }

    pub fn take_released(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.txn.released)
    }

    /// Size and head of a table; `fresh` means as the catalog has them now.
    pub fn table_stats(&mut self, table: &TableRef, fresh: bool) -> Result<frame::TableStats> {
        self.ask_stats(table, fresh, None)
    }

    /// Whether the catalog knows a snapshot of a table.
    pub fn has_snapshot(&mut self, table: &TableRef, snapshot: i64) -> Result<bool> {
        Ok(self.ask_stats(table, true, Some(snapshot))?.has)
    }

    fn ask_stats(&mut self, table: &TableRef, fresh: bool, has: Option<i64>) -> Result<frame::TableStats> {
        let request = frame::Stats { namespace: table.namespace.clone(), table: table.name.clone(), fresh, has };
        let answer = self.connection()?.call(Kind::Stats, Kind::TableStats, &request, Interrupts::Serve)?;
        decode(&answer)
    }

    /// In a transaction with one snapshot: remembers the head a table had before it was read first.
    pub fn note_head(&mut self, table: &TableRef) -> Result<()> {
        if self.txn.heads.iter().all(|(known, _)| known != table) {
            let head = self.table_stats(table, true)?.snapshot;
            self.txn.heads.push((table.clone(), head));
        }
        Ok(())
    }

    /// Before the first write to a table that the transaction has read already: another writer must not have come
    /// between, because the engine would apply this transaction's old view to the new state.
    pub fn check_head(&mut self, table: &TableRef) -> Result<()> {
        let Some((_, read)) = self.txn.heads.iter().find(|(known, _)| known == table).cloned() else { return Ok(()) };
        if self.table_stats(table, true)?.snapshot == read {
            return Ok(());
        }
        Err(Error::refused(
            sqlstate::SERIALIZATION_FAILURE,
            "could not serialize access due to concurrent update",
            "Another transaction changed the table after this one had read it. Retry the transaction.",
        ))
    }

    /// Fetches the next batch of a stream, or its end.
    pub fn fetch(&mut self, stream: u32) -> Result<frame::Frame> {
        let connection = self.connection()?;
        let seq = connection.send(Kind::Fetch, &frame::StreamId { stream })?;
        connection.wait_either(seq, Kind::Batch, Kind::End, Interrupts::Serve)
    }

    /// Closes a stream early, without waiting and without failing.
    pub fn close_stream(&mut self, stream: u32) {
        if self.txn.used
            && let Some(connection) = &mut self.connection
        {
            connection.post_json(Kind::CloseStream, &frame::StreamId { stream });
        }
    }

    /// Tells the engine that the transaction is over, without waiting and without failing.
    pub fn end_engine_transaction(&mut self) {
        if let Some(connection) = &mut self.connection
            && !connection.post(Kind::Rollback, &[])
        {
            // The engine rolls back and cleans up when it sees the end of the stream.
            self.connection = None;
        }
    }

    /// Forgets a connection that cannot be used. Writes in it are lost, and so is the one snapshot of a transaction.
    fn drop_connection(&mut self) {
        let held = self.txn.writes > 0 || (self.txn.used && xact::uses_one_snapshot());
        if self.connection.take().is_some() && held {
            self.txn.doomed.get_or_insert(Doom::Lost);
        }
    }
}
