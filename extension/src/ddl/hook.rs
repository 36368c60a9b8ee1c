//! The `ProcessUtility` hook: hands a statement to the handlers in order, then to whoever was there before.

#![allow(unsafe_code)]

use pgrx::{is_a, pg_guard, pg_sys};

use super::{columns, copy, copy_rows::CopyRows, guard, rename, savepoint};
use crate::{
    error::OrRaise,
    pg::{privilege, xact},
    session,
};

static mut PREVIOUS: pg_sys::ProcessUtility_hook_type = None;

/// What a handler wants done with the statement.
pub struct Plan {
    /// The statement to run, possibly another one.
    pub statement: *mut pg_sys::PlannedStmt,
    /// Run it as this user.
    pub user: Option<pg_sys::Oid>,
    /// A COPY that is run here, in place of the statement.
    pub rows: Option<CopyRows>,
    /// Changes of columns to follow up once it ran.
    pub mirror: Option<columns::Mirror>,
    /// Renames to follow up once it ran.
    pub renamed: Option<rename::Pending>,
}

// PostgreSQL fixes the number of arguments.
#[allow(clippy::too_many_arguments)]
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
    if let Some(rows) = &plan.rows {
        let copied = rows.run(query_string);
        // SAFETY: null or the caller's.
        if let Some(completion) = unsafe { completion.as_mut() } {
            completion.commandTag = pg_sys::CommandTag::CMDTAG_COPY;
            completion.nprocessed = copied;
        }
        return;
    }
    let run = || {
        // SAFETY: the previous hook, or the standard function, with the arguments of this call.
        unsafe {
            match PREVIOUS {
                // A bare function pointer: only the boundary turns its ERROR into an unwinding panic. The standard
                // function below is a wrapper that has one of its own, and boundaries do not nest.
                Some(hook) => pg_sys::ffi::pg_guard_ffi_boundary(|| {
                    hook(
                        plan.statement,
                        query_string,
                        read_only_tree,
                        context,
                        params,
                        query_env,
                        destination,
                        completion,
                    );
                }),
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
            }
        }
    };
    match plan.user {
        Some(user) => privilege::as_user(user, run),
        None => run(),
    }
    if let Some(mirror) = plan.mirror {
        mirror.follow();
    }
    if let Some(renamed) = plan.renamed {
        rename::follow(&renamed);
    }
    // SAFETY: a tag check.
    if unsafe {
        is_a((*statement).utilityStmt, pg_sys::NodeTag::T_DoStmt)
            || is_a((*statement).utilityStmt, pg_sys::NodeTag::T_CallStmt)
    } {
        // A block that caught an error may have left a transaction that cannot commit: say so where it happened.
        session::with(|s| s.refuse_doomed()).or_raise();
    }
}

/// Asks the handlers. Each looks at the statement's tag first.
unsafe fn prepare(statement: *mut pg_sys::PlannedStmt) -> Plan {
    let mut plan = Plan { statement, user: None, rows: None, mirror: None, renamed: None };
    // SAFETY: the cast follows a tag check. Savepoints are also rolled back to in an aborted transaction.
    unsafe {
        let node = (*statement).utilityStmt;
        if is_a(node, pg_sys::NodeTag::T_TransactionStmt) {
            savepoint::handle(node.cast());
            return plan;
        }
    }
    if !xact::may_work() || guard::rests() {
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
            columns::before_alter(&mut plan);
        } else if is_a(node, pg_sys::NodeTag::T_RenameStmt) {
            if !columns::before_rename(&mut plan) {
                plan.renamed = rename::before_rename(node.cast());
            }
        } else if is_a(node, pg_sys::NodeTag::T_AlterObjectSchemaStmt) {
            plan.renamed = rename::before_move(node.cast());
        } else if is_a(node, pg_sys::NodeTag::T_ViewStmt) {
            guard::refuse_replace(node.cast());
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
