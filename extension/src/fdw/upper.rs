//! Planning above the base scan: ORDER BY with LIMIT, and aggregates that the engine computes.
//!
//! An aggregate is shipped only when its result is exact and has PostgreSQL's type: counts, sums and averages of
//! integers and decimals (an average travels as sum and count, and PostgreSQL divides), minimum and maximum of types
//! whose order both sides share. Sums of floats depend on the order of rows and stay in PostgreSQL.

#![allow(unsafe_code)]

use coldfront_common::types::ColumnType;
use pgrx::{PgList, is_a, pg_guard, pg_sys};

use super::{
    deparse::{Deparser, unpadded},
    paths::{self, value_list},
    private::{self, Output, ScanPlan},
    shortcut,
    template::{Piece, Template},
};
use crate::pg::{collation, compat, node};

/// Cost of a row that the engine aggregates.
const AGGREGATED_ROW_COST: f64 = 0.000_2;
const STARTUP_COST: f64 = 1_000.0;
const GROUP_COST: f64 = 0.01;
/// Digits a decimal may have so that 10^10 rows cannot overflow the sum's 38.
const SUMMABLE_DIGITS: u8 = 28;

/// `ORDER BY … LIMIT n` where the whole query is this scan, its order one that both sides share, and its limit known when
/// the scan starts. PostgreSQL sorts and counts the rows again, so only which rows there are has to be right. The limit
/// joins the scan's run-time values.
///
/// # Safety
/// Valid planner nodes of one planning.
pub unsafe fn limit_clause(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    relation: pg_sys::Oid,
    values: &mut Vec<*mut pg_sys::Expr>,
) -> Option<Template> {
    // SAFETY: the caller's promise.
    unsafe {
        let parse = (*root).parse;
        let alone = pg_sys::bms_membership((*root).all_baserels) == pg_sys::BMS_Membership::BMS_SINGLETON
            && (*parse).commandType == pg_sys::CmdType::CMD_SELECT
            && !(*parse).limitCount.is_null()
            && (*parse).limitOption == pg_sys::LimitOption::LIMIT_OPTION_COUNT
            && (*parse).rowMarks.is_null()
            && !(*parse).hasAggs
            && !(*parse).hasWindowFuncs
            && !(*parse).hasTargetSRFs
            && (*parse).groupClause.is_null()
            && (*parse).groupingSets.is_null()
            && (*parse).distinctClause.is_null()
            && (*parse).havingQual.is_null()
            && (*parse).setOperations.is_null();
        if !alone || !paths::state(rel).local.is_empty() {
            return None;
        }
        let mut sql = Template::default();
        let deparser = Deparser { root, relid: (*rel).relid, relation, values: Vec::new() };
        for (i, clause) in node::members::<pg_sys::SortGroupClause>((*parse).sortClause).into_iter().enumerate() {
            sql.push(if i == 0 { " ORDER BY " } else { ", " });
            sql.push(&order_term(&deparser, clause, (*parse).targetList)?);
        }
        let mut value = |node: *mut pg_sys::Node| {
            let is_known = !pg_sys::contain_var_clause(node)
                && !pg_sys::contain_subplans(node)
                && !pg_sys::contain_volatile_functions(node);
            is_known.then(|| {
                values.push(node.cast());
                Template(vec![Piece::Value(values.len() - 1, ColumnType::Int8)])
            })
        };
        if let (Some(count), Some(offset)) = (constant((*parse).limitCount), constant((*parse).limitOffset)) {
            sql.push(&format!(" LIMIT {}", count.checked_add(offset).filter(|total| *total >= 0)?));
            return Some(sql);
        }
        sql.push(" LIMIT ");
        sql.append(value((*parse).limitCount)?);
        if !(*parse).limitOffset.is_null() {
            sql.push(" + ");
            sql.append(value((*parse).limitOffset)?);
        }
        Some(sql)
    }
}

/// A constant of type bigint; nothing at all is zero.
unsafe fn constant(expression: *mut pg_sys::Node) -> Option<i64> {
    // SAFETY: the tag is checked before the cast.
    unsafe {
        if expression.is_null() {
            return Some(0);
        }
        let constant: *mut pg_sys::Const = node::cast(expression, pg_sys::NodeTag::T_Const)?;
        (!(*constant).constisnull).then(|| (*constant).constvalue.value() as i64)
    }
}

/// One term of ORDER BY, if both sides order the type alike.
unsafe fn order_term(
    deparser: &Deparser,
    clause: *mut pg_sys::SortGroupClause,
    targets: *mut pg_sys::List,
) -> Option<String> {
    // SAFETY: a clause of the query and its target list.
    unsafe {
        let target = pg_sys::get_sortgroupclause_tle(clause, targets);
        let (column, ty) = deparser.column((*target).expr.cast())?;
        let is_shared = matches!(
            ty,
            ColumnType::Int2
                | ColumnType::Int4
                | ColumnType::Int8
                | ColumnType::Numeric { .. }
                | ColumnType::Float4
                | ColumnType::Float8
                | ColumnType::Bool
                | ColumnType::Date
                | ColumnType::Time
                | ColumnType::Timestamp
                | ColumnType::Timestamptz
        );
        let flags = (pg_sys::TYPECACHE_LT_OPR | pg_sys::TYPECACHE_GT_OPR) as i32;
        let order = pg_sys::lookup_type_cache(pg_sys::exprType((*target).expr.cast()), flags);
        let direction = match (*clause).sortop {
            operator if operator == (*order).lt_opr => "ASC",
            operator if operator == (*order).gt_opr => "DESC",
            _ => return None,
        };
        let nulls = if (*clause).nulls_first { "FIRST" } else { "LAST" };
        is_shared.then(|| format!("{column} {direction} NULLS {nulls}"))
    }
}

/// One shipped expression.
struct Item {
    sql: Template,
    output: Output,
}

#[pg_guard]
pub unsafe extern "C-unwind" fn upper_paths(
    root: *mut pg_sys::PlannerInfo,
    stage: pg_sys::UpperRelationKind::Type,
    input: *mut pg_sys::RelOptInfo,
    output: *mut pg_sys::RelOptInfo,
    _extra: *mut std::ffi::c_void,
) {
    // SAFETY: valid planner nodes; a base relation of this wrapper went through rel_size.
    unsafe {
        if stage != pg_sys::UpperRelationKind::UPPERREL_GROUP_AGG
            || (*input).reloptkind != pg_sys::RelOptKind::RELOPT_BASEREL
            || (*input).fdw_private.is_null()
            || !(*output).fdw_private.is_null()
            || !paths::state(input).local.is_empty()
            || paths::state(input).is_gated
            // The scan by itself notices that it has nothing to do, and the engine is not asked.
            || paths::state(input).is_empty_now
        {
            return;
        }
        add_aggregate_path(root, input, output);
    }
}

unsafe fn add_aggregate_path(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::RelOptInfo,
    output: *mut pg_sys::RelOptInfo,
) -> Option<()> {
    // SAFETY: as in `upper_paths`.
    unsafe {
        let parse = (*root).parse;
        if !(*parse).groupingSets.is_null() || !(*parse).havingQual.is_null() || (*parse).hasTargetSRFs {
            return None;
        }
        let state = paths::state(input);
        let relation = (**(*root).simple_rte_array.add((*input).relid as usize)).relid;
        let mut deparser = Deparser { root, relid: (*input).relid, relation, values: state.values.clone() };
        let target = *(*root).upper_targets.as_ptr().add(pg_sys::UpperRelationKind::UPPERREL_GROUP_AGG as usize);
        let (tlist, groups) = scan_target_list(parse, target)?;
        let mut items = Vec::new();
        for (i, entry) in PgList::<pg_sys::TargetEntry>::from_pg(tlist).iter_ptr().enumerate() {
            let expr = (*entry).expr.cast::<pg_sys::Node>();
            items.push(if is_a(expr, pg_sys::NodeTag::T_Aggref) {
                aggregate(&mut deparser, expr.cast(), (i + 1) as i16)?
            } else {
                group_column(&deparser, expr, (i + 1) as i16)?
            });
        }
        let sql = statement(state.source(), &items, groups.len());
        let shortcut = shortcut::without_cutoff(&mut deparser, input)
            .map(|(unless, source)| private::Shortcut { unless, sql: statement(source, &items, groups.len()) });
        let rows = if groups.is_empty() {
            1.0
        } else {
            let mut list = PgList::<pg_sys::Node>::new();
            groups.iter().for_each(|group| list.push(*group));
            pg_sys::estimate_num_groups(root, list.into_pg(), (*input).rows, std::ptr::null_mut(), std::ptr::null_mut())
        };
        let plan = ScanPlan {
            table: state.cold.table.clone(),
            relation: state.cold.relation.clone(),
            sql,
            shortcut,
            outputs: items.into_iter().map(|item| item.output).collect(),
            with_row_ids: false,
            is_target: false,
            locks: false,
            condition: None,
        };
        let mut private = PgList::<std::ffi::c_void>::from_pg(private::pack(&plan));
        private.push(tlist.cast());
        private.push(value_list(&deparser.values).cast());
        let total = STARTUP_COST + (*input).rows * AGGREGATED_ROW_COST + rows * GROUP_COST;
        let path =
            compat::create_foreign_upper_path(root, output, target, rows, STARTUP_COST, total, private.into_pg());
        pg_sys::add_path(output, path.cast());
        Some(())
    }
}

/// What the scan has to deliver: grouping columns, and every aggregate inside the target's expressions.
unsafe fn scan_target_list(
    parse: *mut pg_sys::Query,
    target: *mut pg_sys::PathTarget,
) -> Option<(*mut pg_sys::List, Vec<*mut pg_sys::Node>)> {
    // SAFETY: valid planner nodes; sortgrouprefs, where present, has one entry for each expression.
    unsafe {
        let mut tlist: *mut pg_sys::List = std::ptr::null_mut();
        let mut groups = Vec::new();
        let exprs = PgList::<pg_sys::Node>::from_pg((*target).exprs);
        let reference = |i: usize| if (*target).sortgrouprefs.is_null() { 0 } else { *(*target).sortgrouprefs.add(i) };
        for (i, expr) in exprs.iter_ptr().enumerate() {
            let grouping = reference(i) != 0
                && !pg_sys::get_sortgroupref_clause_noerr(reference(i), (*parse).groupClause).is_null();
            if grouping {
                groups.push(expr);
                let mut one = PgList::<pg_sys::Node>::new();
                one.push(expr);
                tlist = pg_sys::add_to_flat_tlist(tlist, one.into_pg());
            }
        }
        // Every grouping column must be in the target, or the engine would group by less.
        if groups.len() != PgList::<std::ffi::c_void>::from_pg((*parse).groupClause.cast()).len() {
            return None;
        }
        for (i, expr) in exprs.iter_ptr().enumerate() {
            if reference(i) != 0 && groups.contains(&expr) {
                continue;
            }
            let flags =
                pg_sys::PVC_INCLUDE_AGGREGATES | pg_sys::PVC_RECURSE_WINDOWFUNCS | pg_sys::PVC_RECURSE_PLACEHOLDERS;
            tlist = pg_sys::add_to_flat_tlist(tlist, pg_sys::pull_var_clause(expr, flags as i32));
        }
        (!tlist.is_null()).then_some((tlist, groups))
    }
}

/// `SELECT … FROM … WHERE … GROUP BY 1, 2`; grouping columns come first.
fn statement(source: Template, items: &[Item], groups: usize) -> Template {
    let mut sql = Template::default();
    sql.push("SELECT ");
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            sql.push(", ");
        }
        sql.append(item.sql.clone());
    }
    sql.append(source);
    if groups > 0 {
        let positions: Vec<String> = (1..=groups).map(|n| n.to_string()).collect();
        sql.push(&format!(" GROUP BY {}", positions.join(", ")));
    }
    sql
}

unsafe fn group_column(deparser: &Deparser, expr: *mut pg_sys::Node, attribute: i16) -> Option<Item> {
    // SAFETY: a valid expression.
    unsafe {
        let (name, ty) = deparser.column(expr)?;
        let shared_equality = match ty {
            ColumnType::Bool
            | ColumnType::Int2
            | ColumnType::Int4
            | ColumnType::Int8
            | ColumnType::Numeric { .. }
            | ColumnType::Uuid
            | ColumnType::Bytea
            | ColumnType::Date
            | ColumnType::Timestamp
            | ColumnType::Timestamptz => true,
            ColumnType::Text | ColumnType::Bpchar => collation::is_deterministic(pg_sys::exprCollation(expr)),
            _ => false,
        };
        shared_equality.then(|| {
            let mut sql = Template::default();
            sql.push(&if ty == ColumnType::Bpchar { unpadded(&name) } else { ty.to_wire(&name) });
            let typmod = pg_sys::exprTypmod(expr);
            Item { sql, output: Output::Column { attribute, ty, typmod, name } }
        })
    }
}

/// What an aggregate becomes.
enum Shape {
    Count,
    /// Sum of 16- or 32-bit integers: bigint.
    SumToInt8,
    /// Sum of bigint or decimals: numeric.
    SumToNumeric,
    Average,
    /// `min` or `max`.
    Extreme(&'static str),
}

fn shape(aggregate: u32) -> Option<Shape> {
    Some(match aggregate {
        pg_sys::F_COUNT_ | pg_sys::F_COUNT_ANY => Shape::Count,
        pg_sys::F_SUM_INT2 | pg_sys::F_SUM_INT4 => Shape::SumToInt8,
        pg_sys::F_SUM_INT8 | pg_sys::F_SUM_NUMERIC => Shape::SumToNumeric,
        pg_sys::F_AVG_INT2 | pg_sys::F_AVG_INT4 | pg_sys::F_AVG_INT8 | pg_sys::F_AVG_NUMERIC => Shape::Average,
        pg_sys::F_MIN_INT2
        | pg_sys::F_MIN_INT4
        | pg_sys::F_MIN_INT8
        | pg_sys::F_MIN_NUMERIC
        | pg_sys::F_MIN_DATE
        | pg_sys::F_MIN_TIMESTAMP
        | pg_sys::F_MIN_TIMESTAMPTZ => Shape::Extreme("min"),
        pg_sys::F_MAX_INT2
        | pg_sys::F_MAX_INT4
        | pg_sys::F_MAX_INT8
        | pg_sys::F_MAX_NUMERIC
        | pg_sys::F_MAX_DATE
        | pg_sys::F_MAX_TIMESTAMP
        | pg_sys::F_MAX_TIMESTAMPTZ => Shape::Extreme("max"),
        _ => return None,
    })
}

unsafe fn aggregate(deparser: &mut Deparser, node: *mut pg_sys::Aggref, attribute: i16) -> Option<Item> {
    // SAFETY: a valid Aggref of the query; its arguments are TargetEntries.
    unsafe {
        if (*node).aggsplit != pg_sys::AggSplit::AGGSPLIT_SIMPLE
            || !(*node).aggorder.is_null()
            || (*node).agglevelsup != 0
        {
            return None;
        }
        let shape = shape((*node).aggfnoid.to_u32())?;
        let distinct = !(*node).aggdistinct.is_null();
        if distinct && !matches!(shape, Shape::Count) {
            return None;
        }
        let mut filter = Template::default();
        if !(*node).aggfilter.is_null() {
            filter.push(" FILTER (WHERE ");
            filter.append(deparser.clause((*node).aggfilter.cast())?);
            filter.push(")");
        }
        let argument = PgList::<pg_sys::TargetEntry>::from_pg((*node).args).get_ptr(0);
        let column = match argument {
            Some(entry) => Some(deparser.column((*entry).expr.cast())?),
            None => None,
        };
        let column = match column {
            Some((name, ColumnType::Bpchar)) => Some((unpadded(&name), ColumnType::Bpchar)),
            other => other,
        };
        if distinct {
            group_column(deparser, (*argument?).expr.cast(), attribute)?;
        }
        let call = |function: &str, operand: &str| {
            let mut sql = Template::default();
            sql.push(&format!("{function}({}{operand})", if distinct { "DISTINCT " } else { "" }));
            sql.append(filter.clone());
            sql
        };
        let cast = |sql: Template, ty: &str| {
            let mut out = Template::default();
            out.push("CAST(");
            out.append(sql);
            out.push(&format!(" AS {ty})"));
            out
        };
        let name = String::from("aggregate");
        let result =
            |sql, ty| Some(Item { sql, output: Output::Column { attribute, ty, typmod: -1, name: name.clone() } });
        match (shape, column) {
            (Shape::Count, None) => result(call("count", "*"), ColumnType::Int8),
            (Shape::Count, Some((column, _))) => result(call("count", &column), ColumnType::Int8),
            (Shape::SumToInt8, Some((column, _))) => result(cast(call("sum", &column), "BIGINT"), ColumnType::Int8),
            (Shape::SumToNumeric, Some((column, ty))) => {
                let scale = summable_scale(ty)?;
                result(
                    cast(call("sum", &column), &format!("DECIMAL(38,{scale})")),
                    ColumnType::Numeric { precision: 38, scale },
                )
            }
            (Shape::Average, Some((column, ty))) => {
                let scale = summable_scale(ty)?;
                let mut sql = cast(call("sum", &column), &format!("DECIMAL(38,{scale})"));
                sql.push(", ");
                sql.append(call("count", &column));
                Some(Item { sql, output: Output::Average { attribute, scale, name } })
            }
            (Shape::Extreme(function), Some((column, ty))) => result(call(function, &column), ty),
            (_, None) => None,
        }
    }
}

/// Scale of an exact sum over the type, where 38 digits are enough for it.
fn summable_scale(ty: ColumnType) -> Option<i8> {
    match ty {
        ColumnType::Int2 | ColumnType::Int4 | ColumnType::Int8 => Some(0),
        ColumnType::Numeric { precision, scale } if precision <= SUMMABLE_DIGITS => Some(scale),
        _ => None,
    }
}

/// Makes the plan node of an aggregate scan.
///
/// # Safety
/// `best_path` was made by [`upper_paths`].
pub unsafe fn plan(
    best_path: *mut pg_sys::ForeignPath,
    tlist: *mut pg_sys::List,
    outer_plan: *mut pg_sys::Plan,
) -> *mut pg_sys::ForeignScan {
    // SAFETY: the private list has the three members that `add_aggregate_path` gave it.
    unsafe {
        let private = PgList::<std::ffi::c_void>::from_pg((*best_path).fdw_private);
        let scan_tlist = private.get_ptr(1).unwrap_or(std::ptr::null_mut());
        let values = private.get_ptr(2).unwrap_or(std::ptr::null_mut());
        let plan: ScanPlan = private::unpack((*best_path).fdw_private);
        pg_sys::make_foreignscan(
            tlist,
            std::ptr::null_mut(),
            0,
            values.cast(),
            private::pack(&plan),
            scan_tlist.cast(),
            std::ptr::null_mut(),
            outer_plan,
        )
    }
}
