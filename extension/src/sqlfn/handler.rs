//! Handler and validator of the foreign data wrapper.

#![allow(unsafe_code)]

use pgrx::{pg_extern, pg_guard, pg_sys, pg_sys::Datum};

use crate::{error::OrRaise, fdw};

/// Calling convention of the handler, which PostgreSQL asks for by this name.
#[unsafe(no_mangle)]
pub extern "C" fn pg_finfo_coldfront_fdw_handler() -> &'static pg_sys::Pg_finfo_record {
    &super::VERSION_1
}

/// `fdw_handler`: its result is the pointer itself, which no safe return type of the SQL layer expresses.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn coldfront_fdw_handler(_info: pg_sys::FunctionCallInfo) -> Datum {
    Datum::from(fdw::routine().into_pg())
}

#[pg_extern]
fn coldfront_fdw_validator(options: Vec<Option<String>>, catalog: pg_sys::Oid) {
    let options: Vec<String> = options.into_iter().flatten().collect();
    fdw::check_options(&options, catalog).or_raise();
}
