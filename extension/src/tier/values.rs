//! Expressions at planning, with the parameters that are known.

#![allow(unsafe_code)]

use pgrx::pg_sys;

use crate::pg::node;

/// Folds expressions of one statement.
pub struct Values {
    pub params: pg_sys::ParamListInfo,
}

impl Values {
    /// Folds what is constant, parameters included.
    ///
    /// # Safety
    /// An expression of the statement.
    pub unsafe fn fold(&self, expression: *mut pg_sys::Node) -> *mut pg_sys::Node {
        // SAFETY: the planner's own entry points; the fake planner state only carries the parameters.
        unsafe { pg_sys::eval_const_expressions(self.root(), node::copy(expression)) }
    }

    /// Folds also what only holds now: stable functions and parameters that may change.
    ///
    /// # Safety
    /// An expression of the statement.
    pub unsafe fn fold_now(&self, expression: *mut pg_sys::Node) -> *mut pg_sys::Node {
        // SAFETY: as `fold`.
        unsafe { pg_sys::estimate_expression_value(self.root(), node::copy(expression)) }
    }

    unsafe fn root(&self) -> *mut pg_sys::PlannerInfo {
        // SAFETY: fresh nodes.
        unsafe {
            let root: *mut pg_sys::PlannerInfo = node::make(pg_sys::NodeTag::T_PlannerInfo);
            let global: *mut pg_sys::PlannerGlobal = node::make(pg_sys::NodeTag::T_PlannerGlobal);
            (*global).boundParams = self.params;
            (*root).glob = global;
            root
        }
    }
}
