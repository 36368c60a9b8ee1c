//! FOR UPDATE and its kin on a tiered relation: hot rows are locked, and for cold rows the table's write lock is taken.
//!
//! PostgreSQL does not carry a row lock into a view that is a union.

#![allow(unsafe_code)]

use pgrx::pg_sys;

use super::{quals, view};
use crate::pg::node;

/// Gives both sides of every tiered relation that the query locks the same lock.
///
/// # Safety
/// `query` is a Query of the planner, with its views expanded.
pub unsafe fn push_down(query: *mut pg_sys::Query) {
    // SAFETY: valid nodes of the planner's tree.
    unsafe {
        for mark in node::members::<pg_sys::RowMarkClause>((*query).rowMarks) {
            let entry = quals::entry(query, (*mark).rti as i32);
            if (*entry).rtekind != pg_sys::RTEKind::RTE_SUBQUERY || !view::is_union((*entry).subquery) {
                continue;
            }
            if view::Tiered::of_query((*entry).relid, (*entry).subquery).is_none() {
                continue;
            }
            for side in node::members::<pg_sys::RangeTblEntry>((*(*entry).subquery).rtable) {
                if (*side).rtekind == pg_sys::RTEKind::RTE_SUBQUERY {
                    lock((*side).subquery, mark);
                }
            }
        }
    }
}

/// `SELECT … FROM relation` becomes `… FOR UPDATE`.
unsafe fn lock(side: *mut pg_sys::Query, like: *mut pg_sys::RowMarkClause) {
    // SAFETY: the side reads one relation, as `Tiered::of_query` saw.
    unsafe {
        let rows = node::members::<pg_sys::RangeTblRef>((*(*side).jointree).fromlist)[0];
        let entry = quals::entry(side, (*rows).rtindex);
        pg_sys::LockRelationOid((*entry).relid, pg_sys::RowShareLock as i32);
        (*entry).rellockmode = pg_sys::RowShareLock as i32;
        let mark: *mut pg_sys::RowMarkClause = node::copy(like);
        (*mark).rti = (*rows).rtindex as pg_sys::Index;
        (*mark).pushedDown = true;
        (*side).rowMarks = node::list([mark]);
        (*side).hasForUpdate = true;
    }
}
