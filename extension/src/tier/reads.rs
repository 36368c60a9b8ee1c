//! Reads of a tiered relation that would pull all of its cold rows: aggregates and LIMIT go into both tiers.
//!
//! An aggregate over the view becomes one over each tier and one over the two results; `ORDER BY … LIMIT n` becomes one
//! on each tier below the whole one. The answers are the same, which is why float sums, whose value depends on the order
//! of rows, and everything else that is not listed stay above the view.

#![allow(unsafe_code)]

use pgrx::{is_a, pg_guard, pg_sys};

use super::{
    bounds::{self, Bound},
    partial::{Aggregates, Group},
    partitions, quals,
    values::Values,
    view,
};
use crate::pg::{compat, node};

/// Whether a query may read a tiered relation somewhere, by a quick look.
///
/// # Safety
/// `query` is a Query of the planner, with its views expanded.
pub unsafe fn may_read(query: *mut pg_sys::Query) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        if (*query).hasSubLinks || !(*query).cteList.is_null() {
            return true;
        }
        let range_table = (*query).rtable;
        !range_table.is_null()
            && (0..(*range_table).length).any(|i| {
                let entry = pg_sys::list_nth(range_table, i).cast::<pg_sys::RangeTblEntry>();
                (*entry).rtekind == pg_sys::RTEKind::RTE_SUBQUERY
                    && (((*entry).relkind as u8 == b'v' && view::is_union((*entry).subquery))
                        || may_read((*entry).subquery))
            })
    }
}

/// Whether a planned query, or one around it, reads the tiered relation that has this cold table.
///
/// # Safety
/// `root` is the planner's.
pub unsafe fn reads_cold_tier(root: *mut pg_sys::PlannerInfo, cold: pg_sys::Oid) -> bool {
    let mut root = root;
    // SAFETY: the planner's nodes are only read.
    unsafe {
        while !root.is_null() {
            let reads = node::members::<pg_sys::RangeTblEntry>((*(*root).parse).rtable).into_iter().any(|entry| {
                (*entry).relkind as u8 == b'v'
                    && view::Tiered::of_view((*entry).relid).is_some_and(|tiered| tiered.cold.relation == cold)
            });
            if reads {
                return true;
            }
            root = (*root).parent_root;
        }
        false
    }
}

/// Improves the query and every query in it.
///
/// # Safety
/// `query` is a Query of the planner, with its views expanded.
pub unsafe fn improve(query: *mut pg_sys::Query, values: &Values) {
    // SAFETY: tags are checked before the casts.
    unsafe {
        for (i, entry) in node::members::<pg_sys::RangeTblEntry>((*query).rtable).into_iter().enumerate() {
            if (*entry).rtekind != pg_sys::RTEKind::RTE_SUBQUERY {
                continue;
            }
            let is_view = (*entry).relkind as u8 == b'v' && view::is_union((*entry).subquery);
            match view::Tiered::of_query((*entry).relid, (*entry).subquery).filter(|_| is_view) {
                Some(tiered) => {
                    let varno = i as i32 + 1;
                    leave_out_hot_condition((*entry).subquery, &tiered);
                    if !leave_out_a_tier(query, varno, &tiered, values) {
                        improve_reader(query, varno, &tiered);
                    }
                }
                None => improve((*entry).subquery, values),
            }
        }
        for cte in node::members::<pg_sys::CommonTableExpr>((*query).cteList) {
            if let Some(inner) = node::cast((*cte).ctequery, pg_sys::NodeTag::T_Query) {
                improve(inner, values);
            }
        }
        if (*query).hasSubLinks {
            let flags = pg_sys::QTW_IGNORE_RT_SUBQUERIES | pg_sys::QTW_IGNORE_CTE_SUBQUERIES;
            let context: *const Values = values;
            pg_sys::query_tree_walker_impl(query, Some(sub_links), context.cast_mut().cast(), flags as i32);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn sub_links(found: *mut pg_sys::Node, context: *mut std::ffi::c_void) -> bool {
    // SAFETY: tags are checked before the casts.
    unsafe {
        if found.is_null() {
            return false;
        }
        if let Some(query) = node::cast(found, pg_sys::NodeTag::T_Query) {
            improve(query, &*context.cast::<Values>());
            return false;
        }
        pg_sys::expression_tree_walker_impl(found, Some(sub_links), context)
    }
}

/// A query whose whole FROM is the view.
unsafe fn improve_reader(query: *mut pg_sys::Query, varno: i32, tiered: &view::Tiered) -> Option<()> {
    // SAFETY: valid nodes.
    unsafe {
        let [from] = node::members::<pg_sys::Node>((*(*query).jointree).fromlist)[..] else { return None };
        let from: *mut pg_sys::RangeTblRef = node::cast(from, pg_sys::NodeTag::T_RangeTblRef)?;
        let where_clause = (*(*query).jointree).quals;
        let is_plain = (*from).rtindex == varno
            && (*query).commandType == pg_sys::CmdType::CMD_SELECT
            && !(*query).hasWindowFuncs
            && !(*query).hasTargetSRFs
            && !(*query).hasSubLinks
            && (*query).groupingSets.is_null()
            && (*query).distinctClause.is_null()
            && (*query).setOperations.is_null()
            && (*query).rowMarks.is_null()
            && !pg_sys::contain_volatile_functions(where_clause);
        if !is_plain {
            return None;
        }
        if (*query).hasAggs || !(*query).groupClause.is_null() {
            split_aggregates(query, varno)
        } else {
            split_limit(query, varno, tiered)
        }
    }
}

/// Where the partitions see to it that hot rows are hot, they are not asked for it one by one.
unsafe fn leave_out_hot_condition(union: *mut pg_sys::Query, tiered: &view::Tiered) {
    // SAFETY: the shape was checked by `Tiered::of_query`, which keeps the condition.
    unsafe {
        if partitions::are_all_hot(&tiered.hot)
            && let Some(hot) = sides(union).first()
        {
            (*(**hot).jointree).quals = std::ptr::null_mut();
        }
    }
}

/// Where the WHERE clause leaves out one tier, the other one takes the view's place, and the plan is the one that a query
/// of that table gets. A row that an outer join makes up has no key, so it does not pass such a clause either.
unsafe fn leave_out_a_tier(query: *mut pg_sys::Query, varno: i32, tiered: &view::Tiered, values: &Values) -> bool {
    // SAFETY: the conditions are those of the view, about its own columns.
    unsafe {
        let key = tiered.hot.attributes.iter().position(|attribute| *attribute == tiered.hot.key);
        let may_have_rows = |side: &view::Side| {
            let in_view = side.with_key_at(key.map_or(0, |at| at as i16 + 1));
            let where_clause = values.fold((*(*query).jointree).quals);
            Bound::of_clause(quals::condition_on_column(&in_view, varno))
                .and_then(|bound| bound.needs(where_clause))
                .is_none_or(|needed| !bounds::is_not_true(values.fold(needed)))
        };
        let entry = quals::entry(query, varno);
        let [hot, cold] = sides((*entry).subquery)[..] else { return false };
        let only = match (may_have_rows(&tiered.hot), !tiered.is_all_hot() && may_have_rows(&tiered.cold)) {
            (true, true) => return false,
            // Where no tier has rows, the hot one says so without the engine.
            (_, false) => hot,
            (false, true) => cold,
        };
        (*entry).subquery = only;
        true
    }
}

/// The sub-query of each tier, with the columns of the view as it computes them.
unsafe fn sides(union: *mut pg_sys::Query) -> Vec<*mut pg_sys::Query> {
    // SAFETY: the shape was checked by `Tiered::of_query`.
    unsafe {
        node::members::<pg_sys::RangeTblEntry>((*union).rtable)
            .into_iter()
            .filter(|entry| (**entry).rtekind == pg_sys::RTEKind::RTE_SUBQUERY)
            .map(|entry| (*entry).subquery)
            .collect()
    }
}

/// An expression over the view's columns as one over the columns of a tier.
pub struct Descent {
    /// Range table index of the view.
    pub varno: i32,
    /// The tier's expression for each column.
    columns: Vec<*mut pg_sys::Node>,
    failed: bool,
    /// The expression has columns of a query around this one.
    reaches_out: bool,
}

/// How much deeper a tier's query is than the one that reads the view.
const LEVELS: u32 = 2;

impl Descent {
    unsafe fn new(varno: i32, side: *mut pg_sys::Query) -> Self {
        // SAFETY: a query of the view.
        let columns = unsafe {
            node::members::<pg_sys::TargetEntry>((*side).targetList).into_iter().map(|t| (*t).expr.cast()).collect()
        };
        Self { varno, columns, failed: false, reaches_out: false }
    }

    /// `None` for an expression that cannot be computed below.
    ///
    /// # Safety
    /// An expression of the query that reads the view, without sub-selects.
    pub unsafe fn expression(&mut self, expression: *mut pg_sys::Node) -> Option<*mut pg_sys::Node> {
        // SAFETY: the caller's promise.
        let out = unsafe { descend(expression, (&raw mut *self).cast()) };
        (!self.failed).then_some(out)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn descend(found: *mut pg_sys::Node, context: *mut std::ffi::c_void) -> *mut pg_sys::Node {
    // SAFETY: tags are checked before the casts; the context is the Descent of this walk.
    unsafe {
        if found.is_null() {
            return found;
        }
        let descent = context.cast::<Descent>();
        if let Some(var) = node::cast::<pg_sys::Var, _>(found, pg_sys::NodeTag::T_Var) {
            if (*var).varlevelsup > 0 {
                (*descent).reaches_out = true;
                let outer: *mut pg_sys::Var = node::copy(var);
                (*outer).varlevelsup += LEVELS;
                return outer.cast();
            }
            let columns = &(*descent).columns;
            let column = usize::try_from((*var).varattno - 1).ok().and_then(|at| columns.get(at).copied());
            return match column.filter(|_| (*var).varno == (*descent).varno) {
                Some(column) => node::copy(column),
                None => {
                    (*descent).failed = true;
                    found
                }
            };
        }
        if is_a(found, pg_sys::NodeTag::T_Aggref) || is_a(found, pg_sys::NodeTag::T_GroupingFunc) {
            (*descent).failed = true;
            return found;
        }
        pg_sys::expression_tree_mutator_impl(found, Some(descend), context)
    }
}

/// `SELECT g, sum(x) FROM view GROUP BY g` becomes `SELECT g, sum(s) FROM (SELECT g, sum(x) AS s FROM hot GROUP BY g UNION
/// ALL SELECT … FROM cold …) GROUP BY g`.
unsafe fn split_aggregates(query: *mut pg_sys::Query, varno: i32) -> Option<()> {
    // SAFETY: copies are changed until everything is known to work.
    unsafe {
        let flat = compat::flatten_groups(node::copy(query))?;
        let mut groups = Vec::new();
        for clause in node::members::<pg_sys::SortGroupClause>((*flat).groupClause) {
            let target = pg_sys::get_sortgroupclause_tle(clause, (*flat).targetList);
            groups.push(Group { clause, expression: (*target).expr.cast() });
        }
        let mut aggregates = Aggregates::new(varno, groups);
        let targets = aggregates.lift((*flat).targetList.cast())?;
        let having = aggregates.lift((*flat).havingQual)?;
        let entry = quals::entry(flat, varno);
        for side in sides((*entry).subquery) {
            let mut descent = Descent::new(varno, side);
            let condition = descent.expression((*(*flat).jointree).quals)?;
            let (columns, clauses) = aggregates.below(&mut descent)?;
            (*side).targetList = columns;
            (*side).groupClause = clauses;
            (*side).hasAggs = aggregates.has_any();
            quals::restrict(side, condition);
        }
        rebuild_union(entry);
        (*flat).targetList = targets.cast();
        (*flat).havingQual = having;
        (*(*flat).jointree).quals = std::ptr::null_mut();
        *query = *flat;
        Some(())
    }
}

/// Fits the union to the new columns of its sides.
unsafe fn rebuild_union(entry: *mut pg_sys::RangeTblEntry) {
    // SAFETY: both sides have the same columns.
    unsafe {
        let union = (*entry).subquery;
        let first = sides(union)[0];
        let columns: Vec<_> = node::members::<pg_sys::TargetEntry>((*first).targetList)
            .into_iter()
            .filter(|column| !(**column).resjunk)
            .collect();
        let names = || node::list(columns.iter().map(|c| pg_sys::makeString((**c).resname)));
        let operation = (*union).setOperations.cast::<pg_sys::SetOperationStmt>();
        (*operation).colTypes = node::oid_list(columns.iter().map(|c| pg_sys::exprType((**c).expr.cast())));
        (*operation).colTypmods = node::int_list(columns.iter().map(|_| -1));
        (*operation).colCollations = node::oid_list(columns.iter().map(|c| pg_sys::exprCollation((**c).expr.cast())));
        let leftmost = (*(*operation).larg.cast::<pg_sys::RangeTblRef>()).rtindex;
        (*union).targetList = node::list(columns.iter().enumerate().map(|(i, column)| {
            let expression = (**column).expr.cast();
            let var = pg_sys::makeVar(
                leftmost,
                i as i16 + 1,
                pg_sys::exprType(expression),
                -1,
                pg_sys::exprCollation(expression),
                0,
            );
            pg_sys::makeTargetEntry(var.cast(), i as i16 + 1, (**column).resname, false)
        }));
        for side in node::members::<pg_sys::RangeTblEntry>((*union).rtable) {
            if (*side).rtekind == pg_sys::RTEKind::RTE_SUBQUERY {
                (*(*side).eref).colnames = names();
            }
        }
        (*(*entry).eref).colnames = names();
    }
}

/// `ORDER BY k LIMIT n OFFSET m` above the view becomes `ORDER BY k LIMIT n + m` in each tier, too. Where that asks for the
/// latest rows, every hot row comes before every cold one, and the cold tier is asked only if the hot one has not enough.
unsafe fn split_limit(query: *mut pg_sys::Query, varno: i32, tiered: &view::Tiered) -> Option<()> {
    // SAFETY: copies are changed until everything is known to work.
    unsafe {
        if (*query).limitCount.is_null()
            || (*query).limitOption != pg_sys::LimitOption::LIMIT_OPTION_COUNT
            || !is_plain_value((*query).limitCount)
            || !is_plain_value((*query).limitOffset)
        {
            return None;
        }
        let copied: *mut pg_sys::Query = node::copy(query);
        let entry = quals::entry(copied, varno);
        let limit = sum((*copied).limitCount, (*copied).limitOffset);
        let newest_first = asks_for_the_latest(copied, varno, tiered);
        let mut hot_has_more: Option<*mut pg_sys::Node> = None;
        for (i, side) in sides((*entry).subquery).into_iter().enumerate() {
            let mut descent = Descent::new(varno, side);
            let condition = descent.expression((*(*copied).jointree).quals)?;
            let is_hot = i == 0;
            if is_hot && newest_first && !descent.reaches_out {
                hot_has_more = Some(one_more_row(side, condition, limit));
            }
            if let Some(found) = hot_has_more.filter(|_| !is_hot) {
                quals::restrict(side, is_null(found));
                (*side).hasSubLinks = true;
            }
            let mut order = Vec::new();
            for (i, clause) in node::members::<pg_sys::SortGroupClause>((*copied).sortClause).into_iter().enumerate() {
                let target = pg_sys::get_sortgroupclause_tle(clause, (*copied).targetList);
                if pg_sys::contain_volatile_functions((*target).expr.cast()) {
                    return None;
                }
                let key = descent.expression((*target).expr.cast())?;
                let position = (*(*side).targetList).length as i16 + 1;
                let junk = pg_sys::makeTargetEntry(key.cast(), position, node::c_string("key"), true);
                (*junk).ressortgroupref = i as pg_sys::Index + 1;
                (*side).targetList = pg_sys::lappend((*side).targetList, junk.cast());
                let below: *mut pg_sys::SortGroupClause = node::copy(clause);
                (*below).tleSortGroupRef = i as pg_sys::Index + 1;
                order.push(below);
            }
            (*side).sortClause = node::list(order);
            (*side).limitCount = node::copy(limit);
            (*side).limitOption = pg_sys::LimitOption::LIMIT_OPTION_COUNT;
            quals::restrict(side, condition);
        }
        (*(*copied).jointree).quals = std::ptr::null_mut();
        *query = *copied;
        Some(())
    }
}

/// Whether the first term of ORDER BY is the partition key, descending.
unsafe fn asks_for_the_latest(query: *mut pg_sys::Query, varno: i32, tiered: &view::Tiered) -> bool {
    // SAFETY: tags are checked before the casts; a clause of the query and its target list.
    unsafe {
        let Some(first) = node::members::<pg_sys::SortGroupClause>((*query).sortClause).first().copied() else {
            return false;
        };
        let target = pg_sys::get_sortgroupclause_tle(first, (*query).targetList);
        let Some(var) = node::cast::<pg_sys::Var, _>((*target).expr, pg_sys::NodeTag::T_Var) else { return false };
        let key = tiered.hot.attributes.iter().position(|attribute| *attribute == tiered.hot.key);
        let is_key = (*var).varno == varno && (*var).varlevelsup == 0 && key == Some((*var).varattno as usize - 1);
        let order = pg_sys::lookup_type_cache((*var).vartype, pg_sys::TYPECACHE_GT_OPR as i32);
        is_key && (*first).sortop == (*order).gt_opr
    }
}

/// `(SELECT true FROM hot WHERE … OFFSET limit LIMIT 1)`: NULL unless the tier has more rows than the limit.
unsafe fn one_more_row(
    side: *mut pg_sys::Query,
    condition: *mut pg_sys::Node,
    limit: *mut pg_sys::Node,
) -> *mut pg_sys::Node {
    // SAFETY: a copy of the tier's query, as the view has it.
    unsafe {
        let query: *mut pg_sys::Query = node::copy(side);
        let found = pg_sys::makeBoolConst(true, false).cast();
        (*query).targetList = node::list([pg_sys::makeTargetEntry(found, 1, node::c_string("found"), false)]);
        quals::restrict(query, node::copy(condition));
        (*query).limitOffset = or_all(limit);
        (*query).limitCount = bigint(1);
        (*query).limitOption = pg_sys::LimitOption::LIMIT_OPTION_COUNT;
        let link: *mut pg_sys::SubLink = node::make(pg_sys::NodeTag::T_SubLink);
        (*link).subLinkType = pg_sys::SubLinkType::EXPR_SUBLINK;
        (*link).subselect = query.cast();
        (*link).location = -1;
        link.cast()
    }
}

/// A limit of NULL is none: as many rows as there can be.
unsafe fn or_all(limit: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: both alternatives are of type bigint.
    unsafe {
        let either: *mut pg_sys::CoalesceExpr = node::make(pg_sys::NodeTag::T_CoalesceExpr);
        (*either).coalescetype = pg_sys::INT8OID;
        (*either).args = node::list([node::copy(limit), bigint(i64::MAX)]);
        (*either).location = -1;
        either.cast()
    }
}

fn bigint(value: i64) -> *mut pg_sys::Node {
    // SAFETY: a new node.
    unsafe { pg_sys::makeConst(pg_sys::INT8OID, -1, pg_sys::InvalidOid, 8, value.into(), false, true).cast() }
}

unsafe fn is_null(expression: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: a new node around a valid one.
    unsafe {
        let test: *mut pg_sys::NullTest = node::make(pg_sys::NodeTag::T_NullTest);
        (*test).arg = expression.cast();
        (*test).nulltesttype = pg_sys::NullTestType::IS_NULL;
        (*test).location = -1;
        test.cast()
    }
}

/// A constant or a parameter of the statement, perhaps with a cast.
unsafe fn is_plain_value(expression: *mut pg_sys::Node) -> bool {
    // SAFETY: tags are checked before the casts.
    unsafe {
        let expression = pg_sys::eval_const_expressions(std::ptr::null_mut(), node::copy(expression));
        if let Some(cast) = node::cast::<pg_sys::FuncExpr, _>(expression, pg_sys::NodeTag::T_FuncExpr) {
            let arguments = node::members::<pg_sys::Node>((*cast).args);
            let widens = matches!((*cast).funcid.to_u32(), pg_sys::F_INT8_INT2 | pg_sys::F_INT8_INT4);
            return widens && is_plain_value(arguments[0]);
        }
        if let Some(constant) = node::cast::<pg_sys::Const, _>(expression, pg_sys::NodeTag::T_Const) {
            return !(*constant).constisnull;
        }
        expression.is_null()
            || node::cast::<pg_sys::Param, _>(expression, pg_sys::NodeTag::T_Param)
                .is_some_and(|param| (*param).paramkind == pg_sys::ParamKind::PARAM_EXTERN)
    }
}

/// `count + offset`; the sum of two limits that are too large for a bigint is refused by PostgreSQL as it runs.
unsafe fn sum(count: *mut pg_sys::Node, offset: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: both are of type bigint, as the parser makes them.
    unsafe {
        if offset.is_null() {
            return node::copy(count);
        }
        let arguments = node::list([node::copy(count), node::copy(offset)]);
        pg_sys::makeFuncExpr(
            pg_sys::Oid::from(pg_sys::F_INT8PL),
            pg_sys::INT8OID,
            arguments,
            pg_sys::InvalidOid,
            pg_sys::InvalidOid,
            pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
        )
        .cast()
    }
}
