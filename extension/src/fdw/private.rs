//! What the planner hands to the executor: a serialisable value in a String node, so that plans can be copied and cached.

#![allow(unsafe_code)]

use std::ffi::CString;

use coldfront_common::{ident::TableRef, types::ColumnType};
use pgrx::{PgList, pg_sys};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::template::Template;

/// How one slot attribute is made from the engine's result columns, which come in the order of the outputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// One result column.
    Column { attribute: i16, ty: ColumnType, typmod: i32, name: String },
    /// Two result columns, sum and count, that make PostgreSQL's `avg`.
    Average { attribute: i16, scale: i8, name: String },
}

/// A statement with fewer conditions, for when the data fulfils the others: `unless` has no row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortcut {
    pub unless: Template,
    pub sql: Template,
}

/// A scan as planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanPlan {
    pub table: TableRef,
    /// The user's relation, for messages.
    pub relation: String,
    pub sql: Template,
    pub shortcut: Option<Shortcut>,
    pub outputs: Vec<Output>,
    /// Two more result columns follow the outputs: file name and row number.
    pub with_row_ids: bool,
    /// The relation is the target of the statement, so the scan sees what the write will see.
    pub is_target: bool,
    /// The scan takes the table's write lock (FOR UPDATE and its kin).
    pub locks: bool,
    /// The executor's value that tells whether the scan can have a row at all; without it the engine is always asked.
    pub condition: Option<usize>,
}

/// Puts a value into a plan's private list.
pub fn pack<T: Serialize>(value: &T) -> *mut pg_sys::List {
    let json = serde_json::to_string(value).expect("plan values always serialise");
    let text = CString::new(json).expect("JSON has no NUL");
    let mut list = PgList::<pg_sys::Node>::new();
    // SAFETY: the string is copied into the current memory context, which owns the plan.
    list.push(unsafe { pg_sys::makeString(pg_sys::pstrdup(text.as_ptr())) }.cast());
    list.into_pg()
}

/// Takes a value out of a plan's private list.
///
/// # Safety
/// `list` was made by [`pack`] from the same type.
pub unsafe fn unpack<T: DeserializeOwned>(list: *mut pg_sys::List) -> T {
    // SAFETY: the caller's promise; the first member is a String node.
    let text = unsafe {
        let node = PgList::<pg_sys::String>::from_pg(list).get_ptr(0).expect("private list has one member");
        std::ffi::CStr::from_ptr((*node).sval).to_bytes()
    };
    serde_json::from_slice(text).expect("private list was made by pack")
}
