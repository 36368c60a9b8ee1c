//! Look-ups in `coldfront.tiered_views`.

use pgrx::{Spi, pg_sys};

use crate::pg::{catalog, privilege};

/// A registered relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub schema: String,
    pub table: String,
    /// Name of its foreign table in `coldfront_cold`.
    pub foreign_table: String,
}

impl Entry {
    /// For messages.
    pub fn relation(&self) -> String {
        format!("{}.{}", self.schema, self.table)
    }
}

/// Whether this database has a registry.
pub fn exists() -> bool {
    catalog::relation_oid("coldfront", "tiered_views") != 0
}

/// The entry of a view or of a cold foreign table; `None` at once for everything else.
pub fn find(relation: pg_sys::Oid) -> Option<Entry> {
    let kind = catalog::relation_kind(relation);
    if !matches!(kind, b'v' | b'f') || !exists() {
        return None;
    }
    let (schema, name) = catalog::schema_and_name(relation);
    if kind == b'f' && schema != "coldfront_cold" {
        return None;
    }
    privilege::as_bootstrap_superuser(|| {
        Spi::connect(|client| {
            let query = include_str!("../../sql/query/registry_entry.sql");
            let rows = client.select(query, Some(1), &[schema.into(), name.into()])?;
            let row = rows.first();
            Ok::<_, pgrx::spi::Error>(match (row.get(1)?, row.get(2)?, row.get(3)?) {
                (Some(schema), Some(table), Some(foreign_table)) => Some(Entry { schema, table, foreign_table }),
                _ => None,
            })
        })
    })
    .ok()
    .flatten()
}
