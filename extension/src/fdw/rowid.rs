//! Row identity: the file and the position in it, carried through the executor as a `ctid`.
//!
//! A ctid has 48 bits: 20 for a file's number in this transaction, 28 for the row's position in the file.
//! The numbers mean nothing outside the transaction.

#![allow(unsafe_code)]

use std::{cell::RefCell, collections::HashMap};

use arrow_array::{Array, ArrayRef, cast::AsArray, types::Int64Type};
use coldfront_common::sqlstate;
use pgrx::pg_sys;

use crate::error::{Error, Result};

const POSITION_BITS: u32 = 28;
const FILES_MAX: usize = 1 << 20;

#[derive(Default)]
struct Files {
    names: Vec<String>,
    numbers: HashMap<String, u64>,
}

thread_local! {
    static FILES: RefCell<Files> = RefCell::new(Files::default());
}

/// Forgets all files, at the end of a transaction.
pub fn reset() {
    FILES.with_borrow_mut(|files| *files = Files::default());
}

/// Identities of the rows of a batch, from its file name and row number columns.
pub fn of_batch(names: &ArrayRef, positions: &ArrayRef) -> Result<Vec<u64>> {
    let positions = positions.as_primitive::<Int64Type>();
    let names = names.as_string::<i32>();
    let mut last: Option<(&str, u64)> = None;
    let mut out = Vec::with_capacity(names.len());
    for i in 0..names.len() {
        let name = names.value(i);
        let number = match last {
            Some((known, number)) if known == name => number,
            _ => number_of(name)?,
        };
        last = Some((name, number));
        let position = positions.value(i) as u64;
        if position >> POSITION_BITS != 0 {
            return Err(too_large(format!("a data file has more than {} rows", 1u64 << POSITION_BITS)));
        }
        out.push(number << POSITION_BITS | position);
    }
    Ok(out)
}

fn number_of(name: &str) -> Result<u64> {
    FILES.with_borrow_mut(|files| {
        if let Some(number) = files.numbers.get(name) {
            return Ok(*number);
        }
        if files.names.len() >= FILES_MAX {
            return Err(too_large(format!("the transaction touches more than {FILES_MAX} data files")));
        }
        let number = files.names.len() as u64;
        files.names.push(name.to_owned());
        files.numbers.insert(name.to_owned(), number);
        Ok(number)
    })
}

fn too_large(what: String) -> Error {
    Error::refused(
        sqlstate::FEATURE_NOT_SUPPORTED,
        format!("coldfront: rows cannot be identified: {what}"),
        "Compact the table, or change it in smaller steps.",
    )
}

/// Calls `f` with the file name and the position behind an identity.
pub fn resolve<T>(id: u64, f: impl FnOnce(&str, i64) -> T) -> T {
    FILES.with_borrow(|files| {
        let name = files.names.get((id >> POSITION_BITS) as usize).map_or("", String::as_str);
        f(name, (id & ((1 << POSITION_BITS) - 1)) as i64)
    })
}

/// Packs an identity into a ctid.
pub fn to_item_pointer(id: u64) -> pg_sys::ItemPointerData {
    pg_sys::ItemPointerData {
        ip_blkid: pg_sys::BlockIdData { bi_hi: (id >> 32) as u16, bi_lo: (id >> 16) as u16 },
        ip_posid: id as u16,
    }
}

/// Unpacks an identity.
///
/// # Safety
/// `pointer` points at a ctid.
pub unsafe fn from_item_pointer(pointer: *const pg_sys::ItemPointerData) -> u64 {
    // SAFETY: the caller's promise.
    let data = unsafe { *pointer };
    u64::from(data.ip_blkid.bi_hi) << 32 | u64::from(data.ip_blkid.bi_lo) << 16 | u64::from(data.ip_posid)
}
