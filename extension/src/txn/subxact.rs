//! Savepoints and EXCEPTION blocks around cold writes.
//!
//! The engine has no savepoints. Rolling back a subtransaction in which a cold write happened dooms the transaction:
//! its COMMIT and its next cold statement fail, so the write is never silently kept. Releasing one hands its writes
//! to the parent.

use std::cell::RefCell;

use pgrx::{pg_guard, pg_sys};

use crate::session::{self, Doom};

thread_local! {
    /// Open subtransactions, innermost last, each with the number of cold writes at its start.
    static OPEN: RefCell<Vec<(u32, u32)>> = const { RefCell::new(Vec::new()) };
}

pub fn reset() {
    OPEN.with_borrow_mut(Vec::clear);
}

fn started(id: u32) {
    let writes = session::with(|s| s.txn.writes);
    OPEN.with_borrow_mut(|open| open.push((id, writes)));
}

fn ended(id: u32, aborted: bool) {
    let start = OPEN.with_borrow_mut(|open| {
        let at = open.iter().rposition(|(open_id, _)| *open_id == id)?;
        let (_, writes) = open[at];
        open.truncate(at);
        Some(writes)
    });
    if !aborted {
        return;
    }
    session::with(|s| {
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
