//! Rows of a cursor as Arrow, which is what the archiver exports from: a tuple is deformed once, here, and nothing of it
//! becomes text or a message of its own.
//!
//! The cursor is an ordinary one, so its snapshot, its locks and its memory are PostgreSQL's business.

#![allow(unsafe_code)]

use std::{ffi::CString, sync::Arc};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Field, Schema};
use coldfront_common::{allocator, sqlstate, turns::Turns, types::ColumnType};
use pgrx::{PgMemoryContexts, pg_extern, pg_guard, pg_sys};

use crate::{
    convert::{KEPT_BUFFER_BYTES, write::Column},
    error::{Error, OrRaise, Result},
    pg::catalog,
};

/// Most rows after which the size of the batch is looked at: a cursor can be stopped between two fetches only.
const ROWS_AT_ONCE: usize = 128;
/// Rows after which others may have the processor.
const ROWS_OF_A_TURN: usize = 64;

/// The next rows of a cursor, as an Arrow IPC stream with one batch of about `max_bytes`; NULL at its end.
#[pg_extern]
fn _fetch_arrow(cursor: &str, max_bytes: i32) -> Option<Vec<u8>> {
    let name = CString::new(cursor).unwrap_or_default();
    // SAFETY: the name is a C string; the portal is only looked up.
    let portal = unsafe { pg_sys::GetPortalByName(name.as_ptr()) };
    if portal.is_null() {
        Error::value("34000", format!("cursor \"{cursor}\" does not exist")).raise();
    }
    let wanted = usize::try_from(max_bytes).unwrap_or(0);
    if wanted == 0 {
        Error::value(sqlstate::INVALID_PARAMETER, format!("a batch of {max_bytes} bytes has no rows")).raise();
    }
    allocator::keep_buffers(KEPT_BUFFER_BYTES);
    let mut receiver = Receiver::new();
    while receiver.bytes < wanted {
        // One row at first, then as many as seem to fit: rows may be large.
        let fitting = (wanted - receiver.bytes) / (receiver.bytes / receiver.rows.max(1)).max(1);
        let count = if receiver.rows == 0 { 1 } else { fitting.clamp(1, ROWS_AT_ONCE) };
        // SAFETY: the portal exists, and the receiver outlives the call. PostgreSQL checks that the portal returns rows.
        let fetched = unsafe {
            let destination = (&raw mut *receiver).cast::<pg_sys::DestReceiver>();
            let forward = pg_sys::FetchDirection::FETCH_FORWARD;
            pg_sys::PortalRunFetch(portal, forward, count as std::ffi::c_long, destination)
        };
        if fetched < count as u64 {
            break;
        }
    }
    receiver.finish().or_raise()
}

/// Where the cursor's rows go. PostgreSQL sees the first field and calls back with its address.
#[repr(C)]
struct Receiver {
    callbacks: pg_sys::DestReceiver,
    columns: Vec<Column>,
    fields: Vec<Field>,
    rows: usize,
    bytes: usize,
    turns: Turns,
    /// For what values are detoasted into; emptied after each row.
    row_memory: PgMemoryContexts,
}

impl Receiver {
    fn new() -> Box<Self> {
        let callbacks = pg_sys::DestReceiver {
            receiveSlot: Some(receive),
            rStartup: Some(start),
            rShutdown: Some(done),
            rDestroy: Some(done),
            mydest: pg_sys::CommandDest::DestNone,
        };
        let row_memory = PgMemoryContexts::new("coldfront row");
        Box::new(Self {
            callbacks,
            columns: Vec::new(),
            fields: Vec::new(),
            rows: 0,
            bytes: 0,
            turns: Turns::begin(),
            row_memory,
        })
    }

    /// Takes the cursor's columns.
    ///
    /// # Safety
    /// `row` is a valid tuple descriptor.
    unsafe fn describe(&mut self, row: pg_sys::TupleDesc) -> Result<()> {
        // SAFETY: the caller's promise.
        let attributes = unsafe { (0..(*row).natts).map(|at| crate::pg::compat::attribute(row, at)) };
        for attribute in attributes {
            // SAFETY: an attribute of a valid descriptor.
            let (type_oid, typmod, name) = unsafe {
                ((*attribute).atttypid, (*attribute).atttypmod, catalog::text((*attribute).attname.data.as_ptr()))
            };
            let ty = ColumnType::from_postgres(type_oid.to_u32(), typmod).map_err(|why| {
                let message = format!("coldfront: column \"{name}\" cannot be stored in Iceberg: {why}");
                Error::refused(sqlstate::FEATURE_NOT_SUPPORTED, message, why.hint())
            })?;
            self.fields.push(Field::new(name.clone(), ty.arrow_type(), true));
            self.columns.push(Column::new(ty, name));
        }
        Ok(())
    }

    /// Appends a row.
    ///
    /// # Safety
    /// The slot has the row type that was described.
    unsafe fn append(&mut self, slot: *mut pg_sys::TupleTableSlot) -> Result<()> {
        // SAFETY: all attributes are deformed first; each column reads its own attribute of its own type.
        unsafe {
            if usize::try_from((*slot).tts_nvalid).unwrap_or(0) < self.columns.len() {
                pg_sys::slot_getsomeattrs_int(slot, self.columns.len() as i32);
            }
            for (at, column) in self.columns.iter_mut().enumerate() {
                self.bytes += column.append(*(*slot).tts_values.add(at), *(*slot).tts_isnull.add(at))?;
            }
        }
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS_OF_A_TURN) {
            self.turns.offer();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<Vec<u8>>> {
        if self.rows == 0 {
            return Ok(None);
        }
        let arrays: Vec<ArrayRef> = self.columns.iter_mut().map(Column::finish).collect();
        let schema = Arc::new(Schema::new(std::mem::take(&mut self.fields)));
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let encoded = RecordBatch::try_new_with_options(schema.clone(), arrays, &options).and_then(|batch| {
            let mut writer = StreamWriter::try_new(Vec::with_capacity(self.bytes + self.bytes / 4), &schema)?;
            writer.write(&batch)?;
            writer.into_inner()
        });
        encoded.map(Some).map_err(|error: ArrowError| {
            Error::value(sqlstate::INTERNAL, format!("coldfront: rows could not be encoded: {error}"))
        })
    }
}

/// Called before the first row of each fetch.
#[pg_guard]
unsafe extern "C-unwind" fn start(this: *mut pg_sys::DestReceiver, _operation: i32, row: pg_sys::TupleDesc) {
    // SAFETY: PostgreSQL passes what it was given, whose first field this is.
    let receiver = unsafe { &mut *this.cast::<Receiver>() };
    if receiver.columns.is_empty() {
        // SAFETY: the cursor's descriptor.
        unsafe { receiver.describe(row) }.or_raise();
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn receive(slot: *mut pg_sys::TupleTableSlot, this: *mut pg_sys::DestReceiver) -> bool {
    // SAFETY: as in `start`; the slot has the described type. The context that was current is current again, also where an
    // error is raised, as the caller's handler restores it.
    unsafe {
        let receiver = &mut *this.cast::<Receiver>();
        let memory = receiver.row_memory.value();
        let before = pg_sys::MemoryContextSwitchTo(memory);
        let outcome = receiver.append(slot);
        pg_sys::MemoryContextSwitchTo(before);
        outcome.or_raise();
        if !(*memory).isReset {
            pg_sys::MemoryContextReset(memory);
        }
    }
    true
}

#[pg_guard]
unsafe extern "C-unwind" fn done(_this: *mut pg_sys::DestReceiver) {}
