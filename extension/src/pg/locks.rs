//! The write lock of a cold table on one node: a transaction-scoped advisory lock of the whole cluster.

#![allow(unsafe_code)]

use pgrx::{IntoDatum, pg_sys};

/// Takes the lock with `key` for the rest of the transaction. Waits, and the wait can be interrupted.
///
/// It is an advisory lock without a database, because the databases of a cluster may share a lake.
pub fn advisory_xact(key: i64) {
    // SAFETY: a complete lock tag; the lock belongs to the transaction and goes with it.
    unsafe {
        let tag = pg_sys::LOCKTAG {
            locktag_field1: 0,
            locktag_field2: (key >> 32) as u32,
            locktag_field3: key as u32,
            // What `lockfuncs.c` stores for locks with one 64-bit key.
            locktag_field4: 1,
            locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
            locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
        };
        pg_sys::LockAcquire(&raw const tag, pg_sys::ExclusiveLock as i32, false, false);
    }
}

/// Key of a table's lock: `hashtextextended('coldfront_iceberg:' || ref, 0)`; `pg_locks` shows its halves.
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
