//! The unified view of a tiered relation, recognised by its shape: `SELECT … FROM hot WHERE key >= C UNION ALL SELECT …
//! FROM cold WHERE key < C`. Its rule in the catalogue is the one source of the cutoff, so whoever holds a lock on the
//! view reads a cutoff that cannot be out of date.

#![allow(unsafe_code)]

use coldfront_common::sqlstate;
use pgrx::pg_sys;

use crate::{
    error::Error,
    pg::{catalog, io, node},
};

/// One side of a tiered relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    pub relation: pg_sys::Oid,
    /// Attribute behind each column of the view, in the view's order.
    pub attributes: Vec<i16>,
    /// Attribute of the partition key.
    pub key: i16,
    /// `key >= C` or `key < C`, with the side's own variable numbers.
    pub condition: *mut pg_sys::OpExpr,
}

impl Side {
    /// C of the condition, which is never NULL.
    pub fn cutoff(&self) -> Option<*mut pg_sys::Const> {
        // SAFETY: the shape was checked when the view was read; the tag is checked before the cast.
        unsafe {
            let value = node::members::<pg_sys::Node>((*self.condition).args).get(1).copied()?;
            node::cast::<pg_sys::Const, _>(value, pg_sys::NodeTag::T_Const).filter(|value| !(**value).constisnull)
        }
    }

    /// The same tier, where its key stands at another attribute: in the view, or in the other tier.
    pub fn with_key_at(&self, key: i16) -> Self {
        Self { key, ..self.clone() }
    }
}

/// A tiered relation as its view describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tiered {
    pub view: pg_sys::Oid,
    pub hot: Side,
    pub cold: Side,
}

impl Tiered {
    /// The relation behind a view, if it is tiered. The caller holds a lock on the view.
    pub fn of_view(view: pg_sys::Oid) -> Option<Self> {
        // SAFETY: the relation is open while its rule is copied.
        unsafe {
            let relation = pg_sys::RelationIdGetRelation(view);
            if relation.is_null() {
                return None;
            }
            let rule = select_rule(relation).filter(|query| is_union(*query)).map(|query| node::copy(query));
            pg_sys::RelationClose(relation);
            Self::of_query(view, rule?)
        }
    }

    /// The tiered relation that a view without triggers and rules of its own is defined on.
    pub fn beneath_view(view: pg_sys::Oid) -> Option<Self> {
        // SAFETY: the relation is open while its rule is read.
        let below = unsafe {
            let relation = pg_sys::RelationIdGetRelation(view);
            if relation.is_null() {
                return None;
            }
            let is_plain =
                (*relation).trigdesc.is_null() && (*relation).rd_rules.as_ref().is_some_and(|r| r.numLocks == 1);
            let entries = select_rule(relation).filter(|_| is_plain).map(|query| {
                node::members::<pg_sys::RangeTblEntry>((*query).rtable).into_iter().map(|e| *e).collect::<Vec<_>>()
            });
            pg_sys::RelationClose(relation);
            entries?
        };
        below
            .into_iter()
            .filter(|entry| {
                entry.rtekind == pg_sys::RTEKind::RTE_RELATION && entry.relkind as u8 == b'v' && entry.relid != view
            })
            .find_map(|entry| Self::of_view(entry.relid).or_else(|| Self::beneath_view(entry.relid)))
    }

    /// Reads the shape of a view's query.
    ///
    /// # Safety
    /// `query` is a Query.
    pub unsafe fn of_query(view: pg_sys::Oid, query: *mut pg_sys::Query) -> Option<Self> {
        // SAFETY: the tags are checked before the casts.
        unsafe {
            let union: *mut pg_sys::SetOperationStmt =
                node::cast((*query).setOperations, pg_sys::NodeTag::T_SetOperationStmt)?;
            if (*union).op != pg_sys::SetOperation::SETOP_UNION || !(*union).all {
                return None;
            }
            let hot = side(leaf(query, (*union).larg)?)?;
            let cold = side(leaf(query, (*union).rarg)?)?;
            let is_ours = catalog::relation_kind(cold.relation) == b'f' && catalog::is_cold_schema(cold.relation);
            (is_ours && hot.attributes.len() == cold.attributes.len()).then_some(Self { view, hot, cold })
        }
    }

    /// `schema.name` as users know it.
    pub fn name(&self) -> String {
        catalog::qualified_name(self.view)
    }

    /// Whether nothing can be cold yet: the cutoff of a relation of which nothing was archived is the smallest value of its
    /// type (`coldfront._key_min`).
    pub fn is_all_hot(&self) -> bool {
        let Some(cutoff) = self.cold.cutoff() else { return false };
        // SAFETY: a constant of the key's type.
        unsafe {
            let value = (*cutoff).constvalue;
            match (*cutoff).consttype {
                pg_sys::TIMESTAMPTZOID | pg_sys::TIMESTAMPOID | pg_sys::INT8OID => value.value() as i64 == i64::MIN,
                pg_sys::DATEOID => value.value() as i32 == i32::MIN,
                pg_sys::UUIDOID => io::uuid_bytes(value) == [0; 16],
                _ => false,
            }
        }
    }

    /// An error of a statement that is not possible on a tiered relation.
    pub fn refused(&self, what: &str, hint: &str) -> Error {
        Error::refused(
            sqlstate::FEATURE_NOT_SUPPORTED,
            format!("coldfront: {what} on {}, which is tiered", self.name()),
            hint,
        )
    }
}

/// Whether a query is a union at all, which is quickly seen.
///
/// # Safety
/// `query` is a Query.
pub unsafe fn is_union(query: *mut pg_sys::Query) -> bool {
    // SAFETY: the caller's promise.
    unsafe { !(*query).setOperations.is_null() && (*query).commandType == pg_sys::CmdType::CMD_SELECT }
}

/// The query of a view's ON SELECT rule.
unsafe fn select_rule(relation: pg_sys::Relation) -> Option<*mut pg_sys::Query> {
    // SAFETY: rd_rules is null or holds numLocks rules, whose actions are Query nodes.
    unsafe {
        let rules = (*relation).rd_rules.as_ref()?;
        (0..rules.numLocks as usize)
            .map(|i| *rules.rules.add(i))
            .find(|rule| (**rule).event == pg_sys::CmdType::CMD_SELECT)
            .and_then(|rule| node::members((*rule).actions).first().copied())
    }
}

/// The sub-query that an operand of the union refers to.
unsafe fn leaf(query: *mut pg_sys::Query, operand: *mut pg_sys::Node) -> Option<*mut pg_sys::Query> {
    // SAFETY: the tag is checked before the cast; range table indexes count from one.
    unsafe {
        let reference: *mut pg_sys::RangeTblRef = node::cast(operand, pg_sys::NodeTag::T_RangeTblRef)?;
        let entries = node::members::<pg_sys::RangeTblEntry>((*query).rtable);
        let entry = *entries.get((*reference).rtindex as usize - 1)?;
        ((*entry).rtekind == pg_sys::RTEKind::RTE_SUBQUERY).then_some((*entry).subquery)
    }
}

/// `SELECT a, b FROM relation WHERE key op constant`.
unsafe fn side(query: *mut pg_sys::Query) -> Option<Side> {
    // SAFETY: tags are checked before the casts.
    unsafe {
        let from = (*query).jointree;
        let [reference] = node::members::<pg_sys::RangeTblRef>((*from).fromlist)[..] else { return None };
        let rtindex = (*node::cast::<pg_sys::RangeTblRef, _>(reference, pg_sys::NodeTag::T_RangeTblRef)?).rtindex;
        let entry = *node::members::<pg_sys::RangeTblEntry>((*query).rtable).get(rtindex as usize - 1)?;
        if (*entry).rtekind != pg_sys::RTEKind::RTE_RELATION {
            return None;
        }
        let condition: *mut pg_sys::OpExpr = node::cast((*from).quals, pg_sys::NodeTag::T_OpExpr)?;
        let [key, cutoff] = node::members::<pg_sys::Node>((*condition).args)[..] else { return None };
        node::cast::<pg_sys::Const, _>(cutoff, pg_sys::NodeTag::T_Const)?;
        let attributes: Option<Vec<i16>> = node::members::<pg_sys::TargetEntry>((*query).targetList)
            .into_iter()
            .map(|target| attribute((*target).expr.cast(), rtindex))
            .collect();
        Some(Side { relation: (*entry).relid, attributes: attributes?, key: attribute(key, rtindex)?, condition })
    }
}

/// Attribute of a plain column.
unsafe fn attribute(expression: *mut pg_sys::Node, rtindex: i32) -> Option<i16> {
    // SAFETY: the tag is checked before the cast.
    unsafe {
        let var: *mut pg_sys::Var = node::cast(expression, pg_sys::NodeTag::T_Var)?;
        ((*var).varno == rtindex && (*var).varlevelsup == 0 && (*var).varattno > 0).then_some((*var).varattno)
    }
}
