//! The write lock of a cold table on one node: a transaction-scoped advisory lock.

#![allow(unsafe_code)]

use pgrx::{IntoDatum, pg_sys};

/// Takes the advisory lock with `key` for the rest of the transaction. Waits, and the wait can be interrupted.
pub fn advisory_xact(key: i64) {
    // SAFETY: the function takes one int8 and returns void.
    unsafe {
        pgrx::direct_function_call::<()>(pg_sys::pg_advisory_xact_lock_int8, &[key.into_datum()]);
    }
}

/// Key of a table's lock: `hashtextextended('coldfront_iceberg:' || ref, 0)`, so that SQL can name the same lock.
pub fn key_of(table_ref: &str) -> i64 {
    let text = format!("coldfront_iceberg:{table_ref}");
    // SAFETY: the function takes text and int8 under a collation and returns int8.
    unsafe {
        let datum = pg_sys::OidFunctionCall2Coll(
            pg_sys::Oid::from(pg_sys::F_HASHTEXTEXTENDED),
            pg_sys::C_COLLATION_OID,
            text.into_datum().unwrap_or(pg_sys::Datum::null()),
            0i64.into_datum().unwrap_or(pg_sys::Datum::null()),
        );
        datum.value() as i64
    }
}
