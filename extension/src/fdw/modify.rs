//! INSERT, UPDATE, DELETE and COPY FROM: rows leave the executor as Arrow batches and become one engine statement.
//!
//! UPDATE and DELETE name their rows by file and position. The statement runs in the engine when the node ends, or,
//! for a large INSERT that nothing else in the transaction waits for, while its rows arrive.

#![allow(unsafe_code)]

use std::{collections::HashSet, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use coldfront_common::{
    frame::{BATCH_TARGET_BYTES, Done, Exec, Kind, Scope},
    ident::TableRef,
    quote, sqlstate,
    types::ColumnType,
};
use pgrx::{PgList, PgMemoryContexts, pg_guard, pg_sys};
use serde::{Deserialize, Serialize};

use super::{paths, private, rowid};
use crate::{
    client::{Interrupts, decode},
    convert::write::Column,
    error::{Error, OrRaise, Result},
    lake,
    pg::{catalog, xact},
    session, tier, txn,
};

/// Rows after which a batch is closed however small they are.
const BATCH_ROWS_MAX: usize = 65_536;

/// What a statement does to its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModifyKind {
    Insert,
    Update,
    Delete,
}

/// A modification as planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModifyPlan {
    pub table: TableRef,
    /// The user's relation, for messages.
    pub relation: String,
    pub kind: ModifyKind,
    /// Attributes whose values travel.
    pub columns: Vec<Target>,
    /// The statement may turn out not to concern the relation: its lock is taken by the scan that finds the rows, or with
    /// the first rows that are inserted.
    pub lock_late: bool,
}

/// One column that is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    pub attribute: i16,
    pub ty: ColumnType,
    pub name: String,
}

/// State of one modification, owned by the executor's memory context.
pub struct Modify {
    plan: ModifyPlan,
    columns: Vec<Column>,
    /// Identities of the rows of the present batch (UPDATE, DELETE).
    ids: Vec<u64>,
    /// Every identity so far: a row that is met twice is changed once, as in a heap.
    seen: HashSet<u64>,
    rows_in_batch: usize,
    bytes_in_batch: usize,
    rows: u64,
    input: u64,
    writer: Option<StreamWriter<Vec<u8>>>,
    schema: SchemaRef,
    /// Number of the `Exec` request that reads this input while it arrives.
    streaming: Option<u32>,
    /// No other relation is written by the statement.
    alone: bool,
    ctid_attribute: i16,
    wholerow_attribute: i16,
}

impl Modify {
    fn new(plan: ModifyPlan, alone: bool) -> Self {
        let mut fields = Vec::new();
        if plan.kind != ModifyKind::Insert {
            fields.push(Field::new("f", DataType::Utf8, false));
            fields.push(Field::new("n", DataType::Int64, false));
        }
        let columns = plan.columns.iter().map(|c| Column::new(c.ty, c.name.clone())).collect();
        fields
            .extend(plan.columns.iter().enumerate().map(|(i, c)| Field::new(format!("c{i}"), c.ty.arrow_type(), true)));
        Self {
            columns,
            ids: Vec::new(),
            seen: HashSet::new(),
            rows_in_batch: 0,
            bytes_in_batch: 0,
            rows: 0,
            input: session::with(session::Session::new_input),
            writer: None,
            schema: Arc::new(Schema::new(fields)),
            streaming: None,
            alone,
            ctid_attribute: 0,
            wholerow_attribute: 0,
            plan,
        }
    }

    /// The engine statement that applies the input.
    fn sql(&self) -> String {
        let source = format!("coldfront_input({})", self.input);
        let table = &self.plan.table;
        match self.plan.kind {
            ModifyKind::Insert => {
                let names: Vec<String> = self.plan.columns.iter().map(|c| quote::ident(&c.name)).collect();
                let values: Vec<String> =
                    self.plan.columns.iter().enumerate().map(|(i, c)| c.ty.from_wire(&format!("s.c{i}"))).collect();
                format!("INSERT INTO {table} ({}) SELECT {} FROM {source} AS s", names.join(", "), values.join(", "))
            }
            ModifyKind::Update => {
                let assignments: Vec<String> = self
                    .plan
                    .columns
                    .iter()
                    .enumerate()
                    .map(|(i, c)| format!("{} = {}", quote::ident(&c.name), c.ty.from_wire(&format!("s.c{i}"))))
                    .collect();
                format!(
                    "UPDATE {table} AS t SET {} FROM {source} AS s WHERE t.filename = s.f AND t.file_row_number = s.n",
                    assignments.join(", ")
                )
            }
            ModifyKind::Delete => {
                format!(
                    "DELETE FROM {table} AS t USING {source} AS s WHERE t.filename = s.f AND t.file_row_number = s.n"
                )
            }
        }
    }

    /// Adds the row in `slot`.
    ///
    /// # Safety
    /// The slot has the foreign table's row type.
    unsafe fn add(&mut self, slot: *mut pg_sys::TupleTableSlot) -> Result<()> {
        // SAFETY: all attributes are deformed first; each column reads its own attribute of its own type.
        unsafe {
            let natts = (*(*slot).tts_tupleDescriptor).natts as i16;
            if (*slot).tts_nvalid < natts {
                pg_sys::slot_getsomeattrs_int(slot, i32::from(natts));
            }
            for (target, column) in self.plan.columns.iter().zip(&mut self.columns) {
                let at = target.attribute as usize - 1;
                self.bytes_in_batch += column.append(*(*slot).tts_values.add(at), *(*slot).tts_isnull.add(at))?;
            }
        }
        self.row_added()
    }

    fn row_added(&mut self) -> Result<()> {
        self.rows += 1;
        self.rows_in_batch += 1;
        if self.bytes_in_batch >= BATCH_TARGET_BYTES || self.rows_in_batch >= BATCH_ROWS_MAX {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends the present batch.
    fn flush(&mut self) -> Result<()> {
        if self.writer.is_none() {
            self.open_input()?;
        }
        // An answer before the end of the input can only be an error.
        if let Some(seq) = self.streaming
            && session::with(|s| s.write_call(|c| c.poll(seq, Kind::Done)))?.is_some()
        {
            return Err(Error::EngineLost {
                cause: "The engine ended a statement before its rows had arrived.".into(),
            });
        }
        let batch = self.take_batch()?;
        if let Some(writer) = &mut self.writer {
            writer.write(&batch).map_err(|e| unwritable(&e))?;
            let message = std::mem::take(writer.get_mut());
            session::with(|s| s.connection()?.send_input(Kind::InputData, self.input, &[&message]))?;
        }
        Ok(())
    }

    /// Opens the input, and starts the statement that reads it if that may run while the rows arrive.
    fn open_input(&mut self) -> Result<()> {
        txn::lock_table(&self.plan.table);
        session::ensure_connected()?;
        let may_stream = self.plan.kind == ModifyKind::Insert
            && self.alone
            && !xact::uses_one_snapshot()
            && session::with(|s| s.txn.writes == 0 && s.txn.streaming.is_none());
        let mut writer = StreamWriter::try_new(Vec::new(), &self.schema).map_err(|e| unwritable(&e))?;
        let schema = std::mem::take(writer.get_mut());
        self.writer = Some(writer);
        let sql = self.sql();
        self.streaming = session::with(|s| {
            s.refuse_doomed()?;
            s.txn.used = true;
            let seq = if may_stream {
                let request = Exec { scope: Scope::Write, sql, input: Some(self.input) };
                s.txn.streaming = Some(xact::current_subxact());
                Some(s.connection()?.send(Kind::Exec, &request)?)
            } else {
                None
            };
            s.connection()?.send_input(Kind::InputOpen, self.input, &[&schema])?;
            Ok::<_, Error>(seq)
        })?;
        Ok(())
    }

    fn take_batch(&mut self) -> Result<RecordBatch> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len() + 2);
        if self.plan.kind != ModifyKind::Insert {
            let (names, positions): (Vec<String>, Vec<i64>) =
                self.ids.iter().map(|id| rowid::resolve(*id, |name, position| (name.to_owned(), position))).unzip();
            arrays.push(Arc::new(StringArray::from(names)));
            arrays.push(Arc::new(Int64Array::from(positions)));
        }
        arrays.extend(self.columns.iter_mut().map(Column::finish));
        self.ids.clear();
        self.rows_in_batch = 0;
        self.bytes_in_batch = 0;
        RecordBatch::try_new(self.schema.clone(), arrays).map_err(|e| unwritable(&e))
    }

    /// Completes the statement.
    fn finish(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        if self.rows_in_batch > 0 {
            self.flush()?;
        }
        let sql = self.sql();
        session::with(|s| s.connection()?.send_input(Kind::InputEnd, self.input, &[]))?;
        let seq = match self.streaming {
            Some(seq) => seq,
            None => {
                session::with(|s| s.connection()?.send(Kind::Exec, &Exec { scope: Scope::Write, sql, input: None }))?
            }
        };
        let done = self.await_done(seq)?;
        if done.rows != self.rows {
            return Err(Error::Refused {
                sqlstate: sqlstate::INTERNAL,
                message: format!(
                    "coldfront: relation {}: the engine changed {} of {} rows",
                    self.plan.relation, done.rows, self.rows
                ),
                detail: Some("Another program may have changed the table while this statement ran.".into()),
                hint: Some("Nothing is kept; retry the transaction.".into()),
            });
        }
        Ok(())
    }

    fn await_done(&mut self, seq: u32) -> Result<Done> {
        let table = self.plan.table.clone();
        self.streaming = None;
        session::with(|s| {
            let answer = s.write_call(|c| c.wait(seq, Kind::Done, Interrupts::Serve))?;
            s.txn.streaming = None;
            s.txn.writes += 1;
            s.mark_dirty(&table);
            decode(&answer)
        })
    }
}

fn unwritable(error: &arrow_schema::ArrowError) -> Error {
    Error::Refused {
        sqlstate: sqlstate::INTERNAL,
        message: format!("coldfront: rows could not be encoded: {error}"),
        detail: None,
        hint: None,
    }
}

/// Columns of a relation that take part, in attribute order.
unsafe fn targets(relation: pg_sys::Relation, wanted: impl Fn(i32) -> bool) -> Result<Vec<Target>> {
    // SAFETY: the relation is open; its descriptor is valid while it is.
    unsafe {
        let descriptor = (*relation).rd_att;
        let mut out = Vec::new();
        for i in 0..(*descriptor).natts {
            let attribute = crate::pg::compat::attribute(descriptor, i);
            if (*attribute).attisdropped || !wanted(i + 1) {
                continue;
            }
            let name = catalog::text((*attribute).attname.data.as_ptr());
            let ty = paths::column_type((*attribute).atttypid, (*attribute).atttypmod, (*relation).rd_id, &name)?;
            out.push(Target { attribute: (i + 1) as i16, ty, name });
        }
        Ok(out)
    }
}

/// Adds what identifies a row, and the old row where RETURNING of a DELETE needs it.
#[pg_guard]
pub unsafe extern "C-unwind" fn add_update_targets(
    root: *mut pg_sys::PlannerInfo,
    rtindex: pg_sys::Index,
    _target_rte: *mut pg_sys::RangeTblEntry,
    _target_relation: pg_sys::Relation,
) {
    // SAFETY: the planner passes valid nodes; the vars name attributes every relation has.
    unsafe {
        let ctid = pg_sys::makeVar(
            rtindex as i32,
            pg_sys::SelfItemPointerAttributeNumber as i16,
            pg_sys::TIDOID,
            -1,
            pg_sys::InvalidOid,
            0,
        );
        pg_sys::add_row_identity_var(root, ctid, rtindex, c"ctid".as_ptr());
        let parse = (*root).parse;
        if (*parse).commandType == pg_sys::CmdType::CMD_DELETE && !(*parse).returningList.is_null() {
            let row = pg_sys::makeVar(rtindex as i32, 0, pg_sys::RECORDOID, -1, pg_sys::InvalidOid, 0);
            pg_sys::add_row_identity_var(root, row, rtindex, c"wholerow".as_ptr());
        }
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn plan(
    root: *mut pg_sys::PlannerInfo,
    node: *mut pg_sys::ModifyTable,
    result_relation: pg_sys::Index,
    _subplan_index: i32,
) -> *mut pg_sys::List {
    // SAFETY: valid planner nodes; the relation is locked by the planner.
    unsafe {
        let rte = *(*root).simple_rte_array.add(result_relation as usize);
        let cold = catalog::cold_table((*rte).relid);
        let kind = match (*node).operation {
            pg_sys::CmdType::CMD_INSERT => ModifyKind::Insert,
            pg_sys::CmdType::CMD_UPDATE => ModifyKind::Update,
            pg_sys::CmdType::CMD_DELETE => ModifyKind::Delete,
            _ => Error::refused(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!("coldfront: MERGE into {} is not supported", cold.relation),
                "Use INSERT, UPDATE and DELETE.",
            )
            .raise(),
        };
        let relation = pg_sys::RelationIdGetRelation((*rte).relid);
        let has_triggers = !(*relation).trigdesc.is_null() && (*(*relation).trigdesc).trig_update_before_row;
        let updated =
            if kind == ModifyKind::Update { updated_columns(root, rte, result_relation) } else { std::ptr::null_mut() };
        let columns = targets(relation, |attribute| match kind {
            ModifyKind::Insert => true,
            ModifyKind::Update => {
                has_triggers || pg_sys::bms_is_member(attribute - pg_sys::FirstLowInvalidHeapAttributeNumber, updated)
            }
            ModifyKind::Delete => false,
        });
        pg_sys::RelationClose(relation);
        let lock_late = tier::is_part((*root).parse);
        let plan =
            ModifyPlan { table: cold.table, relation: cold.relation, kind, columns: columns.or_raise(), lock_late };
        private::pack(&plan)
    }
}

/// Columns that an UPDATE assigns, with the generated ones that follow from them.
unsafe fn updated_columns(
    root: *mut pg_sys::PlannerInfo,
    rte: *mut pg_sys::RangeTblEntry,
    relation: pg_sys::Index,
) -> *mut pg_sys::Bitmapset {
    // SAFETY: valid planner nodes; the entry is the target's, so it has permission info.
    unsafe {
        let info = pg_sys::getRTEPermissionInfo((*(*root).parse).rteperminfos, rte);
        let assigned = (*info).updatedCols;
        pg_sys::bms_union(assigned, pg_sys::get_dependent_generated_columns(root, relation, assigned))
    }
}

/// Makes the state and takes the table's lock, before the statement reads anything.
unsafe fn start(
    info: *mut pg_sys::ResultRelInfo,
    estate: *mut pg_sys::EState,
    plan: ModifyPlan,
    alone: bool,
) -> &'static mut Modify {
    // SAFETY: the state is dropped with the executor's memory context.
    unsafe {
        txn::refuse_read_only(&plan.relation);
        lake::require_configured().or_raise();
        session::with(|s| s.refuse_doomed()).or_raise();
        if !plan.lock_late {
            txn::lock_table(&plan.table);
        }
        let state = PgMemoryContexts::For((*estate).es_query_cxt).leak_and_drop_on_delete(Modify::new(plan, alone));
        (*info).ri_FdwState = state.cast();
        &mut *state
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn begin(
    mtstate: *mut pg_sys::ModifyTableState,
    info: *mut pg_sys::ResultRelInfo,
    fdw_private: *mut pg_sys::List,
    _subplan_index: i32,
    eflags: i32,
) {
    if eflags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as i32 != 0 {
        return;
    }
    // SAFETY: valid executor nodes; the private list was packed by `plan`.
    unsafe {
        let plan: ModifyPlan = private::unpack(fdw_private);
        let estate = (*mtstate).ps.state;
        let planned = (*estate).es_plannedstmt;
        let alone =
            planned.is_null() || PgList::<std::ffi::c_void>::from_pg((*planned).resultRelations.cast()).len() <= 1;
        let state = start(info, estate, plan, alone);
        if state.plan.kind != ModifyKind::Insert {
            let subplan = (*(*mtstate).ps.lefttree).plan;
            state.ctid_attribute = pg_sys::ExecFindJunkAttributeInTlist((*subplan).targetlist, c"ctid".as_ptr());
            state.wholerow_attribute =
                pg_sys::ExecFindJunkAttributeInTlist((*subplan).targetlist, c"wholerow".as_ptr());
        }
    }
}

/// COPY FROM and rows routed to a foreign partition.
#[pg_guard]
pub unsafe extern "C-unwind" fn begin_insert(mtstate: *mut pg_sys::ModifyTableState, info: *mut pg_sys::ResultRelInfo) {
    // SAFETY: valid executor nodes with an open relation.
    unsafe {
        let relation = (*info).ri_RelationDesc;
        let cold = catalog::cold_table((*relation).rd_id);
        let columns = targets(relation, |_| true).or_raise();
        let (table, relation) = (cold.table, cold.relation);
        let plan = ModifyPlan { table, relation, kind: ModifyKind::Insert, columns, lock_late: false };
        start(info, (*mtstate).ps.state, plan, true);
    }
}

unsafe fn state<'a>(info: *mut pg_sys::ResultRelInfo) -> Option<&'a mut Modify> {
    // SAFETY: ri_FdwState is null or what `start` put there.
    unsafe { (*info).ri_FdwState.cast::<Modify>().as_mut() }
}

/// NOT NULL and CHECK, which PostgreSQL leaves to the wrapper for foreign tables.
unsafe fn check_constraints(
    info: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    estate: *mut pg_sys::EState,
) {
    // SAFETY: valid executor nodes; the slot holds a row of the relation.
    unsafe {
        if !(*(*(*info).ri_RelationDesc).rd_att).constr.is_null() {
            pg_sys::ExecConstraints(info, slot, estate);
        }
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn exec_insert(
    estate: *mut pg_sys::EState,
    info: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    _plan_slot: *mut pg_sys::TupleTableSlot,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the slot holds a row of the foreign table.
    unsafe {
        if let Some(state) = state(info) {
            check_constraints(info, slot, estate);
            state.add(slot).map_err(|e| e.on_relation(&state.plan.relation)).or_raise();
        }
        slot
    }
}

/// The identity of the row a junk attribute names, unless the statement changed it already.
unsafe fn claim_row(state: &mut Modify, plan_slot: *mut pg_sys::TupleTableSlot) -> Option<u64> {
    // SAFETY: the junk attribute is a ctid made by the scan of this statement.
    unsafe {
        let mut is_null = false;
        let datum = slot_attribute(plan_slot, state.ctid_attribute, &mut is_null);
        if is_null {
            return None;
        }
        let id = rowid::from_item_pointer(datum.cast_mut_ptr());
        state.seen.insert(id).then_some(id)
    }
}

/// `slot_getattr`, which is inline in C.
unsafe fn slot_attribute(slot: *mut pg_sys::TupleTableSlot, attribute: i16, is_null: &mut bool) -> pg_sys::Datum {
    // SAFETY: the attribute exists in the slot's descriptor; it is deformed before it is read.
    unsafe {
        if (*slot).tts_nvalid < attribute {
            pg_sys::slot_getsomeattrs_int(slot, i32::from(attribute));
        }
        let at = attribute as usize - 1;
        *is_null = *(*slot).tts_isnull.add(at);
        *(*slot).tts_values.add(at)
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn exec_update(
    estate: *mut pg_sys::EState,
    info: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    plan_slot: *mut pg_sys::TupleTableSlot,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the slot holds the new row of the foreign table.
    unsafe {
        let Some(state) = state(info) else { return slot };
        let Some(id) = claim_row(state, plan_slot) else { return std::ptr::null_mut() };
        check_constraints(info, slot, estate);
        state.ids.push(id);
        state.bytes_in_batch += 100;
        state.add(slot).map_err(|e| e.on_relation(&state.plan.relation)).or_raise();
        slot
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn exec_delete(
    _estate: *mut pg_sys::EState,
    info: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    plan_slot: *mut pg_sys::TupleTableSlot,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the whole-row attribute, where the plan has it, is a row of the foreign table.
    unsafe {
        let Some(state) = state(info) else { return slot };
        let Some(id) = claim_row(state, plan_slot) else { return std::ptr::null_mut() };
        state.ids.push(id);
        state.bytes_in_batch += 100;
        state.row_added().map_err(|e| e.on_relation(&state.plan.relation)).or_raise();
        if state.wholerow_attribute > 0 {
            let mut is_null = false;
            let row = slot_attribute(plan_slot, state.wholerow_attribute, &mut is_null);
            if !is_null {
                pg_sys::ExecStoreHeapTupleDatum(row, slot);
            }
        }
        slot
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn end(_estate: *mut pg_sys::EState, info: *mut pg_sys::ResultRelInfo) {
    // SAFETY: ri_FdwState is null or what `start` put there.
    if let Some(state) = unsafe { state(info) } {
        state.finish().map_err(|e| e.on_relation(&state.plan.relation)).or_raise();
    }
}
