//! COPY with a registered view: FROM goes to its foreign table, TO becomes COPY of a query.
//!
//! PostgreSQL copies neither into nor out of a view. The view's privileges are what counts, as for INSERT and SELECT.

#![allow(unsafe_code)]

use std::ffi::c_char;

use coldfront_common::quote;
use pgrx::{PgList, pg_sys};

use super::{copy_rows::CopyRows, hook::Plan, registry};
use crate::{
    error::{Error, OrRaise},
    pg::{catalog, node::c_string, privilege},
    tier::Tiered,
};

/// # Safety
/// The plan's statement is a PlannedStmt with a CopyStmt.
pub unsafe fn handle(plan: &mut Plan) {
    // SAFETY: the tree is only changed in a copy, because the original may be cached.
    unsafe {
        let original = (*plan.statement).utilityStmt.cast::<pg_sys::CopyStmt>();
        if (*original).relation.is_null() {
            return;
        }
        let view = catalog::resolve((*original).relation);
        if catalog::relation_kind(view) != b'v' {
            return;
        }
        let tiered = Tiered::of_view(view);
        if let (true, Some(tiered)) = ((*original).is_from, &tiered) {
            plan.rows = Some(CopyRows::new(original, tiered.clone()).or_raise());
            return;
        }
        let entry = registry::find(view);
        if entry.is_none() && tiered.is_none() {
            return;
        }
        let statement = pg_sys::copyObjectImpl(plan.statement.cast()).cast::<pg_sys::PlannedStmt>();
        let copy = (*statement).utilityStmt.cast::<pg_sys::CopyStmt>();
        if let (true, Some(entry)) = ((*copy).is_from, entry) {
            plan.user = user_for_insert(copy, view);
            (*copy).attlist = to_foreign_names((*copy).attlist, view, &entry.foreign_table);
            (*copy).relation = pg_sys::makeRangeVar(c_string("coldfront_cold"), c_string(&entry.foreign_table), -1);
        } else {
            let columns = match names((*copy).attlist) {
                listed if listed.is_empty() => catalog::column_names(view),
                listed => listed,
            };
            let list: Vec<String> = columns.iter().map(|name| quote::ident(name)).collect();
            let (schema, name) = catalog::schema_and_name(view);
            let text = format!("SELECT {} FROM {}.{}", list.join(", "), quote::ident(&schema), quote::ident(&name));
            (*copy).query = (*parse(c_string(&text))).stmt;
            (*copy).relation = std::ptr::null_mut();
            (*copy).attlist = std::ptr::null_mut();
        }
        plan.statement = statement;
    }
}

/// Checks INSERT on the view and returns the user to run as: the view's owner, unless the caller is that already.
pub(super) unsafe fn user_for_insert(copy: *mut pg_sys::CopyStmt, view: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: catalogue look-ups; lists hold String nodes.
    unsafe {
        let user = privilege::current_user();
        let insert = pg_sys::ACL_INSERT as pg_sys::AclMode;
        let columns = names((*copy).attlist);
        let allowed = pg_sys::pg_class_aclcheck(view, user, insert) == pg_sys::AclResult::ACLCHECK_OK
            || (!columns.is_empty() && columns.iter().all(|name| catalog::may_insert_column(view, name, user)));
        let (_, name) = catalog::schema_and_name(view);
        if !allowed {
            Error::value("42501", format!("permission denied for view {name}")).raise();
        }
        let owner = catalog::owner(view);
        if owner == user || pg_sys::superuser() {
            return None;
        }
        let role =
            if (*copy).is_program { pg_sys::ROLE_PG_EXECUTE_SERVER_PROGRAM } else { pg_sys::ROLE_PG_READ_SERVER_FILES };
        if !(*copy).filename.is_null() && !pg_sys::has_privs_of_role(user, pg_sys::Oid::from(role)) {
            Error::value("42501", "permission denied to COPY from a file or a program").raise();
        }
        if !(*copy).whereClause.is_null() {
            Error::refused(
                "0A000",
                format!("coldfront: COPY {name} FROM … WHERE is only for the owner of the relation"),
                "Copy into a temporary table and use INSERT … SELECT … WHERE.",
            )
            .raise();
        }
        Some(owner)
    }
}

pub(super) unsafe fn names(list: *mut pg_sys::List) -> Vec<String> {
    // SAFETY: the list holds String nodes.
    unsafe { PgList::<pg_sys::String>::from_pg(list).iter_ptr().map(|node| catalog::text((*node).sval)).collect() }
}

/// View columns may have been renamed; the foreign table's stand in the same order.
unsafe fn to_foreign_names(list: *mut pg_sys::List, view: pg_sys::Oid, foreign_table: &str) -> *mut pg_sys::List {
    // SAFETY: the list holds String nodes; new ones are palloc'd beside the copied statement.
    unsafe {
        let foreign = pg_sys::Oid::from(catalog::relation_oid("coldfront_cold", foreign_table));
        let (shown, stored) = (catalog::column_names(view), catalog::column_names(foreign));
        let mut out = PgList::<pg_sys::Node>::new();
        for name in names(list) {
            let stored_name = shown.iter().position(|s| *s == name).and_then(|at| stored.get(at)).unwrap_or(&name);
            out.push(pg_sys::makeString(c_string(stored_name)).cast());
        }
        out.into_pg()
    }
}

/// Parses SQL text of one statement.
pub(super) unsafe fn parse(text: *const c_char) -> *mut pg_sys::RawStmt {
    // SAFETY: a valid C string that was written here.
    unsafe {
        let list = pg_sys::raw_parser(text, pg_sys::RawParseMode::RAW_PARSE_DEFAULT);
        PgList::<pg_sys::RawStmt>::from_pg(list).get_ptr(0).expect("one statement was written")
    }
}
