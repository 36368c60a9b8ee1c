//! What a collation means for the engine, which compares text byte by byte.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;

use pgrx::pg_sys;

thread_local! {
    static BYTEWISE: RefCell<HashMap<u32, bool>> = RefCell::new(HashMap::new());
}

/// Whether equality under the collation is equality of bytes.
pub fn is_deterministic(collation: pg_sys::Oid) -> bool {
    // SAFETY: a syscache look-up; an invalid collation means that the operator takes none.
    collation == pg_sys::InvalidOid || unsafe { pg_sys::get_collation_isdeterministic(collation) }
}

/// Whether the order of the collation is the order of UTF-8 bytes: C, POSIX and the code-point locales.
pub fn is_bytewise(collation: pg_sys::Oid) -> bool {
    let key = collation.to_u32();
    if collation == pg_sys::C_COLLATION_OID {
        return true;
    }
    if let Some(known) = BYTEWISE.with_borrow(|cache| cache.get(&key).copied()) {
        return known;
    }
    let answer = if collation == pg_sys::DEFAULT_COLLATION_OID {
        database_is_bytewise()
    } else {
        collation_is_bytewise(collation)
    };
    BYTEWISE.with_borrow_mut(|cache| cache.insert(key, answer));
    answer
}

/// Provider `b` (builtin) orders by code point in all its locales.
fn locale_is_bytewise(provider: u8, locale: &str) -> bool {
    provider == b'b' || (provider == b'c' && matches!(locale, "C" | "POSIX" | "C.UTF-8" | "C.utf8"))
}

fn database_is_bytewise() -> bool {
    // SAFETY: the tuple is pinned until ReleaseSysCache; attributes are read by their catalogue numbers.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(
            pg_sys::SysCacheIdentifier::DATABASEOID as i32,
            pg_sys::Datum::from(pg_sys::MyDatabaseId),
        );
        if tuple.is_null() {
            return false;
        }
        let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
        let provider = (*form).datlocprovider as u8;
        let collate = attribute_text(
            pg_sys::SysCacheIdentifier::DATABASEOID as i32,
            tuple,
            pg_sys::Anum_pg_database_datcollate as i16,
        );
        pg_sys::ReleaseSysCache(tuple);
        locale_is_bytewise(provider, &collate)
    }
}

fn collation_is_bytewise(collation: pg_sys::Oid) -> bool {
    // SAFETY: as in `database_is_bytewise`.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::COLLOID as i32, pg_sys::Datum::from(collation));
        if tuple.is_null() {
            return false;
        }
        let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_collation>();
        let provider = (*form).collprovider as u8;
        let collate = attribute_text(
            pg_sys::SysCacheIdentifier::COLLOID as i32,
            tuple,
            pg_sys::Anum_pg_collation_collcollate as i16,
        );
        pg_sys::ReleaseSysCache(tuple);
        locale_is_bytewise(provider, &collate)
    }
}

/// # Safety
/// `tuple` is a pinned tuple of cache `cache`, `attribute` a text attribute of it.
unsafe fn attribute_text(cache: i32, tuple: pg_sys::HeapTuple, attribute: i16) -> String {
    // SAFETY: the caller's promise.
    unsafe {
        let mut is_null = false;
        let datum = pg_sys::SysCacheGetAttr(cache, tuple, attribute, &raw mut is_null);
        if is_null { String::new() } else { super::io::with_text(datum, str::to_owned) }
    }
}
