//! Analysis of a statement that writes to a unified view: the view gives way to the hot table as the target.
//!
//! The view stays in the range table, unreferenced, with the privileges the user needs on it; what is beneath is reached
//! with the view owner's rights, as through any view.

#![allow(unsafe_code)]

use pgrx::{is_a, pg_guard, pg_sys};

use super::{quals, view::Tiered};
use crate::{
    error::Error,
    pg::{catalog, node, xact},
};

static mut PREVIOUS: pg_sys::post_parse_analyze_hook_type = None;

/// Called for every statement, so it decides before it does anything. No Rust value lives across the call of the
/// previous hook, which may leave by a long jump.
unsafe extern "C-unwind" fn analyzed(
    pstate: *mut pg_sys::ParseState,
    query: *mut pg_sys::Query,
    jumble: *mut pg_sys::JumbleState,
) {
    // SAFETY: the arguments are those of this call.
    unsafe {
        if let Some(previous) = PREVIOUS {
            previous(pstate, query, jumble);
        }
        if may_write_to_view(query) {
            redirect_all(query);
        }
    }
}

/// Whether the statement may write to a view, by a look at its head.
unsafe fn may_write_to_view(query: *mut pg_sys::Query) -> bool {
    // SAFETY: valid nodes; range table indexes count from one.
    unsafe {
        if (*query).hasModifyingCTE {
            return true;
        }
        match (*query).commandType {
            pg_sys::CmdType::CMD_INSERT
            | pg_sys::CmdType::CMD_UPDATE
            | pg_sys::CmdType::CMD_DELETE
            | pg_sys::CmdType::CMD_MERGE => {
                let entry =
                    pg_sys::list_nth((*query).rtable, (*query).resultRelation - 1).cast::<pg_sys::RangeTblEntry>();
                (*entry).relkind as u8 == b'v'
            }
            pg_sys::CmdType::CMD_UTILITY => {
                let tag = (*(*query).utilityStmt).type_;
                tag == pg_sys::NodeTag::T_ExplainStmt || tag == pg_sys::NodeTag::T_CreateTableAsStmt
            }
            _ => false,
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn redirect_all(query: *mut pg_sys::Query) {
    if xact::may_work() {
        // SAFETY: the query is the parser's own.
        unsafe { redirect(query) };
    }
}

/// Redirects the statement and every statement in its WITH clause.
unsafe fn redirect(query: *mut pg_sys::Query) {
    // SAFETY: tags are checked before the casts.
    unsafe {
        if (*query).commandType == pg_sys::CmdType::CMD_UTILITY {
            let inner = if is_a((*query).utilityStmt, pg_sys::NodeTag::T_ExplainStmt) {
                (*(*query).utilityStmt.cast::<pg_sys::ExplainStmt>()).query
            } else {
                (*(*query).utilityStmt.cast::<pg_sys::CreateTableAsStmt>()).query
            };
            if let Some(inner) = node::cast(inner, pg_sys::NodeTag::T_Query) {
                redirect(inner);
            }
            return;
        }
        for cte in node::members::<pg_sys::CommonTableExpr>((*query).cteList) {
            if let Some(inner) = node::cast((*cte).ctequery, pg_sys::NodeTag::T_Query) {
                redirect(inner);
            }
        }
        if (*query).resultRelation == 0 || (*query).commandType == pg_sys::CmdType::CMD_SELECT {
            return;
        }
        let entry = quals::entry(query, (*query).resultRelation);
        if (*entry).relkind as u8 == b'v'
            && let Some(tiered) = Tiered::of_view((*entry).relid)
        {
            refuse_what_cannot_be(query, &tiered);
            swap(query, entry, &tiered);
        } else if (*entry).relkind as u8 == b'v'
            && let Some(beneath) = Tiered::beneath_view((*entry).relid)
        {
            let view = catalog::qualified_name((*entry).relid);
            let hint = format!("Change the rows of {} itself, or give {view} INSTEAD OF triggers.", beneath.name());
            beneath.refused(&format!("changing rows through the view {view} does not work"), &hint).raise();
        }
    }
}

unsafe fn refuse_what_cannot_be(query: *mut pg_sys::Query, tiered: &Tiered) {
    // SAFETY: plain reads.
    unsafe {
        if (*query).commandType == pg_sys::CmdType::CMD_MERGE {
            tiered.refused("MERGE does not work", "Use INSERT, UPDATE and DELETE.").raise();
        }
        if !(*query).onConflict.is_null() {
            tiered
                .refused(
                    "ON CONFLICT does not work",
                    "No index covers both tiers. Look for the row first, or use ON CONFLICT on the hot table.",
                )
                .raise();
        }
    }
}

/// Makes the hot table the target.
unsafe fn swap(query: *mut pg_sys::Query, entry: *mut pg_sys::RangeTblEntry, tiered: &Tiered) {
    // SAFETY: valid nodes of the parser; the hot table is locked as a target before anything of it is read.
    unsafe {
        if catalog::relation_kind(tiered.hot.relation) == 0 {
            Error::value("42P01", format!("coldfront: the hot table of {} is gone", tiered.name())).raise();
        }
        pg_sys::LockRelationOid(tiered.hot.relation, pg_sys::RowExclusiveLock as i32);
        let from: Vec<i16> = (1..=tiered.hot.attributes.len() as i16).collect();
        let view_entry: *mut pg_sys::RangeTblEntry = node::copy(entry);
        quals::retarget(query, &from, &tiered.hot);
        (*query).rtable = pg_sys::lappend((*query).rtable, view_entry.cast());
    }
}

pub fn init() {
    // SAFETY: runs once, while libraries are preloaded, before any statement.
    unsafe {
        PREVIOUS = pg_sys::post_parse_analyze_hook;
        pg_sys::post_parse_analyze_hook = Some(analyzed);
    }
}
