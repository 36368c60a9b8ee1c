//! SAVEPOINT and ROLLBACK TO: keeps the names of open savepoints and refuses to undo cold writes.

#![allow(unsafe_code)]

use pgrx::pg_sys;

use crate::{error::OrRaise, pg::catalog, txn::subxact};

/// # Safety
/// `statement` is a TransactionStmt.
pub unsafe fn handle(statement: *mut pg_sys::TransactionStmt) {
    // SAFETY: these kinds have a name.
    unsafe {
        match (*statement).kind {
            pg_sys::TransactionStmtKind::TRANS_STMT_SAVEPOINT => {
                subxact::will_start(catalog::text((*statement).savepoint_name));
            }
            pg_sys::TransactionStmtKind::TRANS_STMT_ROLLBACK_TO => {
                subxact::check_rollback_to(catalog::text((*statement).savepoint_name)).or_raise();
            }
            _ => {}
        }
    }
}
