//! PostgreSQL expressions to engine SQL, for what the whitelist allows.

#![allow(unsafe_code)]

use coldfront_common::{quote, types::ColumnType};
use pgrx::{PgList, is_a, pg_sys};

use super::{
    literal,
    ship::{self, Condition},
    template::{Piece, Template},
};
use crate::pg::{catalog, collation, io};

impl Operand {
    /// `char(n)` compares without its padding; a column may hold some that another program wrote.
    fn unpadded(mut self) -> Self {
        if self.is_column {
            let name = self.sql.display();
            self.sql = Template::default();
            self.sql.push(&unpadded(&name));
        }
        self
    }
}

/// A string column without trailing blanks.
pub fn unpadded(column: &str) -> String {
    format!("rtrim({column}, ' ')")
}

/// Turns expressions over one cold relation into engine SQL.
pub struct Deparser {
    pub root: *mut pg_sys::PlannerInfo,
    /// Range table index of the relation.
    pub relid: pg_sys::Index,
    pub relation: pg_sys::Oid,
    /// Expressions whose values the executor supplies; [`Piece::Value`] counts them.
    pub values: Vec<*mut pg_sys::Expr>,
}

/// An operand: its SQL and what the conditions ask about it.
struct Operand {
    sql: Template,
    is_column: bool,
    /// Type of the column, or of the constant's declaration.
    ty: Option<ColumnType>,
    /// A non-null constant's text form, where it is a constant.
    constant: Option<String>,
}

impl Deparser {
    /// SQL of a boolean clause, or `None` when PostgreSQL has to evaluate it.
    ///
    /// # Safety
    /// `node` is an expression of the planner's tree for `root`.
    pub unsafe fn clause(&mut self, node: *mut pg_sys::Node) -> Option<Template> {
        let known = self.values.len();
        // SAFETY: the caller's promise.
        let out = unsafe { self.boolean(node) };
        if out.is_none() {
            self.values.truncate(known);
        }
        out
    }

    /// # Safety
    /// As for [`Deparser::clause`].
    unsafe fn boolean(&mut self, node: *mut pg_sys::Node) -> Option<Template> {
        // SAFETY: each cast follows a check of the node's tag.
        unsafe {
            if is_a(node, pg_sys::NodeTag::T_OpExpr) {
                return self.comparison(node.cast());
            }
            if is_a(node, pg_sys::NodeTag::T_BoolExpr) {
                return self.connective(node.cast());
            }
            if is_a(node, pg_sys::NodeTag::T_NullTest) {
                let test = node.cast::<pg_sys::NullTest>();
                if (*test).argisrow {
                    return None;
                }
                let (name, ty) = self.column((*test).arg.cast())?;
                let mut sql = Template::default();
                let is_null = (*test).nulltesttype == pg_sys::NullTestType::IS_NULL;
                sql.push(&format!("({name} IS {}NULL)", if is_null { "" } else { "NOT " }));
                return Some(if stored_as_text(ty) { unpruned(sql) } else { sql });
            }
            if is_a(node, pg_sys::NodeTag::T_BooleanTest) {
                let test = node.cast::<pg_sys::BooleanTest>();
                let arg = self.boolean((*test).arg.cast())?;
                let suffix = match (*test).booltesttype {
                    pg_sys::BoolTestType::IS_TRUE => "IS TRUE",
                    pg_sys::BoolTestType::IS_NOT_TRUE => "IS NOT TRUE",
                    pg_sys::BoolTestType::IS_FALSE => "IS FALSE",
                    pg_sys::BoolTestType::IS_NOT_FALSE => "IS NOT FALSE",
                    pg_sys::BoolTestType::IS_UNKNOWN => "IS NULL",
                    _ => "IS NOT NULL",
                };
                return Some(wrap("(", arg, &format!(" {suffix})")));
            }
            if is_a(node, pg_sys::NodeTag::T_ScalarArrayOpExpr) {
                return self.any_of(node.cast());
            }
            let (name, ty) = self.column(node)?;
            (ty == ColumnType::Bool).then(|| {
                let mut sql = Template::default();
                sql.push(&name);
                sql
            })
        }
    }

    /// # Safety
    /// `expr` is a BoolExpr.
    unsafe fn connective(&mut self, expr: *mut pg_sys::BoolExpr) -> Option<Template> {
        // SAFETY: args is a list of expressions.
        unsafe {
            let args = PgList::<pg_sys::Node>::from_pg((*expr).args);
            if (*expr).boolop == pg_sys::BoolExprType::NOT_EXPR {
                return Some(wrap("(NOT ", self.boolean(args.get_ptr(0)?)?, ")"));
            }
            let word = if (*expr).boolop == pg_sys::BoolExprType::AND_EXPR { " AND " } else { " OR " };
            let mut sql = Template::default();
            sql.push("(");
            for (i, arg) in args.iter_ptr().enumerate() {
                if i > 0 {
                    sql.push(word);
                }
                sql.append(self.boolean(arg)?);
            }
            sql.push(")");
            Some(sql)
        }
    }

    /// # Safety
    /// `expr` is an OpExpr.
    unsafe fn comparison(&mut self, expr: *mut pg_sys::OpExpr) -> Option<Template> {
        // SAFETY: args is a list of expressions.
        unsafe {
            let args = PgList::<pg_sys::Node>::from_pg((*expr).args);
            let (2, Some(left), Some(right)) = (args.len(), args.get_ptr(0), args.get_ptr(1)) else { return None };
            let operator = ship::operator(pg_sys::get_opcode((*expr).opno))?;
            let runtime = !matches!(operator.condition, Condition::Float | Condition::Numeric | Condition::Pattern);
            let left = self.operand(left, runtime)?;
            let right = self.operand(right, runtime)?;
            let (left, right) = if operator.condition == Condition::Padded {
                (left.unpadded(), right.unpadded())
            } else {
                (left, right)
            };
            let constant_beside_column =
                (left.is_column && right.constant.is_some()) || (right.is_column && left.constant.is_some());
            let allowed = match operator.condition {
                Condition::Always => true,
                Condition::Deterministic | Condition::Padded => collation::is_deterministic((*expr).inputcollid),
                Condition::Bytewise => collation::is_bytewise((*expr).inputcollid),
                Condition::Pattern => {
                    collation::is_deterministic((*expr).inputcollid)
                        && left.is_column
                        && right.constant.as_ref().is_some_and(|pattern| !pattern.contains('\\'))
                }
                Condition::Float => constant_beside_column,
                Condition::Numeric => constant_beside_column && fits_one_decimal(&left, &right),
            };
            if !allowed {
                return None;
            }
            if operator.condition != Condition::Float {
                let stored_as_text = [&left, &right].iter().any(|o| o.ty.is_some_and(stored_as_text));
                let comparison = join(left.sql, operator.symbol, right.sql);
                return Some(if stored_as_text { unpruned(comparison) } else { comparison });
            }
            // NaN is above every number and file statistics do not count it.
            let nan_matches = match operator.symbol {
                "<>" => true,
                ">" | ">=" => left.is_column,
                "<" | "<=" => right.is_column,
                _ => false,
            };
            if !nan_matches {
                return Some(join(left.sql, operator.symbol, right.sql));
            }
            let column = if left.is_column { left.sql.display() } else { right.sql.display() };
            let comparison = join(left.sql, operator.symbol, right.sql);
            Some(wrap("(", comparison, &format!(" OR isnan({column}))")))
        }
    }

    /// `x = ANY (array)` and `x <> ALL (array)`.
    ///
    /// # Safety
    /// `expr` is a ScalarArrayOpExpr.
    unsafe fn any_of(&mut self, expr: *mut pg_sys::ScalarArrayOpExpr) -> Option<Template> {
        // SAFETY: args is a list of two expressions.
        unsafe {
            let args = PgList::<pg_sys::Node>::from_pg((*expr).args);
            let (left, right) = (args.get_ptr(0)?, args.get_ptr(1)?);
            let operator = ship::operator(pg_sys::get_opcode((*expr).opno))?;
            let word = match (operator.symbol, (*expr).useOr) {
                ("=", true) => " IN ",
                ("<>", false) => " NOT IN ",
                _ => return None,
            };
            match operator.condition {
                Condition::Always => {}
                Condition::Deterministic | Condition::Padded if collation::is_deterministic((*expr).inputcollid) => {}
                _ => return None,
            }
            let mut column = self.operand(left, false)?;
            if operator.condition == Condition::Padded {
                column = column.unpadded();
            }
            let element = pg_sys::get_element_type(pg_sys::exprType(right));
            let ty = ColumnType::from_postgres(element.to_u32(), -1).ok()?;
            if !column.is_column || !renderable(ty) {
                return None;
            }
            let n = self.value(right)?;
            let mut sql = Template::default();
            sql.push("(");
            sql.append(column.sql);
            sql.push(word);
            sql.0.push(Piece::Values(n, ty));
            sql.push(")");
            Some(if column.ty.is_some_and(stored_as_text) { unpruned(sql) } else { sql })
        }
    }

    /// A column, a constant, or (where `runtime` allows it) anything that does not depend on the relation's rows.
    ///
    /// # Safety
    /// As for [`Deparser::clause`].
    unsafe fn operand(&mut self, node: *mut pg_sys::Node, runtime: bool) -> Option<Operand> {
        // SAFETY: each cast follows a check of the node's tag.
        unsafe {
            if let Some((name, ty)) = self.column(node) {
                let mut sql = Template::default();
                sql.push(&name);
                return Some(Operand { sql, is_column: true, ty: Some(ty), constant: None });
            }
            let type_oid = pg_sys::exprType(node);
            let bare = strip_relabel(node);
            if is_a(bare, pg_sys::NodeTag::T_Const) {
                let constant = bare.cast::<pg_sys::Const>();
                if (*constant).constisnull {
                    return None;
                }
                let text = io::output((*constant).constvalue, (*constant).consttype);
                let mut sql = Template::default();
                if type_oid.to_u32() == coldfront_common::types::oid::NUMERIC {
                    sql.push(&numeric_constant(&text)?);
                } else {
                    let ty = ColumnType::from_postgres(type_oid.to_u32(), -1).ok()?;
                    sql.push(&literal::render(ty, (*constant).constvalue)?);
                }
                return Some(Operand { sql, is_column: false, ty: None, constant: Some(text) });
            }
            if !runtime {
                return None;
            }
            let ty = ColumnType::from_postgres(type_oid.to_u32(), -1).ok()?;
            if !renderable(ty) {
                return None;
            }
            let n = self.value(node)?;
            Some(Operand { sql: Template(vec![Piece::Value(n, ty)]), is_column: false, ty: None, constant: None })
        }
    }

    /// Registers an expression for evaluation by the executor, if it depends on no row and is not volatile.
    ///
    /// # Safety
    /// As for [`Deparser::clause`].
    unsafe fn value(&mut self, node: *mut pg_sys::Node) -> Option<usize> {
        // SAFETY: the functions walk a valid expression tree.
        unsafe {
            if !pg_sys::pull_varnos(self.root, node).is_null()
                || pg_sys::contain_volatile_functions(node)
                || pg_sys::contain_subplans(node)
            {
                return None;
            }
        }
        self.values.push(node.cast());
        Some(self.values.len() - 1)
    }

    /// The quoted name and type of a plain column of the relation; none for a widened one, whose filters the engine would
    /// narrow to the type of each file.
    ///
    /// # Safety
    /// As for [`Deparser::clause`].
    pub unsafe fn column(&self, node: *mut pg_sys::Node) -> Option<(String, ColumnType)> {
        // SAFETY: each cast follows a check of the node's tag.
        unsafe {
            let node = strip_relabel(node);
            if !is_a(node, pg_sys::NodeTag::T_Var) {
                return None;
            }
            let var = node.cast::<pg_sys::Var>();
            if (*var).varno as pg_sys::Index != self.relid || (*var).varlevelsup != 0 || (*var).varattno <= 0 {
                return None;
            }
            if catalog::is_widened(self.relation, (*var).varattno) {
                return None;
            }
            let ty = ColumnType::from_postgres((*var).vartype.to_u32(), (*var).vartypmod).ok()?;
            Some((quote::ident(&catalog::column_name(self.relation, (*var).varattno)), ty))
        }
    }
}

/// Types that [`literal::render`] can render whatever the value.
fn renderable(ty: ColumnType) -> bool {
    matches!(
        ty,
        ColumnType::Bool
            | ColumnType::Int2
            | ColumnType::Int4
            | ColumnType::Int8
            | ColumnType::Text
            | ColumnType::Bpchar
            | ColumnType::Uuid
            | ColumnType::Bytea
            | ColumnType::Date
            | ColumnType::Timestamp
            | ColumnType::Timestamptz
    )
}

/// Whether the lake keeps the type as a string.
fn stored_as_text(ty: ColumnType) -> bool {
    ty.storage_type() == "VARCHAR"
}

/// Keeps the engine from pruning files by the bounds of a string column: it cuts bounds inside characters, and then
/// any pruning on that column fails. `filename` is never NULL, so the meaning stays.
fn unpruned(clause: Template) -> Template {
    wrap("(", clause, " OR filename IS NULL)")
}

/// Whether a column and a constant have a common decimal type of at most 38 digits.
fn fits_one_decimal(left: &Operand, right: &Operand) -> bool {
    let (column, constant) = if left.is_column { (left, right) } else { (right, left) };
    let (Some(ColumnType::Numeric { precision, scale }), Some(text)) = (column.ty, &constant.constant) else {
        return false;
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('-').trim_start_matches('0').len();
    let (precision, scale) = (usize::from(precision), scale as usize);
    whole.max(precision - scale) + fraction.len().max(scale) <= 38
}

/// A decimal literal that fits a decimal of 38 digits beside a column of any scale, or `None`.
fn numeric_constant(text: &str) -> Option<String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = !whole.is_empty() && whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit());
    let significant = whole.trim_start_matches('0').len();
    (plain && significant + fraction.len() <= 38).then(|| {
        let precision = (significant + fraction.len()).max(1);
        format!("CAST({} AS DECIMAL({precision},{}))", quote::literal(text), fraction.len())
    })
}

/// Looks through relabelling between `varchar` and `text`.
unsafe fn strip_relabel(mut node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: the cast follows a check of the tag.
    unsafe {
        while is_a(node, pg_sys::NodeTag::T_RelabelType) {
            let relabel = node.cast::<pg_sys::RelabelType>();
            if (*relabel).resulttype != pg_sys::TEXTOID && (*relabel).resulttype != pg_sys::VARCHAROID {
                break;
            }
            node = (*relabel).arg.cast();
        }
        node
    }
}

fn wrap(before: &str, inner: Template, after: &str) -> Template {
    let mut sql = Template::default();
    sql.push(before);
    sql.append(inner);
    sql.push(after);
    sql
}

fn join(left: Template, symbol: &str, right: Template) -> Template {
    let mut sql = wrap("(", left, " ");
    sql.push(symbol);
    sql.push(" ");
    sql.append(right);
    sql.push(")");
    sql
}
