//! Execution of a scan: opens a stream in the engine on first use and turns its batches into tuples.

#![allow(unsafe_code)]

use std::{cell::RefCell, collections::HashMap};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use coldfront_common::{
    allocator,
    frame::{End, Kind, Query, Scope, Shortcut},
    sqlstate,
    types::ColumnType,
};
use pgrx::{PgList, PgMemoryContexts, pg_guard, pg_sys, pg_sys::Datum};

use super::{
    literal,
    private::{self, Output, ScanPlan},
    rowid,
    template::{Piece, Template},
};
use crate::{
    client::{Interrupts, decode},
    convert::{
        KEPT_BUFFER_BYTES,
        read::{self, Column},
    },
    error::{Error, OrRaise, Result},
    lake,
    pg::{io, xact},
    session, txn,
};

/// State of one scan node, owned by the executor's memory context.
pub struct Scan {
    plan: ScanPlan,
    values: Vec<*mut pg_sys::ExprState>,
    estate: usize,
    snapshot: u64,
    stream: Option<u32>,
    decoder: StreamDecoder,
    batch: Option<Batch>,
    at_end: bool,
    /// Sums over all streams of this node, for EXPLAIN ANALYZE.
    pub delivered: Delivered,
    /// Holds what input functions make for the present batch.
    batch_context: PgMemoryContexts,
}

#[derive(Default, Clone, Copy)]
pub struct Delivered {
    pub rows: u64,
    pub bytes: u64,
    pub files: u64,
    pub files_known: bool,
    /// Whether the plan's shortcut was run, at least once; known at the end of a stream.
    pub shortcut: Option<bool>,
}

struct Batch {
    rows: usize,
    next: usize,
    columns: Vec<(usize, Column)>,
    /// Row identities, one for each row, where the plan asks for them.
    row_ids: Vec<u64>,
}

thread_local! {
    /// Snapshot number of each executor with scans, and how many scans use it.
    static SNAPSHOTS: RefCell<HashMap<usize, (u64, usize)>> = RefCell::new(HashMap::new());
}

/// All scans of one executor see one state of each table.
fn join_snapshot(estate: usize) -> u64 {
    SNAPSHOTS.with_borrow_mut(|map| {
        let entry = map.entry(estate).or_insert_with(|| (session::with(session::Session::new_snapshot), 0));
        entry.1 += 1;
        entry.0
    })
}

fn leave_snapshot(estate: usize) {
    let released = SNAPSHOTS.with_borrow_mut(|map| {
        let entry = map.get_mut(&estate)?;
        entry.1 -= 1;
        let (snapshot, users) = *entry;
        (users == 0).then(|| {
            map.remove(&estate);
            snapshot
        })
    });
    if let Some(snapshot) = released {
        session::try_with(|s| s.release_snapshot(snapshot));
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.close_stream();
        leave_snapshot(self.estate);
    }
}

impl Scan {
    fn close_stream(&mut self) {
        if let Some(stream) = self.stream.take() {
            session::try_with(|s| s.close_stream(stream));
        }
        self.batch = None;
        self.at_end = false;
    }

    fn scope(&self) -> Scope {
        let shared = session::with(|s| s.txn.dirty.contains(&self.plan.table));
        if self.plan.is_target || shared || xact::uses_one_snapshot() {
            Scope::Write
        } else {
            Scope::Read(self.snapshot)
        }
    }

    /// Opens the stream.
    fn open(&mut self, econtext: *mut pg_sys::ExprContext) -> Result<()> {
        if let Some(condition) = self.plan.condition {
            // SAFETY: as below; the condition is boolean.
            let (holds, is_null) = unsafe { evaluate(self.values[condition], econtext) };
            if is_null || holds.value() == 0 {
                self.at_end = true;
                return Ok(());
            }
        }
        // SAFETY: the expressions were initialised for this node and its context is valid while it runs.
        let fill = |template| unsafe { fill(template, &self.values, econtext) };
        let sql = fill(&self.plan.sql)?;
        lake::require_configured()?;
        if self.plan.locks || self.plan.is_target {
            txn::lock_table(&self.plan.table);
        }
        session::ensure_connected()?;
        allocator::keep_buffers(KEPT_BUFFER_BYTES);
        let scope = self.scope();
        let shortcut = match &self.plan.shortcut {
            // What a transaction has written itself is read as it always was.
            Some(shortcut) if scope != Scope::Write => {
                Some(Shortcut { unless: fill(&shortcut.unless)?, sql: fill(&shortcut.sql)? })
            }
            _ => None,
        };
        self.decoder = StreamDecoder::new();
        let stream = session::with(|s| {
            s.refuse_doomed()?;
            s.txn.used = true;
            if xact::uses_one_snapshot() {
                s.note_head(&self.plan.table)?;
            }
            let stream = s.new_stream();
            let release = s.take_released();
            let request = Query { stream, scope, sql, shortcut, release };
            let call =
                |c: &mut crate::client::Connection| c.call(Kind::Query, Kind::Schema, &request, Interrupts::Serve);
            let frame = if scope == Scope::Write { s.write_call(call)? } else { call(s.connection()?)? };
            let mut buffer = Buffer::from_vec(frame.payload);
            self.decoder.decode(&mut buffer).map_err(|e| unreadable(&e))?;
            Ok(stream)
        })?;
        self.stream = Some(stream);
        Ok(())
    }

    /// Fetches the next batch; false at the end.
    fn fetch(&mut self) -> Result<bool> {
        let Some(stream) = self.stream else { return Ok(false) };
        self.batch = None;
        let frame = session::with(|s| s.fetch(stream))?;
        if frame.kind == Kind::End {
            self.stream = None;
            self.at_end = true;
            let end: End = decode(&frame)?;
            self.delivered.files += end.files.unwrap_or(0);
            self.delivered.shortcut = Some(end.shortcut || self.delivered.shortcut == Some(true));
            self.delivered.files_known |= end.files.is_some();
            return Ok(false);
        }
        self.delivered.bytes += frame.payload.len() as u64;
        let mut buffer = Buffer::from_vec(frame.payload);
        let Some(batch) = self.decoder.decode(&mut buffer).map_err(|e| unreadable(&e))? else {
            return Err(Error::EngineLost { cause: "The engine sent a batch without rows.".into() });
        };
        self.delivered.rows += batch.num_rows() as u64;
        // SAFETY: nothing of the previous batch is referenced any more: its rows were consumed.
        unsafe { self.batch_context.reset() };
        let plan = &self.plan;
        // SAFETY: the context lives as long as this state.
        self.batch = Some(unsafe { self.batch_context.switch_to(|_| convert(plan, &batch)) }?);
        Ok(true)
    }

    /// The next row into `slot`; false at the end.
    fn next(&mut self, slot: *mut pg_sys::TupleTableSlot, econtext: *mut pg_sys::ExprContext) -> Result<bool> {
        if self.at_end {
            return Ok(false);
        }
        if self.stream.is_none() {
            self.open(econtext)?;
            if self.at_end {
                return Ok(false);
            }
        }
        while self.batch.as_ref().is_none_or(|batch| batch.next >= batch.rows) {
            if !self.fetch()? {
                return Ok(false);
            }
        }
        if let Some(batch) = &mut self.batch {
            // SAFETY: the slot belongs to the node; its arrays have one entry for each attribute of its descriptor.
            unsafe { store(batch, slot) };
            batch.next += 1;
        }
        Ok(true)
    }
}

/// Stores the batch's present row as a virtual tuple.
///
/// # Safety
/// The slot's descriptor has all attributes that the batch fills.
unsafe fn store(batch: &Batch, slot: *mut pg_sys::TupleTableSlot) {
    let row = batch.next;
    // SAFETY: the caller's promise.
    unsafe {
        let natts = (*(*slot).tts_tupleDescriptor).natts as usize;
        let values = std::slice::from_raw_parts_mut((*slot).tts_values, natts);
        let nulls = std::slice::from_raw_parts_mut((*slot).tts_isnull, natts);
        nulls.fill(true);
        for (attribute, column) in &batch.columns {
            values[*attribute] = column.datums[row];
            nulls[*attribute] = column.nulls.get(row).copied().unwrap_or(false);
        }
        pg_sys::ExecStoreVirtualTuple(slot);
        if let Some(id) = batch.row_ids.get(row) {
            (*slot).tts_tid = rowid::to_item_pointer(*id);
        }
    }
}

/// Turns a batch into columns of datums.
fn convert(plan: &ScanPlan, batch: &RecordBatch) -> Result<Batch> {
    let mut source = batch.columns().iter();
    let mut missing =
        || source.next().ok_or_else(|| Error::EngineLost { cause: "The engine sent too few columns.".into() });
    let mut columns = Vec::with_capacity(plan.outputs.len());
    for output in &plan.outputs {
        match output {
            Output::Column { attribute, ty, typmod, name } => {
                columns.push((*attribute as usize - 1, read::column(missing()?, *ty, *typmod, name)?));
            }
            Output::Average { attribute, scale, name } => {
                let sums = read::column(missing()?, ColumnType::Numeric { precision: 38, scale: *scale }, -1, name)?;
                let counts = read::column(missing()?, ColumnType::Int8, -1, name)?;
                columns.push((*attribute as usize - 1, io::averages(sums, &counts)));
            }
        }
    }
    let row_ids = if plan.with_row_ids { rowid::of_batch(missing()?, missing()?)? } else { Vec::new() };
    Ok(Batch { rows: batch.num_rows(), next: 0, columns, row_ids })
}

/// Renders a template with the values its expressions have now.
///
/// # Safety
/// `values` were initialised for the node whose context is given.
unsafe fn fill(
    template: &Template,
    values: &[*mut pg_sys::ExprState],
    econtext: *mut pg_sys::ExprContext,
) -> Result<String> {
    let mut sql = String::new();
    for piece in &template.0 {
        match piece {
            Piece::Text(text) => sql.push_str(text),
            Piece::Value(n, ty) => {
                // SAFETY: the caller's promise.
                let (datum, null) = unsafe { evaluate(values[*n], econtext) };
                if null {
                    sql.push_str(&format!("CAST(NULL AS {})", ty.storage_type()));
                } else {
                    // SAFETY: the planner chose the type by the expression's own.
                    sql.push_str(&unsafe { literal::render(*ty, datum) }.ok_or_else(unrenderable)?);
                }
            }
            Piece::Values(n, ty) => {
                // SAFETY: the caller's promise.
                let (datum, null) = unsafe { evaluate(values[*n], econtext) };
                let elements = if null {
                    // NULL for the array makes the whole test unknown, as one NULL element does for what is not found.
                    vec![None]
                } else {
                    // SAFETY: the expression is an array of the element type.
                    unsafe { io::array_elements(datum) }
                };
                sql.push_str(&list(&elements, *ty)?);
            }
        }
    }
    Ok(sql)
}

/// `(a, b, NULL)`; an empty list is a sub-select without rows, because the engine has no `()`.
fn list(elements: &[Option<Datum>], ty: ColumnType) -> Result<String> {
    if elements.is_empty() {
        return Ok(format!("(SELECT CAST(NULL AS {}) WHERE FALSE)", ty.storage_type()));
    }
    let mut items = Vec::with_capacity(elements.len());
    for element in elements {
        items.push(match element {
            // SAFETY: elements have the type the planner chose.
            Some(datum) => unsafe { literal::render(ty, *datum) }.ok_or_else(unrenderable)?,
            None => format!("CAST(NULL AS {})", ty.storage_type()),
        });
    }
    Ok(format!("({})", items.join(", ")))
}

unsafe fn evaluate(state: *mut pg_sys::ExprState, econtext: *mut pg_sys::ExprContext) -> (Datum, bool) {
    let mut is_null = false;
    // SAFETY: the state was made by ExecInitExpr for this context; results live in its per-tuple memory until the reset
    // that comes with the next row, after the SQL text was made.
    unsafe {
        let evaluate = (*state).evalfunc.expect("an initialised expression has an evaluator");
        let datum = evaluate(state, econtext, &raw mut is_null);
        (datum, is_null)
    }
}

fn unrenderable() -> Error {
    Error::value(
        sqlstate::FEATURE_NOT_SUPPORTED,
        "coldfront: a query parameter has a value that the engine cannot take",
    )
}

fn unreadable(error: &arrow_schema::ArrowError) -> Error {
    Error::EngineLost { cause: format!("The engine's rows could not be read: {error}.") }
}

/// The state of a node.
///
/// # Safety
/// `node` went through [`begin`] and was not started for EXPLAIN only.
pub unsafe fn state<'a>(node: *mut pg_sys::ForeignScanState) -> Option<&'a mut Scan> {
    // SAFETY: fdw_state is null or points at the state that `begin` leaked into the executor's context.
    unsafe { (*node).fdw_state.cast::<Scan>().as_mut() }
}

/// The plan of a node.
///
/// # Safety
/// `node` is a foreign scan of this wrapper.
pub unsafe fn plan_of(node: *mut pg_sys::ForeignScanState) -> ScanPlan {
    // SAFETY: the private list was packed by `paths::plan` or `upper::plan`.
    unsafe { private::unpack((*(*node).ss.ps.plan.cast::<pg_sys::ForeignScan>()).fdw_private) }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn begin(node: *mut pg_sys::ForeignScanState, eflags: i32) {
    if eflags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as i32 != 0 {
        return;
    }
    // SAFETY: the executor passes a valid node; the state is dropped with the executor's memory context.
    unsafe {
        let estate = (*node).ss.ps.state;
        let scan = (*node).ss.ps.plan.cast::<pg_sys::ForeignScan>();
        let states = pg_sys::ExecInitExprList((*scan).fdw_exprs, node.cast());
        let values = PgList::<pg_sys::ExprState>::from_pg(states).iter_ptr().collect();
        let mut context = PgMemoryContexts::For((*estate).es_query_cxt);
        let batch_context = PgMemoryContexts::For(pg_sys::AllocSetContextCreateInternal(
            (*estate).es_query_cxt,
            c"coldfront batch".as_ptr(),
            pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        ));
        let state = Scan {
            plan: plan_of(node),
            values,
            estate: estate as usize,
            snapshot: join_snapshot(estate as usize),
            stream: None,
            decoder: StreamDecoder::new(),
            batch: None,
            at_end: false,
            delivered: Delivered::default(),
            batch_context,
        };
        (*node).fdw_state = context.leak_and_drop_on_delete(state).cast();
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn iterate(node: *mut pg_sys::ForeignScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: `begin` made the state; slot and context belong to the node.
    unsafe {
        let slot = (*node).ss.ss_ScanTupleSlot;
        pg_sys::ExecClearTuple(slot);
        if let Some(scan) = state(node) {
            let more = scan.next(slot, (*node).ss.ps.ps_ExprContext);
            more.map_err(|e| e.on_relation(&scan.plan.relation)).or_raise();
        }
        slot
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::ForeignScanState) {
    // SAFETY: `begin` made the state.
    if let Some(scan) = unsafe { state(node) } {
        scan.close_stream();
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn end(node: *mut pg_sys::ForeignScanState) {
    // SAFETY: `begin` made the state; it is dropped with its memory context.
    if let Some(scan) = unsafe { state(node) } {
        scan.close_stream();
    }
}
