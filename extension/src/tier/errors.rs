//! Errors of the hot table that a user of the unified view would not understand: a row that no partition takes.

#![allow(unsafe_code)]

use pgrx::{PgSqlErrorCode, PgTryBuilder, pg_guard, pg_sys, pg_sys::panic::CaughtError};

use super::{route, view::Tiered};
use crate::{
    error::Error,
    pg::{catalog, node},
};

static mut PREVIOUS_RUN: pg_sys::ExecutorRun_hook_type = None;
static mut PREVIOUS_FINISH: pg_sys::ExecutorFinish_hook_type = None;

/// `executor/executor.h`, without the guards of the generated bindings: most statements only pass through here.
mod raw {
    use pgrx::pg_sys;

    unsafe extern "C-unwind" {
        pub fn standard_ExecutorRun(
            description: *mut pg_sys::QueryDesc,
            direction: pg_sys::ScanDirection::Type,
            count: u64,
            #[cfg(not(feature = "pg18"))] once: bool,
        );
        pub fn standard_ExecutorFinish(description: *mut pg_sys::QueryDesc);
    }
}

/// Called for every statement, so it decides before it does anything. No Rust value lives across the call of the
/// executor, which may leave by a long jump.
unsafe extern "C-unwind" fn run(
    description: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: u64,
    #[cfg(not(feature = "pg18"))] once: bool,
) {
    // SAFETY: the arguments are those of this call.
    unsafe {
        let next = PREVIOUS_RUN.unwrap_or(raw::standard_ExecutorRun);
        if concerns(description) {
            #[cfg(feature = "pg18")]
            let once = true;
            run_explained(next, description, direction, count, once);
        } else {
            next(
                description,
                direction,
                count,
                #[cfg(not(feature = "pg18"))]
                once,
            );
        }
    }
}

#[cfg(feature = "pg18")]
type Run = unsafe extern "C-unwind" fn(*mut pg_sys::QueryDesc, pg_sys::ScanDirection::Type, u64);
#[cfg(not(feature = "pg18"))]
type Run = unsafe extern "C-unwind" fn(*mut pg_sys::QueryDesc, pg_sys::ScanDirection::Type, u64, bool);
type Finish = unsafe extern "C-unwind" fn(*mut pg_sys::QueryDesc);

#[pg_guard]
unsafe extern "C-unwind" fn run_explained(
    next: Run,
    description: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: u64,
    once: bool,
) {
    #[cfg(feature = "pg18")]
    let _ = once;
    explain(description, || {
        // SAFETY: the arguments are those of the hook's call; the boundary turns an ERROR into an unwinding panic.
        unsafe {
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                next(
                    description,
                    direction,
                    count,
                    #[cfg(not(feature = "pg18"))]
                    once,
                );
            });
        }
    });
}

unsafe extern "C-unwind" fn finish(description: *mut pg_sys::QueryDesc) {
    // SAFETY: the arguments are those of this call.
    unsafe {
        let next = PREVIOUS_FINISH.unwrap_or(raw::standard_ExecutorFinish);
        if concerns(description) { finish_explained(next, description) } else { next(description) }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn finish_explained(next: Finish, description: *mut pg_sys::QueryDesc) {
    // SAFETY: as in `run_explained`.
    explain(description, || unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| next(description)) });
}

/// Whether the statement writes to a tiered relation, by a look at its range table.
unsafe fn concerns(description: *mut pg_sys::QueryDesc) -> bool {
    // SAFETY: a description of the executor.
    unsafe {
        let planned = (*description).plannedstmt;
        !(*planned).resultRelations.is_null() && route::has_view((*planned).rtable)
    }
}

/// Runs a step of the executor and puts its complaint about a missing partition into the user's terms.
fn explain(description: *mut pg_sys::QueryDesc, step: impl FnOnce()) {
    PgTryBuilder::new(std::panic::AssertUnwindSafe(step))
        .catch_when(PgSqlErrorCode::ERRCODE_CHECK_VIOLATION, |caught| {
            // SAFETY: the executor's plan is still there.
            unsafe { in_terms_of_view(&caught, description) };
            caught.rethrow()
        })
        .execute();
}

/// Raises the error in its new form, or returns if it is another one.
unsafe fn in_terms_of_view(caught: &CaughtError, description: *mut pg_sys::QueryDesc) {
    let CaughtError::PostgresError(report) = caught else { return };
    // SAFETY: valid nodes of the plan.
    let written = unsafe {
        node::members::<pg_sys::RangeTblEntry>((*(*description).plannedstmt).rtable)
            .into_iter()
            .filter(|entry| route::is_view(*entry))
            .filter_map(|entry| Tiered::of_view((*entry).relid))
            .find(|tiered| {
                let (_, hot) = catalog::schema_and_name(tiered.hot.relation);
                report.message() == format!("no partition of relation \"{hot}\" found for row")
            })
    };
    if let Some(tiered) = written {
        Error::Refused {
            sqlstate: "23514",
            message: format!("coldfront: no hot partition of {} takes the row", tiered.name()),
            detail: report.detail().map(str::to_owned),
            hint: Some(
                "Create the partition, or let coldfront-archiver make partitions further ahead (premake).".into(),
            ),
        }
        .raise();
    }
}

pub fn init() {
    // SAFETY: runs once, while libraries are preloaded, before any statement.
    unsafe {
        PREVIOUS_RUN = pg_sys::ExecutorRun_hook;
        pg_sys::ExecutorRun_hook = Some(run);
        PREVIOUS_FINISH = pg_sys::ExecutorFinish_hook;
        pg_sys::ExecutorFinish_hook = Some(finish);
    }
}
