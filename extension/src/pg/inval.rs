//! Relation cache invalidation, so that cached facts never outlive the catalog rows they came from.

#![allow(unsafe_code)]

use std::sync::OnceLock;

use pgrx::{pg_guard, pg_sys};

static CALLBACK: OnceLock<fn(pg_sys::Oid)> = OnceLock::new();

#[pg_guard]
unsafe extern "C-unwind" fn relation_changed(_arg: pg_sys::Datum, relation: pg_sys::Oid) {
    if let Some(callback) = CALLBACK.get() {
        callback(relation);
    }
}

/// Calls `callback` for every relation cache invalidation (an invalid OID means all). Once per process.
pub fn on_relation_change(callback: fn(pg_sys::Oid)) {
    if CALLBACK.set(callback).is_ok() {
        // SAFETY: the callback is a static function and lives as long as the process.
        unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(relation_changed), pg_sys::Datum::null()) };
    }
}
