//! The `ProcessUtility` hook: hands a statement to the handlers in order, then to whoever was there before.

#![allow(unsafe_code)]

use pgrx::{is_a, pg_guard, pg_sys};

use super::{copy, guard, rename};
use crate::pg::{privilege, xact};

static mut PREVIOUS: pg_sys::ProcessUtility_hook_type = None;

/// What a handler wants done with the statement.
pub struct Plan {
    /// The statement to run, possibly another one.
    pub statement: *mut pg_sys::PlannedStmt,
    /// Run it as this user.
    pub user: Option<pg_sys::Oid>,
    /// Renames to follow up once it ran.
    pub renamed: Option<rename::Pending>,
}

#[pg_guard]
unsafe extern "C-unwind" fn process_utility(
    statement: *mut pg_sys::PlannedStmt,
    query_string: *const std::ffi::c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    params: pg_sys::ParamListInfo,
    query_env: *mut pg_sys::QueryEnvironment,
    destination: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: the statement is a valid PlannedStmt; arguments are handed on unchanged.
    let plan = unsafe { prepare(statement) };
    let run = || {
        // SAFETY: the previous hook, or the standard function, with the arguments of this call.
        unsafe {
            let previous = PREVIOUS;
            pg_sys::ffi::pg_guard_ffi_boundary(|| match previous {
                Some(hook) => hook(
                    plan.statement,
                    query_string,
                    read_only_tree,
                    context,
                    params,
                    query_env,
                    destination,
                    completion,
                ),
                None => pg_sys::standard_ProcessUtility(
                    plan.statement,
                    query_string,
                    read_only_tree,
                    context,
                    params,
                    query_env,
                    destination,
                    completion,
                ),
            });
        }
    };
    match plan.user {
        Some(user) => privilege::as_user(user, run),
        None => run(),
    }
    if let Some(renamed) = plan.renamed {
        rename::follow(&renamed);
    }
}

/// Asks the handlers. Each looks at the statement's tag first.
unsafe fn prepare(statement: *mut pg_sys::PlannedStmt) -> Plan {
    let mut plan = Plan { statement, user: None, renamed: None };
    if !xact::may_work() {
        return plan;
    }
    // SAFETY: casts follow tag checks.
    unsafe {
        let node = (*statement).utilityStmt;
        if is_a(node, pg_sys::NodeTag::T_CopyStmt) {
            copy::handle(&mut plan);
        } else if is_a(node, pg_sys::NodeTag::T_TruncateStmt) {
            guard::refuse_truncate(node.cast());
        } else if is_a(node, pg_sys::NodeTag::T_AlterTableStmt) {
            guard::refuse_alter(node.cast());
        } else if is_a(node, pg_sys::NodeTag::T_RenameStmt) {
            plan.renamed = rename::before_rename(node.cast());
        } else if is_a(node, pg_sys::NodeTag::T_AlterObjectSchemaStmt) {
            plan.renamed = rename::before_move(node.cast());
        }
    }
    plan
}

pub fn init() {
    // SAFETY: runs once, while libraries are preloaded, before any statement.
    unsafe {
        PREVIOUS = pg_sys::ProcessUtility_hook;
        pg_sys::ProcessUtility_hook = Some(process_utility);
    }
}
