//! COPY FROM into a tiered view: PostgreSQL's own reader makes the rows, and one INSERT takes each to its tier.

#![allow(unsafe_code)]

use coldfront_common::quote;
use pgrx::pg_sys;

use super::copy;
use crate::{
    error::{Error, OrRaise, Result},
    pg::{catalog, executor, node, privilege},
    tier::Tiered,
};

/// Name by which the INSERT reads the rows; it stands for nothing in the catalogue.
const ROWS: &str = "coldfront copied rows";

unsafe extern "C-unwind" {
    /// `commands/copy.h`, without the guard of the generated binding: PostgreSQL calls it.
    fn CopyFromErrorCallback(reader: *mut std::ffi::c_void);
}

/// A COPY to be run.
pub struct CopyRows {
    statement: *mut pg_sys::CopyStmt,
    tiered: Tiered,
    /// Whose privileges the INSERT uses; the caller's were checked.
    user: pg_sys::Oid,
}

/// Ends the reader's share in error messages, also by unwinding.
struct ErrorContext {
    previous: *mut pg_sys::ErrorContextCallback,
}

impl Drop for ErrorContext {
    fn drop(&mut self) {
        // SAFETY: puts back what was there.
        unsafe { pg_sys::error_context_stack = self.previous };
    }
}

impl CopyRows {
    /// Takes over a COPY FROM. Checks what PostgreSQL would check for a table.
    ///
    /// # Safety
    /// `statement` is a CopyStmt that copies into the view.
    pub unsafe fn new(statement: *mut pg_sys::CopyStmt, tiered: Tiered) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe {
            let user = copy::user_for_insert(statement, tiered.view).unwrap_or_else(privilege::current_user);
            for option in node::members::<pg_sys::DefElem>((*statement).options) {
                let name = catalog::text((*option).defname);
                if matches!(name.as_str(), "freeze" | "on_error" | "log_verbosity" | "reject_limit") {
                    return Err(tiered.refused(
                        &format!("the COPY option {} does not work", name.to_uppercase()),
                        "Leave it out, or copy into a temporary table first.",
                    ));
                }
            }
            Ok(Self { statement, tiered, user })
        }
    }

    /// Runs it; returns the number of rows.
    pub fn run(&self, query_string: *const std::ffi::c_char) -> u64 {
        // SAFETY: the relation stays open and locked while it is read for; what is allocated belongs to the statement.
        unsafe {
            let hot = pg_sys::table_open(self.tiered.hot.relation, pg_sys::RowExclusiveLock as i32);
            let store = pg_sys::tuplestore_begin_heap(false, false, pg_sys::work_mem);
            self.read(hot, store, query_string).or_raise();
            let rows = privilege::as_user(self.user, || self.insert(hot, store));
            pg_sys::tuplestore_end(store);
            pg_sys::table_close(hot, pg_sys::NoLock as i32);
            rows
        }
    }

    /// Columns of the view that are stored as given, with the hot table's names.
    unsafe fn columns(&self, hot: pg_sys::Relation) -> Vec<(String, String)> {
        // SAFETY: the relation is open.
        unsafe {
            let shown = catalog::column_names(self.tiered.view);
            shown
                .into_iter()
                .zip(&self.tiered.hot.attributes)
                .filter_map(|(view, attribute)| {
                    let column = crate::pg::compat::attribute((*hot).rd_att, i32::from(*attribute) - 1);
                    ((*column).attgenerated == 0).then(|| (view, catalog::text((*column).attname.data.as_ptr())))
                })
                .collect()
        }
    }

    /// Reads all rows, defaults included.
    unsafe fn read(
        &self,
        hot: pg_sys::Relation,
        store: *mut pg_sys::Tuplestorestate,
        query_string: *const std::ffi::c_char,
    ) -> Result<()> {
        // SAFETY: arrays have an entry for each attribute; the callback is removed before its argument goes.
        unsafe {
            let parse = pg_sys::make_parsestate(std::ptr::null_mut());
            (*parse).p_sourcetext = query_string;
            let reader = pg_sys::BeginCopyFrom(
                parse,
                hot,
                std::ptr::null_mut(),
                (*self.statement).filename,
                (*self.statement).is_program,
                None,
                self.listed(hot)?,
                (*self.statement).options,
            );
            let estate = pg_sys::CreateExecutorState();
            let context = pg_sys::MakePerTupleExprContext(estate);
            let row_memory = (*context).ecxt_per_tuple_memory;
            let natts = (*(*hot).rd_att).natts as usize;
            let (mut values, mut nulls) = (vec![pg_sys::Datum::from(0); natts], vec![true; natts]);
            let mut callback = pg_sys::ErrorContextCallback {
                previous: pg_sys::error_context_stack,
                callback: Some(CopyFromErrorCallback),
                arg: reader.cast(),
            };
            let ended = ErrorContext { previous: pg_sys::error_context_stack };
            pg_sys::error_context_stack = &raw mut callback;
            loop {
                pgrx::check_for_interrupts!();
                pg_sys::MemoryContextReset(row_memory);
                let before = pg_sys::MemoryContextSwitchTo(row_memory);
                let more = pg_sys::NextCopyFrom(reader, context, values.as_mut_ptr(), nulls.as_mut_ptr());
                pg_sys::MemoryContextSwitchTo(before);
                if !more {
                    break;
                }
                pg_sys::tuplestore_putvalues(store, (*hot).rd_att, values.as_ptr(), nulls.as_ptr());
            }
            drop(ended);
            pg_sys::EndCopyFrom(reader);
            pg_sys::FreeExecutorState(estate);
            Ok(())
        }
    }

    /// The statement's column list, in the hot table's names.
    unsafe fn listed(&self, hot: pg_sys::Relation) -> Result<*mut pg_sys::List> {
        // SAFETY: the list holds String nodes.
        unsafe {
            let given = copy::names((*self.statement).attlist);
            let columns = self.columns(hot);
            if given.is_empty() {
                return Ok(node::list(columns.iter().map(|(_, name)| pg_sys::makeString(node::c_string(name)))));
            }
            let mut out = Vec::new();
            for name in given {
                let stored = columns.iter().find(|(view, _)| *view == name).map_or(&name, |(_, stored)| stored);
                out.push(pg_sys::makeString(node::c_string(stored)));
            }
            Ok(node::list(out))
        }
    }

    /// Inserts what was read.
    unsafe fn insert(&self, hot: pg_sys::Relation, store: *mut pg_sys::Tuplestorestate) -> u64 {
        // SAFETY: the nodes belong to this statement; the named relation lives as long as the query that reads it.
        unsafe {
            let columns = self.columns(hot);
            let list = |names: Vec<&String>| names.into_iter().map(|n| quote::ident(n)).collect::<Vec<_>>().join(", ");
            let (schema, name) = catalog::schema_and_name(self.tiered.view);
            let sql = node::c_string(&format!(
                "INSERT INTO {}.{} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {}",
                quote::ident(&schema),
                quote::ident(&name),
                list(columns.iter().map(|(view, _)| view).collect()),
                list(columns.iter().map(|(_, stored)| stored).collect()),
                quote::ident(ROWS),
            ));
            let raw = copy::parse(sql);
            let insert = (*raw).stmt.cast::<pg_sys::InsertStmt>();
            (*(*insert).selectStmt.cast::<pg_sys::SelectStmt>()).whereClause =
                node::copy((*self.statement).whereClause);
            let environment = pg_sys::create_queryEnv();
            pg_sys::register_ENR(environment, self.named_rows(store));
            let queries = pg_sys::pg_analyze_and_rewrite_fixedparams(raw, sql, std::ptr::null(), 0, environment);
            let [query] = node::members::<pg_sys::Query>(queries)[..] else {
                Error::value(
                    "0A000",
                    format!("coldfront: {} has rules, which COPY does not follow", self.tiered.name()),
                )
                .raise()
            };
            let planned = pg_sys::pg_plan_query(query, sql, 0, std::ptr::null_mut());
            executor::run(planned, sql, environment)
        }
    }

    /// The rows under a name that the INSERT reads them by.
    unsafe fn named_rows(&self, store: *mut pg_sys::Tuplestorestate) -> pg_sys::EphemeralNamedRelation {
        // SAFETY: zeroes are valid, and every field that is read is set.
        unsafe {
            let relation = pg_sys::palloc0(size_of::<pg_sys::EphemeralNamedRelationData>())
                .cast::<pg_sys::EphemeralNamedRelationData>();
            (*relation).md.name = node::c_string(ROWS);
            (*relation).md.reliddesc = self.tiered.hot.relation;
            (*relation).md.enrtype = pg_sys::EphemeralNameRelationType::ENR_NAMED_TUPLESTORE;
            (*relation).md.enrtuples = pg_sys::tuplestore_tuple_count(store) as f64;
            (*relation).reldata = store.cast();
            relation
        }
    }
}
