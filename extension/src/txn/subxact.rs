//! Savepoints and EXCEPTION blocks around cold writes.
//!
//! The engine has no savepoints. Rolling back a subtransaction in which a cold write happened dooms the transaction:
//! its COMMIT and its next cold statement fail, so the write is never silently kept. Releasing one hands its writes
//! to the parent.

use std::cell::RefCell;

use pgrx::{pg_guard, pg_sys};

use crate::{
    error::Result,
    session::{self, Doom},
};

/// An open subtransaction.
struct Open {
    id: u32,
    /// Cold writes of the transaction at its start.
    writes: u32,
    /// Name of the savepoint, unless it belongs to a block of a procedural language.
    name: Option<String>,
}

thread_local! {
    /// Open subtransactions, innermost last.
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
    /// Name of the savepoint whose subtransaction starts next.
    static NEXT_NAME: RefCell<Option<String>> = const { RefCell::new(None) };
}

pub fn reset() {
    OPEN.with_borrow_mut(Vec::clear);
    NEXT_NAME.set(None);
}

/// SAVEPOINT: its subtransaction starts once the statement has run.
pub fn will_start(name: String) {
    NEXT_NAME.set(Some(name));
}

/// ROLLBACK TO: refused when it would have to undo a cold write, or when an error did so already.
pub fn check_rollback_to(name: String) -> Result<()> {
    let start = OPEN.with_borrow(|open| open.iter().rev().find(|o| o.name.as_ref() == Some(&name)).map(|o| o.writes));
    session::with(|s| {
        if start.is_some_and(|writes| s.txn.writes > writes) {
            s.txn.doomed.get_or_insert(Doom::Savepoint);
        }
        s.refuse_doomed()
    })?;
    // The savepoint stays, with a new subtransaction.
    will_start(name);
    Ok(())
}

fn started(id: u32) {
    let open = Open { id, writes: session::with(|s| s.txn.writes), name: NEXT_NAME.take() };
    OPEN.with_borrow_mut(|list| list.push(open));
}

fn ended(id: u32, aborted: bool) {
    let start = OPEN.with_borrow_mut(|open| {
        let at = open.iter().rposition(|o| o.id == id)?;
        let writes = open[at].writes;
        open.truncate(at);
        Some(writes)
    });
    if !aborted {
        return;
    }
    session::try_with(|s| {
        if start.is_some_and(|writes| s.txn.writes > writes) {
            s.txn.doomed.get_or_insert(Doom::Savepoint);
        }
        // Locks taken inside are released with the subtransaction.
        s.txn.locked.clear();
        if s.txn.streaming.is_some_and(|started_in| started_in >= id) {
            s.write_failed();
        }
    });
}

#[pg_guard]
pub unsafe extern "C-unwind" fn on_event(
    event: pg_sys::SubXactEvent::Type,
    id: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _arg: *mut std::ffi::c_void,
) {
    match event {
        pg_sys::SubXactEvent::SUBXACT_EVENT_START_SUB => started(id),
        pg_sys::SubXactEvent::SUBXACT_EVENT_COMMIT_SUB => ended(id, false),
        pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB => ended(id, true),
        _ => {}
    }
}
