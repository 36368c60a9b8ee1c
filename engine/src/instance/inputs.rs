//! Which session's inputs a connection may read. A connection never sees another session's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arrow_schema::SchemaRef;

use crate::duckdb::{BatchSource, Connection, Database, InputReader, InputSource};
use crate::server::{Input, SessionInputs};

/// The connections of one instance.
pub struct ConnectionInputs {
    database: Weak<Database>,
    connections: Mutex<HashMap<u64, Entry>>,
}

struct Entry {
    session: Weak<SessionInputs>,
    used: Vec<u64>,
}

impl ConnectionInputs {
    pub fn new(database: &Arc<Database>) -> Arc<Self> {
        Arc::new(Self { database: Arc::downgrade(database), connections: Mutex::default() })
    }

    pub fn add(&self, connection_id: u64, session: &Arc<SessionInputs>) {
        self.lock().insert(connection_id, Entry { session: Arc::downgrade(session), used: Vec::new() });
    }

    pub fn remove(&self, connection_id: u64) {
        self.lock().remove(&connection_id);
    }

    pub fn take_used(&self, connection_id: u64) -> Vec<u64> {
        self.lock().get_mut(&connection_id).map(|entry| std::mem::take(&mut entry.used)).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InputSource for ConnectionInputs {
    fn open(&self, connection_id: u64, number: u64) -> Result<Arc<dyn InputReader>, String> {
        let session = {
            let mut connections = self.lock();
            let entry = connections.get_mut(&connection_id).ok_or("this connection has no inputs")?;
            entry.used.push(number);
            entry.session.upgrade().ok_or("the session is over")?
        };
        let input = session.get(number).ok_or_else(|| format!("there is no input {number} in this session"))?;
        Ok(Arc::new(SessionInput { input, database: self.database.clone() }))
    }
}

struct SessionInput {
    input: Arc<Input>,
    database: Weak<Database>,
}

impl InputReader for SessionInput {
    fn schema(&self) -> Result<SchemaRef, String> {
        self.input.schema().map_err(|e| e.0)
    }

    fn rows(&self) -> Option<u64> {
        self.input.rows()
    }

    fn converter(&self) -> Result<Connection, String> {
        let database = self.database.upgrade().ok_or("the database is closing")?;
        database.connect().map_err(|e| e.message)
    }

    fn scan(self: Arc<Self>) -> Result<BatchSource, String> {
        let mut reader = self.input.clone().reader().map_err(|e| e.0)?;
        Ok(Box::new(move || reader.next_batch().map_err(|e| e.0)))
    }
}
