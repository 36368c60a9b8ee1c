//! Look-ups in the system catalogues that need no SQL.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};

use coldfront_common::ident::TableRef;
use pgrx::{PgList, pg_sys};

/// Text behind a C string that may be null.
///
/// # Safety
/// `text` is null or points at a NUL-terminated string.
pub unsafe fn text(text: *const std::ffi::c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe { if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() } }
}

/// OID of a relation, or zero.
pub fn relation_oid(schema: &str, name: &str) -> u32 {
    let (Ok(schema), Ok(name)) = (CString::new(schema), CString::new(name)) else { return 0 };
    // SAFETY: syscache look-ups with valid C strings, inside a transaction.
    unsafe {
        let namespace = pg_sys::get_namespace_oid(schema.as_ptr(), true);
        if namespace == pg_sys::InvalidOid { 0 } else { pg_sys::get_relname_relid(name.as_ptr(), namespace).to_u32() }
    }
}

/// Kind of a relation as in `pg_class.relkind`; zero for none.
pub fn relation_kind(relation: pg_sys::Oid) -> u8 {
    // SAFETY: a syscache look-up.
    unsafe { pg_sys::get_rel_relkind(relation) as u8 }
}

/// `schema.name` for messages.
pub fn qualified_name(relation: pg_sys::Oid) -> String {
    // SAFETY: syscache look-ups; results are palloc'd or null.
    unsafe {
        let schema = text(pg_sys::get_namespace_name(pg_sys::get_rel_namespace(relation)));
        format!("{schema}.{}", text(pg_sys::get_rel_name(relation)))
    }
}

/// What a cold foreign table is for: its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColdTable {
    /// The Iceberg table.
    pub table: TableRef,
    /// The relation users know, `schema.name`, for messages.
    pub relation: String,
}

/// Reads the options of a foreign table of our wrapper.
pub fn cold_table(relation: pg_sys::Oid) -> ColdTable {
    // SAFETY: GetForeignTable raises for anything but a foreign table; its list holds DefElem nodes with String arguments.
    let options: Vec<(String, String)> = unsafe {
        let foreign = pg_sys::GetForeignTable(relation);
        PgList::<pg_sys::DefElem>::from_pg((*foreign).options)
            .iter_ptr()
            .map(|element| (text((*element).defname), text(pg_sys::defGetString(element))))
            .collect()
    };
    let option = |name: &str| options.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    ColdTable {
        table: TableRef::new(option("namespace").unwrap_or_default(), option("table_name").unwrap_or_default()),
        relation: option("relation").unwrap_or_else(|| qualified_name(relation)),
    }
}

/// Name of a column, and its name in the lake when an option says so.
pub fn column_name(relation: pg_sys::Oid, attribute: i16) -> String {
    // SAFETY: get_attname raises for a missing column because missing_ok is false.
    unsafe { text(pg_sys::get_attname(relation, attribute, false)) }
}

/// Schema and name of a relation.
pub fn schema_and_name(relation: pg_sys::Oid) -> (String, String) {
    // SAFETY: syscache look-ups; results are palloc'd or null.
    unsafe {
        (text(pg_sys::get_namespace_name(pg_sys::get_rel_namespace(relation))), text(pg_sys::get_rel_name(relation)))
    }
}

/// OID of the relation a RangeVar names, without locking it; invalid where there is none.
///
/// # Safety
/// `range` is null or a RangeVar.
pub unsafe fn resolve(range: *mut pg_sys::RangeVar) -> pg_sys::Oid {
    // SAFETY: the caller's promise.
    unsafe {
        if range.is_null() {
            return pg_sys::InvalidOid;
        }
        pg_sys::RangeVarGetRelidExtended(
            range,
            pg_sys::NoLock as i32,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            std::ptr::null_mut(),
        )
    }
}

/// Owner of a relation.
pub fn owner(relation: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: the tuple is pinned until ReleaseSysCache.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::RELOID as i32, pg_sys::Datum::from(relation));
        if tuple.is_null() {
            return pg_sys::InvalidOid;
        }
        let owner = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>()).relowner;
        pg_sys::ReleaseSysCache(tuple);
        owner
    }
}

/// Names of a relation's live columns, in order.
pub fn column_names(relation: pg_sys::Oid) -> Vec<String> {
    // SAFETY: the relation is open while its descriptor is read.
    unsafe {
        let opened = pg_sys::RelationIdGetRelation(relation);
        let descriptor = (*opened).rd_att;
        let names = (0..(*descriptor).natts)
            .map(|i| crate::pg::compat::attribute(descriptor, i))
            .filter(|attribute| !(**attribute).attisdropped)
            .map(|attribute| text((*attribute).attname.data.as_ptr()))
            .collect();
        pg_sys::RelationClose(opened);
        names
    }
}

/// Whether `user` may insert into one column.
pub fn may_insert_column(relation: pg_sys::Oid, column: &str, user: pg_sys::Oid) -> bool {
    let Ok(column) = CString::new(column) else { return false };
    // SAFETY: syscache look-ups with a valid C string.
    unsafe {
        let attribute = pg_sys::get_attnum(relation, column.as_ptr());
        attribute > 0
            && pg_sys::pg_attribute_aclcheck(relation, attribute, user, pg_sys::ACL_INSERT as pg_sys::AclMode)
                == pg_sys::AclResult::ACLCHECK_OK
    }
}

/// Whether the relation stands in the schema of cold foreign tables.
pub fn is_cold_schema(relation: pg_sys::Oid) -> bool {
    // SAFETY: syscache look-ups with a valid C string.
    unsafe {
        let cold = pg_sys::get_namespace_oid(c"coldfront_cold".as_ptr(), true);
        cold != pg_sys::InvalidOid && pg_sys::get_rel_namespace(relation) == cold
    }
}

/// Whether a column of a foreign table is marked as one whose files may hold a narrower type.
pub fn is_widened(relation: pg_sys::Oid, attribute: i16) -> bool {
    // SAFETY: a syscache look-up; the list holds DefElem nodes.
    unsafe {
        PgList::<pg_sys::DefElem>::from_pg(pg_sys::GetForeignColumnOptions(relation, attribute))
            .iter_ptr()
            .any(|element| text((*element).defname) == "widened")
    }
}
