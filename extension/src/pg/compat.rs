//! The only place that knows PostgreSQL's major versions.

#![allow(unsafe_code)]

use pgrx::pg_sys;

/// The n-th attribute of a descriptor, counted from zero.
///
/// # Safety
/// A valid descriptor that has the attribute.
pub unsafe fn attribute(descriptor: pg_sys::TupleDesc, at: i32) -> pg_sys::Form_pg_attribute {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(feature = "pg18")]
        return pg_sys::TupleDescAttr(descriptor, at);
        #[cfg(not(feature = "pg18"))]
        return (*descriptor).attrs.as_mut_ptr().add(at as usize);
    }
}

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

/// Whether a column in RETURNING means the row before the change (`old.c`, PostgreSQL 18).
///
/// # Safety
/// `var` is a Var.
pub unsafe fn is_old(var: *mut pg_sys::Var) -> bool {
    #[cfg(feature = "pg18")]
    // SAFETY: the caller's promise.
    return unsafe { (*var).varreturningtype == pg_sys::VarReturningType::VAR_RETURNING_OLD };
    #[cfg(not(feature = "pg18"))]
    {
        let _ = var;
        false
    }
}

/// The names for `old` and `new` in RETURNING (PostgreSQL 18).
///
/// # Safety
/// Both are Query nodes.
pub unsafe fn copy_returning_aliases(from: *mut pg_sys::Query, to: *mut pg_sys::Query) {
    #[cfg(feature = "pg18")]
    // SAFETY: the caller's promise.
    unsafe {
        (*to).returningOldAlias = (*from).returningOldAlias;
        (*to).returningNewAlias = (*from).returningNewAlias;
    }
    #[cfg(not(feature = "pg18"))]
    let _ = (from, to);
}

/// Runs a statement to its end.
///
/// # Safety
/// The executor was started.
pub unsafe fn executor_run(description: *mut pg_sys::QueryDesc) {
    // SAFETY: the caller's promise.
    unsafe {
        pg_sys::ExecutorRun(
            description,
            pg_sys::ScanDirection::ForwardScanDirection,
            0,
            #[cfg(not(feature = "pg18"))]
            true,
        );
    }
}

/// The query with its GROUP BY expressions in place of references to a range table entry of their own (PostgreSQL 18).
///
/// # Safety
/// A Query, which is changed.
pub unsafe fn flatten_groups(query: *mut pg_sys::Query) -> Option<*mut pg_sys::Query> {
    #[cfg(feature = "pg18")]
    // SAFETY: the caller's promise; the entry for groups is the last one, as the parser makes it.
    unsafe {
        if (*query).hasGroupRTE {
            let last = (*(*query).rtable).length - 1;
            let entry = pg_sys::list_nth((*query).rtable, last).cast::<pg_sys::RangeTblEntry>();
            if (*entry).rtekind != pg_sys::RTEKind::RTE_GROUP {
                return None;
            }
            let root = std::ptr::null_mut();
            (*query).targetList = pg_sys::flatten_group_exprs(root, query, (*query).targetList.cast()).cast();
            (*query).havingQual = pg_sys::flatten_group_exprs(root, query, (*query).havingQual);
            (*query).hasGroupRTE = false;
            (*query).rtable = pg_sys::list_truncate((*query).rtable, last);
        }
    }
    Some(query)
}
