//! Ties the engine's transaction to PostgreSQL's.
//!
//! What can fail happens at PRE_COMMIT; the COMMIT and ABORT arms cannot fail, because an error there would take
//! the backend down. PREPARE TRANSACTION is refused.

pub mod subxact;

use coldfront_common::{frame::Kind, sqlstate};
use pgrx::{pg_guard, pg_sys};

use crate::{
    client::Interrupts,
    error::{Error, OrRaise, Result},
    fdw::rowid,
    pg::{locks, xact},
    session::{self, Doom, Transaction},
};
use coldfront_common::ident::TableRef;

/// Takes the table's write lock for this transaction, before anything of the table is read or written.
pub fn lock_table(table: &TableRef) {
    if session::with(|s| s.txn.locked.contains(table)) {
        return;
    }
    locks::advisory_xact(locks::key_of(&table.to_string()));
    if xact::uses_one_snapshot() {
        session::with(|s| s.check_head(table)).or_raise();
    }
    session::with(|s| s.txn.locked.push(table.clone()));
}

/// A standby and a read-only transaction may not write to the lake, which PostgreSQL does not check for foreign tables.
#[allow(unsafe_code)]
pub fn refuse_read_only(relation: &str) {
    // SAFETY: plain reads of the process's transaction state.
    let (read_only, standby) = unsafe { (pg_sys::XactReadOnly, pg_sys::RecoveryInProgress()) };
    if standby {
        Error::refused("25006", format!("coldfront: cannot write to {relation} on a standby"), "Write on the primary.")
            .raise();
    }
    if read_only {
        Error::value("25006", format!("cannot write to {relation} in a read-only transaction")).raise();
    }
}

/// Commits the engine's transaction. The last point where the transaction can still fail.
fn pre_commit() -> Result<()> {
    session::with(|s| {
        if !s.txn.used {
            return Ok(());
        }
        if s.txn.writes == 0 {
            return Ok(());
        }
        s.refuse_doomed()?;
        check_serializable();
        let outcome = s.connection()?.call(Kind::Commit, Kind::Done, &(), Interrupts::Hold);
        if outcome.is_err() {
            // The engine has rolled back, or is gone; either way nothing more can be done in it.
            s.txn.doomed.get_or_insert(Doom::Lost);
        }
        outcome.map_err(|e| name_tables(e, &s.txn.dirty))?;
        s.txn.writes = 0;
        s.txn.used = false;
        Ok(())
    })
}

/// A serialization failure that PostgreSQL would only find after this callback has to be found before the engine commits.
fn check_serializable() {
    xact::check_for_serialization_failure();
}

/// Says which tables a failed commit was for, and what to do about a conflict.
fn name_tables(error: Error, tables: &[TableRef]) -> Error {
    let names: Vec<String> = tables.iter().map(|table| format!("{}.{}", table.namespace, table.name)).collect();
    match error.on_relation(&names.join(", ")) {
        Error::Engine(mut failure) => {
            if failure.sqlstate == sqlstate::SERIALIZATION_FAILURE {
                failure.hint.get_or_insert_with(|| "Retry the transaction.".to_owned());
            }
            Error::Engine(failure)
        }
        other => other,
    }
}

/// Forgets the transaction; tells the engine when it still holds a part of it. Cannot fail.
fn end() {
    let touched = session::try_with(|s| {
        let touched = s.txn.is_touched();
        if touched {
            if s.txn.used {
                s.end_engine_transaction();
            }
            s.txn = Transaction::default();
        }
        touched
    });
    subxact::reset();
    if touched == Some(true) {
        rowid::reset();
    }
}

fn pre_prepare() -> Result<()> {
    if session::with(|s| s.txn.writes > 0) {
        return Err(Error::refused(
            sqlstate::FEATURE_NOT_SUPPORTED,
            "coldfront: a transaction that wrote to a cold table cannot be prepared",
            "Use COMMIT instead of PREPARE TRANSACTION.",
        ));
    }
    Ok(())
}

#[pg_guard]
unsafe extern "C-unwind" fn on_xact_event(event: pg_sys::XactEvent::Type, _arg: *mut std::ffi::c_void) {
    match event {
        pg_sys::XactEvent::XACT_EVENT_PRE_COMMIT => pre_commit().or_raise(),
        pg_sys::XactEvent::XACT_EVENT_PRE_PREPARE => pre_prepare().or_raise(),
        pg_sys::XactEvent::XACT_EVENT_COMMIT
        | pg_sys::XactEvent::XACT_EVENT_ABORT
        | pg_sys::XactEvent::XACT_EVENT_PREPARE => end(),
        _ => {}
    }
}

/// Registers the callbacks. Runs once, at load.
#[allow(unsafe_code)]
pub fn init() {
    // SAFETY: both callbacks are static functions and live as long as the process.
    unsafe {
        pg_sys::RegisterXactCallback(Some(on_xact_event), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(subxact::on_event), std::ptr::null_mut());
    }
}
