//! One statement of several parts: each part writes to one tier, as an entry of a WITH clause that counts its rows for
//! the statement and hands its RETURNING rows up.
//!
//! All parts see the state before the statement. A row whose key is moved across the cutoff is deleted from one tier and
//! inserted into the other.

#![allow(unsafe_code)]

use pgrx::pg_sys;

use super::{
    new_row::NewRow,
    quals,
    route::{self, Which},
    view::Tiered,
};
use crate::{
    error::Result,
    pg::{catalog, compat, node},
};

/// Names for parts: those of a WITH clause are looked up by name, so they differ from the user's own.
pub struct Names {
    prefix: String,
    taken: Vec<String>,
}

impl Names {
    /// Names that begin with `prefix` for entries of the WITH clause of `query`.
    ///
    /// # Safety
    /// `query` is a Query.
    pub unsafe fn new(query: *mut pg_sys::Query, prefix: String) -> Self {
        // SAFETY: a list of CommonTableExprs.
        let taken = unsafe {
            node::members::<pg_sys::CommonTableExpr>((*query).cteList)
                .into_iter()
                .map(|cte| catalog::text((*cte).ctename))
                .collect()
        };
        Self { prefix, taken }
    }

    fn make(&mut self, label: &str) -> String {
        let mut name = format!("{} {label}", self.prefix);
        while self.taken.contains(&name) {
            name.push('\'');
        }
        self.taken.push(name.clone());
        name
    }
}

/// The parts of a statement.
pub struct Parts {
    /// Entries of the WITH clause, in order.
    parts: Vec<Part>,
    /// Columns that RETURNING has; a part's further columns are for other parts.
    returned: usize,
}

struct Part {
    name: String,
    query: *mut pg_sys::Query,
    /// Its first columns are rows of RETURNING, and it counts.
    is_result: bool,
    /// How many others read it.
    readers: i32,
}

impl Parts {
    unsafe fn new(query: *mut pg_sys::Query, parts: Vec<Part>) -> Self {
        // SAFETY: a Query.
        let returned = unsafe { node::members::<pg_sys::TargetEntry>((*query).returningList).len().max(1) };
        Self { parts, returned }
    }
}

/// Copies the statement without its WITH clause, which moves to the whole.
unsafe fn piece(query: *mut pg_sys::Query) -> *mut pg_sys::Query {
    // SAFETY: a deep copy is changed.
    unsafe {
        let out: *mut pg_sys::Query = node::copy(query);
        (*out).cteList = std::ptr::null_mut();
        (*out).hasModifyingCTE = false;
        (*out).hasRecursive = false;
        quals::lift_cte_references(out);
        ensure_returning(out);
        out
    }
}

/// A part is run by reading it, so it returns at least a constant.
unsafe fn ensure_returning(query: *mut pg_sys::Query) {
    // SAFETY: fresh nodes.
    unsafe {
        if (*query).returningList.is_null() {
            (*query).returningList = node::list([constant_one()]);
        }
    }
}

unsafe fn constant_one() -> *mut pg_sys::TargetEntry {
    // SAFETY: fresh nodes.
    unsafe {
        let one = pg_sys::makeConst(pg_sys::INT4OID, -1, pg_sys::InvalidOid, 4, pg_sys::Datum::from(1), false, true);
        pg_sys::makeTargetEntry(one.cast(), 1, node::c_string("?column?"), false)
    }
}

/// UPDATE or DELETE of rows of both tiers that stay where they are.
///
/// # Safety
/// The statement's target is the hot table.
pub unsafe fn both(query: *mut pg_sys::Query, tiered: &Tiered, names: &mut Names) -> Parts {
    // SAFETY: the caller's promise.
    unsafe {
        let hot = Part { name: names.make("hot"), query: on_hot(query, tiered), is_result: true, readers: 1 };
        let cold = Part { name: names.make("cold"), query: on_cold(query, tiered), is_result: true, readers: 1 };
        Parts::new(query, vec![hot, cold])
    }
}

/// The statement on the hot rows.
unsafe fn on_hot(query: *mut pg_sys::Query, tiered: &Tiered) -> *mut pg_sys::Query {
    // SAFETY: a copy is changed.
    unsafe {
        let hot = piece(query);
        quals::restrict(hot, quals::condition_on_column(&tiered.hot, (*hot).resultRelation));
        hot
    }
}

/// The statement on the cold rows.
unsafe fn on_cold(query: *mut pg_sys::Query, tiered: &Tiered) -> *mut pg_sys::Query {
    // SAFETY: a copy is changed.
    unsafe {
        let cold = piece(query);
        route::to_cold(cold, tiered);
        quals::restrict(cold, quals::condition_on_column(&tiered.cold, (*cold).resultRelation));
        cold
    }
}

/// INSERT from a source that is read once; each row goes to its tier.
///
/// # Safety
/// The statement's target is the hot table.
pub unsafe fn insert(query: *mut pg_sys::Query, tiered: &Tiered, names: &mut Names) -> Parts {
    // SAFETY: copies are changed; attribute numbers are the target's.
    unsafe {
        let source = piece(query);
        (*source).commandType = pg_sys::CmdType::CMD_SELECT;
        (*source).resultRelation = 0;
        (*source).returningList = std::ptr::null_mut();
        (*source).override_ = pg_sys::OverridingKind::OVERRIDING_NOT_SET;
        (*source).canSetTag = false;
        let attributes = number_columns((*source).targetList);
        let columns = node::members::<pg_sys::TargetEntry>((*source).targetList);
        let name = names.make("source");
        let from =
            Rows { name: &name, list: (*source).targetList, columns: attributes.into_iter().zip(columns).collect() };
        let (hot, cold) = (from.insert(query, tiered, Which::Hot), from.insert(query, tiered, Which::Cold));
        if let Some(below) = from.below(tiered) {
            quals::restrict(cold, node::copy(below));
            quals::restrict(hot, quals::is_not_true(below));
        }
        let parts = vec![
            Part { name: name.clone(), query: source, is_result: false, readers: 2 },
            Part { name: names.make("hot"), query: hot, is_result: true, readers: 1 },
            Part { name: names.make("cold"), query: cold, is_result: true, readers: 1 },
        ];
        Parts::new(query, parts)
    }
}

/// Numbers a target list from one; returns the attributes it had, in order.
unsafe fn number_columns(list: *mut pg_sys::List) -> Vec<i16> {
    // SAFETY: a target list.
    unsafe {
        let mut attributes = Vec::new();
        for (i, target) in node::members::<pg_sys::TargetEntry>(list).into_iter().enumerate() {
            attributes.push((*target).resno);
            (*target).resno = i as i16 + 1;
            (*target).resjunk = false;
            if (*target).resname.is_null() {
                (*target).resname = node::c_string(&format!("column{}", i + 1));
            }
        }
        attributes
    }
}

/// New rows of the relation that a part delivers.
struct Rows<'a> {
    /// The part.
    name: &'a str,
    /// All its columns.
    list: *mut pg_sys::List,
    /// Attribute of the hot table and column of the part.
    columns: Vec<(i16, *mut pg_sys::TargetEntry)>,
}

/// Index of the source in the range table of an INSERT from a part; the target has 1.
const SOURCE: i32 = 2;

impl Rows<'_> {
    /// `key < C` on a column of the part.
    unsafe fn below(&self, tiered: &Tiered) -> Option<*mut pg_sys::Node> {
        // SAFETY: columns are those of the part.
        unsafe {
            let (_, key) = self.columns.iter().find(|(attribute, _)| *attribute == tiered.hot.key)?;
            Some(quals::condition_on(&tiered.cold, pg_sys::makeVarFromTargetEntry(SOURCE, *key).cast()))
        }
    }

    /// `INSERT INTO tier SELECT … FROM part` with the statement's RETURNING.
    unsafe fn insert(&self, query: *mut pg_sys::Query, tiered: &Tiered, to: Which) -> *mut pg_sys::Query {
        // SAFETY: copies and fresh nodes.
        unsafe {
            let out: *mut pg_sys::Query = node::make(pg_sys::NodeTag::T_Query);
            (*out).commandType = pg_sys::CmdType::CMD_INSERT;
            let target = node::copy(quals::entry(query, (*query).resultRelation));
            let info = node::copy(pg_sys::getRTEPermissionInfo((*query).rteperminfos, target));
            (*target).perminfoindex = 1;
            (*out).rteperminfos = node::list([info]);
            // The view marks the part as one of a tiered statement; its privileges are checked where the statement starts.
            let view: *mut pg_sys::RangeTblEntry = node::copy(route::tiered_view(query));
            (*view).perminfoindex = 0;
            (*out).rtable = node::list([target, self.reference(), view]);
            (*out).resultRelation = 1;
            (*out).returningList = node::copy((*query).returningList);
            pg_sys::ChangeVarNodes((*out).returningList.cast(), (*query).resultRelation, 1, 0);
            (*out).hasSubLinks = (*query).hasSubLinks;
            let targets = self.columns.iter().map(|(attribute, column)| {
                let var = pg_sys::makeVarFromTargetEntry(SOURCE, *column);
                pg_sys::makeTargetEntry(var.cast(), *attribute, (**column).resname, false)
            });
            (*out).targetList = node::list(targets);
            let from: *mut pg_sys::RangeTblRef = node::make(pg_sys::NodeTag::T_RangeTblRef);
            (*from).rtindex = SOURCE;
            (*out).jointree = pg_sys::makeFromExpr(node::list([from]), std::ptr::null_mut());
            compat::copy_returning_aliases(query, out);
            if to == Which::Cold {
                route::to_cold(out, tiered);
            }
            lift_in_returning(out);
            ensure_returning(out);
            out
        }
    }

    /// A range table entry for the part.
    unsafe fn reference(&self) -> *mut pg_sys::RangeTblEntry {
        // SAFETY: fresh nodes.
        unsafe { reference(self.name, &node::members(self.list), 1) }
    }
}

/// Sub-selects in RETURNING may read the statement's WITH clause, which moves up. The reference to the part does not.
unsafe fn lift_in_returning(query: *mut pg_sys::Query) {
    // SAFETY: the source's own level is put back.
    unsafe {
        quals::lift_cte_references(query);
        (*quals::entry(query, SOURCE)).ctelevelsup = 1;
    }
}

/// A range table entry for a part of the WITH clause `levels` up.
unsafe fn reference(name: &str, columns: &[*mut pg_sys::TargetEntry], levels: u32) -> *mut pg_sys::RangeTblEntry {
    // SAFETY: fresh nodes; the columns are a target list.
    unsafe {
        let entry: *mut pg_sys::RangeTblEntry = node::make(pg_sys::NodeTag::T_RangeTblEntry);
        (*entry).rtekind = pg_sys::RTEKind::RTE_CTE;
        (*entry).ctename = node::c_string(name);
        (*entry).ctelevelsup = levels;
        (*entry).inFromCl = true;
        (*entry).coltypes = types(columns);
        (*entry).coltypmods = typmods(columns);
        (*entry).colcollations = collations(columns);
        let names = node::list(columns.iter().map(|c| pg_sys::makeString((**c).resname)));
        (*entry).eref = pg_sys::makeAlias((*entry).ctename, names);
        entry
    }
}

unsafe fn types(columns: &[*mut pg_sys::TargetEntry]) -> *mut pg_sys::List {
    // SAFETY: a target list.
    unsafe { node::oid_list(columns.iter().map(|c| pg_sys::exprType((**c).expr.cast()))) }
}

unsafe fn typmods(columns: &[*mut pg_sys::TargetEntry]) -> *mut pg_sys::List {
    // SAFETY: a target list.
    unsafe { node::int_list(columns.iter().map(|c| pg_sys::exprTypmod((**c).expr.cast()))) }
}

unsafe fn collations(columns: &[*mut pg_sys::TargetEntry]) -> *mut pg_sys::List {
    // SAFETY: a target list.
    unsafe { node::oid_list(columns.iter().map(|c| pg_sys::exprCollation((**c).expr.cast()))) }
}

/// UPDATE that assigns the partition key. `side` is where all rows end up, if that is known; `hot` and `cold` tell where
/// rows may come from.
///
/// # Safety
/// The statement's target is the hot table and it assigns `key`.
pub unsafe fn update_key(
    query: *mut pg_sys::Query,
    tiered: &Tiered,
    key: *mut pg_sys::Node,
    side: Option<Which>,
    (hot, cold): (bool, bool),
    names: &mut Names,
) -> Result<Parts> {
    // SAFETY: copies are changed.
    unsafe {
        if side.is_none() && pg_sys::contain_volatile_functions(key) {
            return Err(tiered.refused(
                "a volatile function in SET of the partition column does not work",
                "Compute the new values first, in a temporary table or a WITH clause, and update from there.",
            ));
        }
        let mut parts = Vec::new();
        for (from, possible) in [(Which::Hot, hot), (Which::Cold, cold)] {
            if possible && side.is_none_or(|to| to == from) {
                let stays = on(query, tiered, from);
                quals::restrict(stays, ends_in(stays, tiered, from, from));
                let name = names.make(if from == Which::Hot { "hot" } else { "cold" });
                parts.push(Part { name, query: stays, is_result: true, readers: 1 });
            }
            if possible && side.is_none_or(|to| to != from) {
                add_move(&mut parts, query, tiered, from, names)?;
            }
        }
        Ok(Parts::new(query, parts))
    }
}

unsafe fn on(query: *mut pg_sys::Query, tiered: &Tiered, tier: Which) -> *mut pg_sys::Query {
    // SAFETY: copies are changed.
    unsafe { if tier == Which::Hot { on_hot(query, tiered) } else { on_cold(query, tiered) } }
}

/// The condition that the new key of `piece`, whose target is the tier `from`, lies in the tier `to`.
unsafe fn ends_in(piece: *mut pg_sys::Query, tiered: &Tiered, from: Which, to: Which) -> *mut pg_sys::Node {
    // SAFETY: the piece assigns the key.
    unsafe {
        let attribute = if from == Which::Hot { tiered.hot.key } else { tiered.cold.key };
        let assigned = node::members::<pg_sys::TargetEntry>((*piece).targetList)
            .into_iter()
            .find(|target| !(**target).resjunk && (**target).resno == attribute)
            .map(|target| node::copy((*target).expr).cast::<pg_sys::Node>())
            .expect("the statement assigns the key");
        let below = quals::condition_on(&tiered.cold, assigned);
        if to == Which::Cold { below } else { quals::is_not_true(below) }
    }
}

/// Adds the parts that move rows from one tier to the other: DELETE … RETURNING of the new rows, and their INSERT.
unsafe fn add_move(
    parts: &mut Vec<Part>,
    query: *mut pg_sys::Query,
    tiered: &Tiered,
    from: Which,
    names: &mut Names,
) -> Result<()> {
    // SAFETY: copies are changed.
    unsafe {
        let away = on(query, tiered, from);
        let (home, to) = if from == Which::Hot { (&tiered.hot, Which::Cold) } else { (&tiered.cold, Which::Hot) };
        quals::restrict(away, ends_in(away, tiered, from, to));
        let new_row = NewRow::of(away, home);
        if new_row.has_multi_assignment() {
            return Err(tiered.refused(
                "SET (…) = (SELECT …) together with the partition column does not work",
                "Assign each column by itself, with FROM instead of a sub-select.",
            ));
        }
        // RETURNING of the statement speaks of the new row, which a DELETE does not know.
        let returned = node::members::<pg_sys::TargetEntry>((*away).returningList);
        let visible = returned.len();
        let mut columns = Vec::new();
        for target in returned {
            let Some(expression) = new_row.substitute((*target).expr.cast()) else {
                return Err(tiered.refused(
                    "RETURNING of a whole row together with SET of the partition column does not work",
                    "Name the columns in RETURNING.",
                ));
            };
            columns.push(pg_sys::makeTargetEntry(expression.cast(), 0, (*target).resname, false));
        }
        let moved = new_row.columns();
        columns.extend(moved.iter().map(|(_, e)| pg_sys::makeTargetEntry(e.cast(), 0, std::ptr::null_mut(), false)));
        (*away).commandType = pg_sys::CmdType::CMD_DELETE;
        (*away).targetList = std::ptr::null_mut();
        (*away).returningList = node::list(columns);
        number_columns((*away).returningList);
        let permissions =
            pg_sys::getRTEPermissionInfo((*away).rteperminfos, quals::entry(away, (*away).resultRelation));
        (*permissions).updatedCols = std::ptr::null_mut();
        let label = if from == Which::Hot { "hot to cold" } else { "cold to hot" };
        let name = names.make(label);
        let attributes = moved.iter().map(|(at, _)| tiered.hot.attributes[*at]);
        let all = node::members::<pg_sys::TargetEntry>((*away).returningList);
        let rows = Rows {
            name: &name,
            list: (*away).returningList,
            columns: attributes.zip(all.into_iter().skip(visible)).collect(),
        };
        let arrive = rows.insert(query, tiered, to);
        // They were counted, and returned, where they left.
        (*arrive).returningList = node::list([constant_one()]);
        (*arrive).hasSubLinks = false;
        let arriving = names.make(if to == Which::Hot { "into hot" } else { "into cold" });
        parts.push(Part { name, query: away, is_result: true, readers: 2 });
        parts.push(Part { name: arriving, query: arrive, is_result: false, readers: 0 });
        Ok(())
    }
}

/// Entries of a WITH clause for the parts.
unsafe fn entries(parts: &Parts, sets_tag: bool) -> Vec<*mut pg_sys::CommonTableExpr> {
    // SAFETY: fresh nodes.
    unsafe {
        parts
            .parts
            .iter()
            .map(|part| {
                (*part.query).canSetTag = sets_tag && part.is_result;
                let cte: *mut pg_sys::CommonTableExpr = node::make(pg_sys::NodeTag::T_CommonTableExpr);
                (*cte).ctename = node::c_string(&part.name);
                (*cte).ctematerialized = pg_sys::CTEMaterialize::CTEMaterializeAlways;
                (*cte).ctequery = part.query.cast();
                (*cte).location = -1;
                (*cte).cterefcount = part.readers;
                let columns = columns_of(part.query);
                (*cte).ctecolnames = node::list(columns.iter().map(|c| pg_sys::makeString((**c).resname)));
                (*cte).ctecoltypes = types(&columns);
                (*cte).ctecoltypmods = typmods(&columns);
                (*cte).ctecolcollations = collations(&columns);
                cte
            })
            .collect()
    }
}

/// What a part delivers.
unsafe fn columns_of(query: *mut pg_sys::Query) -> Vec<*mut pg_sys::TargetEntry> {
    // SAFETY: a Query.
    unsafe {
        node::members(if (*query).commandType == pg_sys::CmdType::CMD_SELECT {
            (*query).targetList
        } else {
            (*query).returningList
        })
    }
}

/// `SELECT … FROM part UNION ALL SELECT … FROM part`: runs all parts that are results. `levels` is how far up their
/// WITH clause is.
unsafe fn read_all(parts: &Parts, levels: u32) -> *mut pg_sys::Query {
    // SAFETY: fresh nodes.
    unsafe {
        let mut reads: Vec<_> = parts.parts.iter().filter(|part| part.is_result).collect();
        let single = reads.len() == 1;
        let depth = if single { levels } else { levels + 1 };
        let mut selects: Vec<*mut pg_sys::Query> =
            reads.drain(..).map(|part| read_one(part, parts.returned, depth)).collect();
        if single {
            return selects.remove(0);
        }
        let out: *mut pg_sys::Query = node::make(pg_sys::NodeTag::T_Query);
        (*out).commandType = pg_sys::CmdType::CMD_SELECT;
        let columns = node::members::<pg_sys::TargetEntry>((*selects[0]).targetList);
        let mut tree: *mut pg_sys::Node = std::ptr::null_mut();
        for (i, select) in selects.into_iter().enumerate() {
            let entry: *mut pg_sys::RangeTblEntry = node::make(pg_sys::NodeTag::T_RangeTblEntry);
            (*entry).rtekind = pg_sys::RTEKind::RTE_SUBQUERY;
            (*entry).subquery = select;
            let names = node::list(columns.iter().map(|c| pg_sys::makeString((**c).resname)));
            (*entry).eref = pg_sys::makeAlias(c"part".as_ptr(), names);
            (*out).rtable = pg_sys::lappend((*out).rtable, entry.cast());
            let leaf: *mut pg_sys::RangeTblRef = node::make(pg_sys::NodeTag::T_RangeTblRef);
            (*leaf).rtindex = i as i32 + 1;
            if tree.is_null() {
                tree = leaf.cast();
                continue;
            }
            let union: *mut pg_sys::SetOperationStmt = node::make(pg_sys::NodeTag::T_SetOperationStmt);
            (*union).op = pg_sys::SetOperation::SETOP_UNION;
            (*union).all = true;
            (*union).larg = tree;
            (*union).rarg = leaf.cast();
            (*union).colTypes = types(&columns);
            (*union).colTypmods = typmods(&columns);
            (*union).colCollations = collations(&columns);
            tree = union.cast();
        }
        (*out).setOperations = tree;
        (*out).jointree = pg_sys::makeFromExpr(std::ptr::null_mut(), std::ptr::null_mut());
        (*out).targetList = select_list(&columns);
        out
    }
}

/// `SELECT` of the first `returned` columns of a part.
unsafe fn read_one(part: &Part, returned: usize, levels: u32) -> *mut pg_sys::Query {
    // SAFETY: fresh nodes.
    unsafe {
        let columns = columns_of(part.query);
        let out: *mut pg_sys::Query = node::make(pg_sys::NodeTag::T_Query);
        (*out).commandType = pg_sys::CmdType::CMD_SELECT;
        (*out).rtable = node::list([reference(&part.name, &columns, levels)]);
        let from: *mut pg_sys::RangeTblRef = node::make(pg_sys::NodeTag::T_RangeTblRef);
        (*from).rtindex = 1;
        (*out).jointree = pg_sys::makeFromExpr(node::list([from]), std::ptr::null_mut());
        (*out).targetList = select_list(&columns[..returned]);
        out
    }
}

/// The columns of range table entry 1.
unsafe fn select_list(columns: &[*mut pg_sys::TargetEntry]) -> *mut pg_sys::List {
    // SAFETY: fresh nodes.
    unsafe {
        node::list(columns.iter().enumerate().map(|(i, column)| {
            let var = pg_sys::makeVarFromTargetEntry(1, *column);
            pg_sys::makeTargetEntry(var.cast(), i as i16 + 1, (**column).resname, false)
        }))
    }
}

/// The statement as a whole: its own WITH clause, the parts, and a SELECT that runs them.
///
/// # Safety
/// `parts` were made from `query`.
pub unsafe fn whole(query: *mut pg_sys::Query, parts: Parts) -> *mut pg_sys::Query {
    // SAFETY: the caller's promise.
    unsafe {
        let out = read_all(&parts, 0);
        (*out).cteList = pg_sys::list_concat((*query).cteList, node::list(entries(&parts, (*query).canSetTag)));
        (*out).hasModifyingCTE = true;
        (*out).hasRecursive = (*query).hasRecursive;
        (*out).canSetTag = (*query).canSetTag;
        (*out).querySource = (*query).querySource;
        (*out).queryId = (*query).queryId;
        (*out).stmt_location = (*query).stmt_location;
        (*out).stmt_len = (*query).stmt_len;
        out
    }
}

/// Replaces an entry of a WITH clause by the parts and a SELECT that reads them.
///
/// # Safety
/// `parts` were made from the query of `cte`, which is an entry of `parent`.
pub unsafe fn entry(parent: *mut pg_sys::Query, cte: *mut pg_sys::CommonTableExpr, parts: Parts) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut list = Vec::new();
        for known in node::members::<pg_sys::CommonTableExpr>((*parent).cteList) {
            if known == cte {
                list.extend(entries(&parts, false));
            }
            list.push(known);
        }
        (*cte).ctequery = read_all(&parts, 1).cast();
        (*parent).cteList = node::list(list);
    }
}
