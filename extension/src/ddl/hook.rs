//! The `ProcessUtility` hook: hands a statement to the handlers in order, then to whoever was there before.

#![allow(unsafe_code)]

use pgrx::{PgMemoryContexts, is_a, pg_guard, pg_sys};

use super::{columns, copy, copy_rows::CopyRows, guard, rename, savepoint};
use crate::{error::OrRaise, pg::xact, session};

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
    /// It may leave a transaction behind that cannot commit.
    is_block: bool,
}

/// `tcop/utility.h`, without the guard of the generated binding: an error of the statement passes through here untouched,
/// with everything PostgreSQL reports about it.
mod raw {
    use pgrx::pg_sys;

    unsafe extern "C-unwind" {
        #[allow(clippy::too_many_arguments)]
        pub fn standard_ProcessUtility(
            statement: *mut pg_sys::PlannedStmt,
            query_string: *const std::ffi::c_char,
            read_only_tree: bool,
            context: pg_sys::ProcessUtilityContext::Type,
            params: pg_sys::ParamListInfo,
            query_env: *mut pg_sys::QueryEnvironment,
            destination: *mut pg_sys::DestReceiver,
            completion: *mut pg_sys::QueryCompletion,
        );
    }
}

// PostgreSQL fixes the number of arguments. No Rust value lives across the call of the next function, which may leave by
// a long jump: the plan belongs to a memory context, and the user is put back by whoever handles the error.
#[allow(clippy::too_many_arguments)]
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
    unsafe {
        let plan = before(statement);
        let next = PREVIOUS.unwrap_or(raw::standard_ProcessUtility);
        if plan.is_null() {
            next(statement, query_string, read_only_tree, context, params, query_env, destination, completion);
            return;
        }
        if (*plan).rows.is_some() {
            run_rows(plan, query_string, completion);
            return;
        }
        let (mut user, mut security) = (pg_sys::InvalidOid, 0);
        pg_sys::GetUserIdAndSecContext(&raw mut user, &raw mut security);
        if let Some(other) = (*plan).user {
            pg_sys::SetUserIdAndSecContext(other, security | pg_sys::SECURITY_LOCAL_USERID_CHANGE as i32);
        }
        next((*plan).statement, query_string, read_only_tree, context, params, query_env, destination, completion);
        pg_sys::SetUserIdAndSecContext(user, security);
        after(plan);
    }
}

/// Asks the handlers; null where none of them has anything to do with the statement.
#[pg_guard]
unsafe extern "C-unwind" fn before(statement: *mut pg_sys::PlannedStmt) -> *mut Plan {
    // SAFETY: a valid PlannedStmt.
    let plan = unsafe { prepare(statement) };
    let does_nothing = plan.statement == statement
        && plan.user.is_none()
        && plan.rows.is_none()
        && plan.mirror.is_none()
        && plan.renamed.is_none()
        && !plan.is_block;
    if does_nothing {
        return std::ptr::null_mut();
    }
    PgMemoryContexts::CurrentMemoryContext.leak_and_drop_on_delete(plan)
}

/// Runs a COPY in place of the statement.
#[pg_guard]
unsafe extern "C-unwind" fn run_rows(
    plan: *mut Plan,
    query_string: *const std::ffi::c_char,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: `before` made the plan; the completion is null or the caller's.
    unsafe {
        let Some(rows) = &(*plan).rows else { return };
        let copied = rows.run(query_string);
        if let Some(completion) = completion.as_mut() {
            completion.commandTag = pg_sys::CommandTag::CMDTAG_COPY;
            completion.nprocessed = copied;
        }
    }
}

/// What follows a statement that ran. (COMMIT and the like in a procedure may have freed the plan of a block.)
#[pg_guard]
unsafe extern "C-unwind" fn after(plan: *mut Plan) {
    // SAFETY: `before` made the plan, in a context that outlives the statement.
    unsafe {
        if let Some(mirror) = &(*plan).mirror {
            mirror.follow();
        }
        if let Some(renamed) = &(*plan).renamed {
            rename::follow(renamed);
        }
        if (*plan).is_block {
            // A block that caught an error may have left a transaction that cannot commit: say so where it happened.
            session::with(|s| s.refuse_doomed()).or_raise();
        }
    }
}

/// Asks the handlers. Each looks at the statement's tag first.
unsafe fn prepare(statement: *mut pg_sys::PlannedStmt) -> Plan {
    let mut plan = Plan { statement, user: None, rows: None, mirror: None, renamed: None, is_block: false };
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
        if is_a(node, pg_sys::NodeTag::T_DoStmt) || is_a(node, pg_sys::NodeTag::T_CallStmt) {
            plan.is_block = true;
        } else if is_a(node, pg_sys::NodeTag::T_CopyStmt) {
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
