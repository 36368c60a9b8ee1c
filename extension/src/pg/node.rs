//! Making, copying and listing PostgreSQL's parse and plan nodes.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char};

use pgrx::{PgList, is_a, pg_sys};

/// A zeroed node in the current memory context.
///
/// # Safety
/// `T` is the struct that `tag` names.
pub unsafe fn make<T>(tag: pg_sys::NodeTag) -> *mut T {
    // SAFETY: zeroes are a valid state of every node struct, and its first field is the tag.
    unsafe {
        let node = pg_sys::palloc0(size_of::<T>()).cast::<T>();
        *node.cast::<pg_sys::NodeTag>() = tag;
        node
    }
}

/// A deep copy.
///
/// # Safety
/// `node` is null or a node.
pub unsafe fn copy<T>(node: *mut T) -> *mut T {
    // SAFETY: the caller's promise.
    unsafe { pg_sys::copyObjectImpl(node.cast()).cast() }
}

/// The node as `T` if it has the tag.
///
/// # Safety
/// `node` is null or a node, and `T` is the struct that `tag` names.
pub unsafe fn cast<T, N>(node: *mut N, tag: pg_sys::NodeTag) -> Option<*mut T> {
    // SAFETY: the caller's promise.
    unsafe { (!node.is_null() && is_a(node.cast(), tag)).then_some(node.cast()) }
}

/// Members of a list of pointers.
///
/// # Safety
/// `list` is null or a list of pointers to `T`.
pub unsafe fn members<T>(list: *mut pg_sys::List) -> Vec<*mut T> {
    // SAFETY: the caller's promise.
    unsafe { PgList::<T>::from_pg(list).iter_ptr().collect() }
}

/// A list of pointers.
pub fn list<T>(items: impl IntoIterator<Item = *mut T>) -> *mut pg_sys::List {
    let mut out = PgList::<T>::new();
    for item in items {
        out.push(item);
    }
    out.into_pg()
}

/// A list of integers.
pub fn int_list(items: impl IntoIterator<Item = i32>) -> *mut pg_sys::List {
    // SAFETY: starts with NIL and appends.
    items.into_iter().fold(std::ptr::null_mut(), |list, item| unsafe { pg_sys::lappend_int(list, item) })
}

/// A list of OIDs.
pub fn oid_list(items: impl IntoIterator<Item = pg_sys::Oid>) -> *mut pg_sys::List {
    // SAFETY: starts with NIL and appends.
    items.into_iter().fold(std::ptr::null_mut(), |list, item| unsafe { pg_sys::lappend_oid(list, item) })
}

/// A palloc'd C string.
pub fn c_string(text: &str) -> *mut c_char {
    let text = CString::new(text).expect("names and SQL text have no NUL");
    // SAFETY: a valid C string.
    unsafe { pg_sys::pstrdup(text.as_ptr()) }
}
