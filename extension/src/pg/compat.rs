//! The only place that knows PostgreSQL's major versions.

#![allow(unsafe_code)]

use pgrx::pg_sys;

/// `create_foreignscan_path` without lateral references, outer path and restriction list.
///
/// # Safety
/// Valid planner nodes.
pub unsafe fn create_foreignscan_path(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    target: *mut pg_sys::PathTarget,
    rows: f64,
    startup_cost: f64,
    total_cost: f64,
    fdw_private: *mut pg_sys::List,
) -> *mut pg_sys::ForeignPath {
    // SAFETY: the caller's promise.
    unsafe {
        pg_sys::create_foreignscan_path(
            root,
            rel,
            target,
            rows,
            #[cfg(feature = "pg18")]
            0,
            startup_cost,
            total_cost,
            std::ptr::null_mut(),
            (*rel).lateral_relids,
            std::ptr::null_mut(),
            #[cfg(any(feature = "pg17", feature = "pg18"))]
            std::ptr::null_mut(),
            fdw_private,
        )
    }
}

/// `create_foreign_upper_path` without order.
///
/// # Safety
/// Valid planner nodes.
pub unsafe fn create_foreign_upper_path(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    target: *mut pg_sys::PathTarget,
    rows: f64,
    startup_cost: f64,
    total_cost: f64,
    fdw_private: *mut pg_sys::List,
) -> *mut pg_sys::ForeignPath {
    // SAFETY: the caller's promise.
    unsafe {
        pg_sys::create_foreign_upper_path(
            root,
            rel,
            target,
            rows,
            #[cfg(feature = "pg18")]
            0,
            startup_cost,
            total_cost,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            #[cfg(any(feature = "pg17", feature = "pg18"))]
            std::ptr::null_mut(),
            fdw_private,
        )
    }
}
