//! Planning of statements on a tiered relation: to the hot table, to the cold table, or to both.

#![allow(unsafe_code)]

use pgrx::{pg_guard, pg_sys};

use super::{
    bounds::{self, Bound},
    locks, quals, reads,
    split::{self, Names, Parts},
    values::Values,
    view::Tiered,
};
use crate::{
    error::{Error, OrRaise, Result},
    gucs,
    pg::{catalog, node, xact},
};

static mut PREVIOUS: pg_sys::planner_hook_type = None;

unsafe extern "C-unwind" {
    /// `optimizer/planner.h`, without the guard of the generated binding: nothing here needs unwinding.
    fn standard_planner(
        query: *mut pg_sys::Query,
        text: *const std::ffi::c_char,
        options: i32,
        params: pg_sys::ParamListInfo,
    ) -> *mut pg_sys::PlannedStmt;
}

/// Called for every statement, so it decides before it does anything. No Rust value lives across the call of the
/// planner, which may leave by a long jump.
unsafe extern "C-unwind" fn plan(
    query: *mut pg_sys::Query,
    text: *const std::ffi::c_char,
    options: i32,
    params: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the arguments are those of this call.
    unsafe {
        let mut whole = std::ptr::null_mut();
        if may_be_tiered(query) {
            whole = prepare(query, params);
        }
        let statement = if whole.is_null() { query } else { whole };
        let planned = match PREVIOUS {
            Some(previous) => previous(statement, text, options, params),
            None => standard_planner(statement, text, options, params),
        };
        if !whole.is_null() {
            // The parts count their rows themselves; for everybody else this is the statement the user wrote.
            (*planned).commandType = (*query).commandType;
            (*planned).hasReturning = !(*query).returningList.is_null();
        }
        planned
    }
}

/// Whether some statement here may concern a tiered relation. Where one is written to, its view stands in the range table,
/// unreferenced.
unsafe fn may_be_tiered(query: *mut pg_sys::Query) -> bool {
    // SAFETY: valid nodes.
    unsafe {
        if (*query).hasModifyingCTE || !(*query).rowMarks.is_null() {
            return true;
        }
        ((*query).resultRelation != 0 && !(*query).rtable.is_null() && has_view((*query).rtable))
            || reads::may_read(query)
    }
}

/// Whether a view stands in a range table without having been expanded.
///
/// # Safety
/// A list of range table entries.
pub unsafe fn has_view(range_table: *mut pg_sys::List) -> bool {
    // SAFETY: a list of range table entries.
    unsafe {
        (0..(*range_table).length).any(|i| is_view(pg_sys::list_nth(range_table, i).cast::<pg_sys::RangeTblEntry>()))
    }
}

/// Whether an entry is a view that was not expanded.
///
/// # Safety
/// A range table entry.
pub unsafe fn is_view(entry: *mut pg_sys::RangeTblEntry) -> bool {
    // SAFETY: a range table entry.
    unsafe { (*entry).rtekind == pg_sys::RTEKind::RTE_RELATION && (*entry).relkind as u8 == b'v' }
}

/// The statement to plan instead, or null to plan `query`, which may have been changed.
#[pg_guard]
unsafe extern "C-unwind" fn prepare(query: *mut pg_sys::Query, params: pg_sys::ParamListInfo) -> *mut pg_sys::Query {
    if !xact::may_work() {
        return std::ptr::null_mut();
    }
    // SAFETY: the planner owns the tree.
    unsafe {
        prepare_with_clause(query, params).or_raise();
        locks::push_down(query);
        reads::improve(query, &Values { params });
        let Some(tiered) = tiered_target(query) else { return std::ptr::null_mut() };
        let mut names = Names::new(query, tiered.name());
        let Some(parts) = route(query, &tiered, params, &mut names).or_raise() else { return std::ptr::null_mut() };
        split::whole(query, parts)
    }
}

/// Statements of the WITH clause that concern both tiers become several entries of it.
unsafe fn prepare_with_clause(query: *mut pg_sys::Query, params: pg_sys::ParamListInfo) -> Result<()> {
    // SAFETY: tags are checked before the casts.
    unsafe {
        for cte in node::members::<pg_sys::CommonTableExpr>((*query).cteList) {
            let Some(inner) = node::cast::<pg_sys::Query, _>((*cte).ctequery, pg_sys::NodeTag::T_Query) else {
                continue;
            };
            let Some(tiered) = tiered_target(inner) else { continue };
            if !(*inner).cteList.is_null() {
                return Err(tiered.refused(
                    "a WITH clause inside a WITH clause that changes rows does not work",
                    "Move the inner WITH clause to the top of the statement.",
                ));
            }
            let mut names = Names::new(query, catalog::text((*cte).ctename));
            if let Some(parts) = route(inner, &tiered, params, &mut names)? {
                split::entry(query, cte, parts);
            }
        }
    }
    Ok(())
}

/// Whether the view of a tiered relation stands in the range table, unreferenced.
pub fn names_tiered_view(query: *mut pg_sys::Query) -> bool {
    // SAFETY: a planned query.
    unsafe {
        node::members::<pg_sys::RangeTblEntry>((*query).rtable)
            .into_iter()
            .any(|entry| is_view(entry) && Tiered::of_view((*entry).relid).is_some())
    }
}

/// The entry of the tiered view that a statement was written on.
///
/// # Safety
/// The statement has a tiered target.
pub unsafe fn tiered_view(query: *mut pg_sys::Query) -> *mut pg_sys::RangeTblEntry {
    // SAFETY: the caller's promise.
    unsafe {
        node::members::<pg_sys::RangeTblEntry>((*query).rtable)
            .into_iter()
            .find(|entry| is_view(*entry) && Tiered::of_view((**entry).relid).is_some())
            .expect("analysis left the view in the range table")
    }
}

/// The tiered relation that the statement writes to.
unsafe fn tiered_target(query: *mut pg_sys::Query) -> Option<Tiered> {
    // SAFETY: valid nodes.
    unsafe {
        if (*query).resultRelation == 0 || (*query).commandType == pg_sys::CmdType::CMD_SELECT {
            return None;
        }
        let target = (*quals::entry(query, (*query).resultRelation)).relid;
        node::members::<pg_sys::RangeTblEntry>((*query).rtable)
            .into_iter()
            .filter(|entry| is_view(*entry))
            .filter_map(|entry| Tiered::of_view((*entry).relid))
            .find(|tiered| tiered.hot.relation == target)
    }
}

/// Points the statement at the one tier it concerns, or cuts it into parts.
unsafe fn route(
    query: *mut pg_sys::Query,
    tiered: &Tiered,
    params: pg_sys::ParamListInfo,
    names: &mut Names,
) -> Result<Option<Parts>> {
    // SAFETY: valid nodes of the planner's tree.
    unsafe {
        let values = Values { params };
        if (*query).commandType == pg_sys::CmdType::CMD_INSERT {
            return Ok(match values.side_of_insert(query, tiered) {
                Some(Which::Hot) => None,
                Some(Which::Cold) => {
                    to_cold(query, tiered);
                    None
                }
                None => Some(split::insert(query, tiered, names)),
            });
        }
        let moved_to = assigned_key(query, tiered);
        let varno = (*query).resultRelation;
        let mut hot = values.may_have_rows(query, quals::condition_on_column(&tiered.hot, varno));
        let in_cold = quals::condition_on_column(&tiered.cold.with_key_at(tiered.hot.key), varno);
        let mut cold = !tiered.is_all_hot() && values.may_have_rows(query, in_cold);
        if !hot && !cold {
            // No row at all; any tier says so, and the hot one says it without the engine.
            hot = true;
        }
        if hot && cold && !gucs::allow_mixed_writes() {
            (hot, cold) = values.may_have_rows_now(query, tiered);
            if hot && cold {
                return Err(Error::refused(
                    "0A000",
                    format!("coldfront: the statement may change both hot and cold rows of {}", tiered.name()),
                    "Add a condition on the partition column that decides for one tier, or set coldfront.allow_mixed_writes = on.",
                ));
            }
            (hot, cold) = (true, true);
        }
        if let Some(key) = moved_to {
            let side = values.side_of(key, tiered);
            return split::update_key(query, tiered, key, side, (hot, cold), names).map(Some);
        }
        match (hot, cold) {
            (true, true) => Ok(Some(split::both(query, tiered, names))),
            (true, false) => {
                quals::restrict(query, quals::condition_on_column(&tiered.hot, varno));
                Ok(None)
            }
            _ => {
                to_cold(query, tiered);
                quals::restrict(query, quals::condition_on_column(&tiered.cold, varno));
                Ok(None)
            }
        }
    }
}

/// Makes the cold table the target of a statement on the hot one.
///
/// # Safety
/// The statement's target is the hot table.
pub unsafe fn to_cold(query: *mut pg_sys::Query, tiered: &Tiered) {
    // SAFETY: the caller's promise; the relation is locked before it is planned for.
    unsafe {
        pg_sys::LockRelationOid(tiered.cold.relation, pg_sys::RowExclusiveLock as i32);
        quals::retarget(query, &tiered.hot.attributes, &tiered.cold);
    }
}

/// What an UPDATE assigns to the partition key.
unsafe fn assigned_key(query: *mut pg_sys::Query, tiered: &Tiered) -> Option<*mut pg_sys::Node> {
    // SAFETY: a target list.
    unsafe {
        if (*query).commandType != pg_sys::CmdType::CMD_UPDATE {
            return None;
        }
        node::members::<pg_sys::TargetEntry>((*query).targetList)
            .into_iter()
            .find(|assigned| !(**assigned).resjunk && (**assigned).resno == tiered.hot.key)
            .map(|assigned| (*assigned).expr.cast())
    }
}

/// A tier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    Hot,
    Cold,
}

impl Values {
    /// Whether rows that satisfy `condition` may pass the statement's WHERE, in any execution of its plan.
    unsafe fn may_have_rows(&self, query: *mut pg_sys::Query, condition: *mut pg_sys::Node) -> bool {
        // SAFETY: the condition is one of a side.
        unsafe { self.needed(query, condition).is_none_or(|needed| !bounds::is_not_true(self.fold(needed))) }
    }

    /// [`Values::may_have_rows`] of each tier with the values of this moment.
    unsafe fn may_have_rows_now(&self, query: *mut pg_sys::Query, tiered: &Tiered) -> (bool, bool) {
        // SAFETY: the conditions are those of the sides.
        unsafe {
            let varno = (*query).resultRelation;
            let now = |condition| {
                self.needed(query, condition).is_none_or(|needed| !bounds::is_not_true(self.fold_now(needed)))
            };
            let cold = tiered.cold.with_key_at(tiered.hot.key);
            (now(quals::condition_on_column(&tiered.hot, varno)), now(quals::condition_on_column(&cold, varno)))
        }
    }

    unsafe fn needed(&self, query: *mut pg_sys::Query, condition: *mut pg_sys::Node) -> Option<*mut pg_sys::Node> {
        // SAFETY: the condition is a comparison of the key with the cutoff.
        unsafe { Bound::of_clause(condition)?.needs(self.fold((*(*query).jointree).quals)) }
    }

    /// The tier of a row with this key, if that is the same for every execution.
    unsafe fn side_of(&self, key: *mut pg_sys::Node, tiered: &Tiered) -> Option<Which> {
        if tiered.is_all_hot() {
            return Some(Which::Hot);
        }
        // SAFETY: the key has the type of the column.
        unsafe {
            if is_current_time(key) {
                // Time only goes on: what is hot now stays hot for this plan, which a cutover ends.
                let now = self.fold_now(quals::condition_on(&tiered.cold, key));
                return bounds::is_not_true(now).then_some(Which::Hot);
            }
            let below = self.fold(quals::condition_on(&tiered.cold, key));
            let constant: *mut pg_sys::Const = node::cast(below, pg_sys::NodeTag::T_Const)?;
            Some(if !(*constant).constisnull && (*constant).constvalue.value() != 0 { Which::Cold } else { Which::Hot })
        }
    }

    /// The tier of all rows of an INSERT of values.
    unsafe fn side_of_insert(&self, query: *mut pg_sys::Query, tiered: &Tiered) -> Option<Which> {
        if tiered.is_all_hot() {
            return Some(Which::Hot);
        }
        // SAFETY: tags are checked before the casts.
        unsafe {
            let targets = node::members::<pg_sys::TargetEntry>((*query).targetList);
            let Some(target) = targets.iter().find(|target| (***target).resno == tiered.hot.key) else {
                // NULL, which no partition takes.
                return Some(Which::Hot);
            };
            let key: *mut pg_sys::Node = (**target).expr.cast();
            if let Some(side) = self.side_of(key, tiered) {
                return Some(side);
            }
            let var: *mut pg_sys::Var = node::cast(key, pg_sys::NodeTag::T_Var)?;
            let source = quals::entry(query, (*var).varno);
            if (*source).rtekind != pg_sys::RTEKind::RTE_VALUES {
                return None;
            }
            let mut rows = node::members::<pg_sys::List>((*source).values_lists)
                .into_iter()
                .map(|row| self.side_of(pg_sys::list_nth(row, i32::from((*var).varattno) - 1).cast(), tiered));
            let first = rows.next()??;
            rows.all(|side| side == Some(first)).then_some(first)
        }
    }
}

/// `now()` and its kin.
unsafe fn is_current_time(expression: *mut pg_sys::Node) -> bool {
    // SAFETY: tags are checked before the casts.
    unsafe {
        if let Some(function) = node::cast::<pg_sys::FuncExpr, _>(expression, pg_sys::NodeTag::T_FuncExpr) {
            return matches!(
                (*function).funcid.to_u32(),
                pg_sys::F_NOW
                    | pg_sys::F_STATEMENT_TIMESTAMP
                    | pg_sys::F_TRANSACTION_TIMESTAMP
                    | pg_sys::F_CLOCK_TIMESTAMP
            );
        }
        node::cast::<pg_sys::SQLValueFunction, _>(expression, pg_sys::NodeTag::T_SQLValueFunction).is_some_and(
            |value| {
                matches!(
                    (*value).op,
                    pg_sys::SQLValueFunctionOp::SVFOP_CURRENT_TIMESTAMP
                        | pg_sys::SQLValueFunctionOp::SVFOP_CURRENT_DATE
                        | pg_sys::SQLValueFunctionOp::SVFOP_LOCALTIMESTAMP
                )
            },
        )
    }
}

pub fn init() {
    // SAFETY: runs once, while libraries are preloaded, before any statement.
    unsafe {
        PREVIOUS = pg_sys::planner_hook;
        pg_sys::planner_hook = Some(plan);
    }
}
