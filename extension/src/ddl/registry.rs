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
    /// Name of the table with its hot rows, if it is tiered.
    pub hot_table: Option<String>,
    /// Reference of its Iceberg table.
    pub iceberg_table: String,
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

/// The entry of a view, of a cold foreign table or of a hot table; `None` at once for everything else.
pub fn find(relation: pg_sys::Oid) -> Option<Entry> {
    let kind = catalog::relation_kind(relation);
    if !matches!(kind, b'v' | b'f' | b'p') || !exists() {
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
            let hot_table = row.get(4)?;
            Ok::<_, pgrx::spi::Error>(match (row.get(1)?, row.get(2)?, row.get(3)?, row.get(5)?) {
                (Some(schema), Some(table), Some(foreign_table), Some(iceberg_table)) => {
                    Some(Entry { schema, table, foreign_table, hot_table, iceberg_table })
                }
                _ => None,
            })
        })
    })
    .ok()
    .flatten()
}
