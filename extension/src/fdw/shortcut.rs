//! Aggregates over a cold tier without the view's cutoff, where no row of the lake reaches it.
//!
//! Rows at or beyond the cutoff are in the lake only while a partition moves, so nearly always `key < C` costs a column
//! read for each row and drops none. The engine asks first whether there is such a row, which the bounds of manifests and
//! row groups answer, and does so in the transaction that reads the rows afterwards.

#![allow(unsafe_code)]

use coldfront_common::types::ColumnType;
use pgrx::pg_sys;

use super::{deparse::Deparser, paths, template::Template};
use crate::{
    pg::node,
    tier::{self, bounds::Bound},
};

/// What must have no row, and the source of rows to read then.
///
/// # Safety
/// `rel` is a base relation of the wrapper whose conditions all go to the engine.
pub unsafe fn without_cutoff(deparser: &mut Deparser, rel: *mut pg_sys::RelOptInfo) -> Option<(Template, Template)> {
    // SAFETY: the planner's nodes are only read; each condition of the relation has its text in `remote`, in order.
    unsafe {
        let state = paths::state(rel);
        let clauses = node::members::<pg_sys::RestrictInfo>((*rel).baserestrictinfo);
        if clauses.len() != state.remote.len() {
            return None;
        }
        let mut cutoff: Option<Bound> = None;
        let mut kept = Vec::new();
        let mut used: *mut pg_sys::Bitmapset = std::ptr::null_mut();
        for (info, text) in clauses.into_iter().zip(&state.remote) {
            let clause: *mut pg_sys::Node = (*info).clause.cast();
            match Bound::of_clause(clause).filter(Bound::is_cold) {
                Some(bound) if cutoff.as_ref().is_none_or(|cutoff| cutoff.equals(&bound)) => cutoff = Some(bound),
                _ => {
                    pg_sys::pull_varattnos(clause, (*rel).relid, &raw mut used);
                    kept.push(text);
                }
            }
        }
        let cutoff = cutoff?;
        let attribute = i32::from((*cutoff.key()).varattno) - pg_sys::FirstLowInvalidHeapAttributeNumber;
        let (key, ty) = deparser.column(cutoff.key().cast())?;
        let has_bounds = matches!(
            ty,
            ColumnType::Int2
                | ColumnType::Int4
                | ColumnType::Int8
                | ColumnType::Date
                | ColumnType::Timestamp
                | ColumnType::Timestamptz
        );
        // Another condition on the key reads the column anyway.
        if !has_bounds
            || pg_sys::bms_is_member(attribute, used)
            || !tier::reads_cold_tier(deparser.root, deparser.relation)
        {
            return None;
        }
        let mut unless = Template::default();
        let any_row = |unless: &mut Template, condition: &Template| {
            unless.push("(SELECT 1");
            unless.append(state.source_where([condition]));
            unless.push(" LIMIT 1)");
        };
        any_row(&mut unless, &deparser.clause(cutoff.beyond()?)?);
        unless.push(" UNION ALL ");
        let mut is_null = Template::default();
        is_null.push(&format!("({key} IS NULL)"));
        any_row(&mut unless, &is_null);
        Some((unless, state.source_where(kept)))
    }
}
