//! The connection, and what the database knows: which tables there are, what each is configured for.

use coldfront_common::ident::TableRef;
use coldfront_lake::catalog::TableId;
use coldfront_program::database;
pub use coldfront_program::database::During;
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::error::{Error, Result};
use crate::policy::Configured;
use crate::settings::Settings;

const TABLES: &str = "
SELECT v.schema_name::text, v.table_name::text, v.iceberg_table, coalesce(c.enabled, true) AS enabled,
       c.target_file_bytes, c.small_file_bytes, c.min_input_files, c.delete_ratio, c.delete_files, c.sort_by,
       c.manifests_max, extract(epoch FROM c.snapshot_age)::float8 AS snapshot_age_s, c.snapshots_min,
       extract(epoch FROM c.orphan_age)::float8 AS orphan_age_s,
       c.compact_schedule, c.manifests_schedule, c.expire_schedule, c.orphans_schedule, c.metadata_schedule,
       ARRAY(SELECT a.snapshot_id FROM coldfront.archive_attempt AS a
              WHERE a.schema_name = v.schema_name AND a.table_name = v.table_name AND a.snapshot_id IS NOT NULL) AS pins
  FROM coldfront.tiered_views AS v
  LEFT JOIN coldfront.maintenance_config AS c USING (schema_name, table_name)
 WHERE v.schema_name <> ''
 ORDER BY 1, 2";

/// A relation with a cold part.
#[derive(Debug, Clone)]
pub struct Relation {
    pub schema: String,
    pub table: String,
    /// The Iceberg table as writers claim it.
    pub reference: String,
    pub id: TableId,
    pub enabled: bool,
    pub configured: Configured,
}

impl std::fmt::Display for Relation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

pub async fn connect(settings: &Settings) -> Result<PgConnection> {
    let mut connection = database::connect(&settings.connection).await.map_err(Error::Connect)?;
    let installed: bool = sqlx::query_scalar("SELECT to_regclass('coldfront.maintenance_config') IS NOT NULL")
        .fetch_one(&mut connection)
        .await
        .map_err(Error::Connect)?;
    if installed { Ok(connection) } else { Err(Error::NoExtension) }
}

/// All relations with a cold part.
pub async fn relations(connection: &mut PgConnection) -> Result<Vec<Relation>> {
    let rows = sqlx::query(TABLES).fetch_all(connection).await.during("reading the registry of cold tables")?;
    rows.iter().map(|row| relation(row).during("reading the registry of cold tables")?.checked()).collect()
}

fn relation(row: &PgRow) -> std::result::Result<Relation, sqlx::Error> {
    let count = |value: Option<i32>| value.and_then(|v| usize::try_from(v).ok());
    let bytes = |value: Option<i64>| value.and_then(|v| u64::try_from(v).ok());
    let pins: Vec<String> = row.try_get("pins")?;
    let schedule = |name: &str| row.try_get::<Option<String>, _>(name);
    Ok(Relation {
        schema: row.try_get("schema_name")?,
        table: row.try_get("table_name")?,
        reference: row.try_get("iceberg_table")?,
        id: TableId { namespace: Vec::new(), name: String::new() },
        enabled: row.try_get("enabled")?,
        configured: Configured {
            target_file_bytes: bytes(row.try_get("target_file_bytes")?),
            small_file_bytes: bytes(row.try_get("small_file_bytes")?),
            min_input_files: count(row.try_get("min_input_files")?),
            delete_ratio: row.try_get("delete_ratio")?,
            delete_files: count(row.try_get("delete_files")?),
            sort_by: row.try_get("sort_by")?,
            manifests_max: count(row.try_get("manifests_max")?),
            snapshot_age_s: row.try_get("snapshot_age_s")?,
            snapshots_min: count(row.try_get("snapshots_min")?),
            orphan_age_s: row.try_get("orphan_age_s")?,
            pins: pins.iter().filter_map(|id| id.parse().ok()).collect(),
            schedules: [
                schedule("compact_schedule")?,
                schedule("manifests_schedule")?,
                schedule("expire_schedule")?,
                schedule("metadata_schedule")?,
                schedule("orphans_schedule")?,
            ],
        },
    })
}

impl Relation {
    fn checked(mut self) -> Result<Self> {
        let reference = TableRef::parse(&self.reference)
            .map_err(|error| Error::Refused(format!("the registry has {self} wrong: {error}")))?;
        self.id = TableId::new(&reference.namespace, &reference.name);
        Ok(self)
    }
}

/// Splits `schema.table`, with double quotes where a part needs them.
pub fn parse_name(text: &str) -> Result<(String, String)> {
    let wrong = || Error::TableName(text.to_owned());
    let (mut parts, mut part, mut chars) = (Vec::new(), String::new(), text.chars().peekable());
    let mut quoted = false;
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => part.extend(chars.next()),
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(std::mem::take(&mut part)),
            c if quoted => part.push(c),
            c => part.extend(c.to_lowercase()),
        }
    }
    parts.push(part);
    match (quoted, parts.as_slice()) {
        (false, [schema, table]) if !schema.is_empty() && !table.is_empty() => Ok((schema.clone(), table.clone())),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_postgresql() {
        let parsed = |text: &str| parse_name(text).ok();
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(parsed("app.Events"), pair("app", "events"));
        assert_eq!(parsed("\"A.b\".\"c\"\"d\""), pair("A.b", "c\"d"));
        for wrong in ["events", "a.b.c", "\"a.b", ".a", ""] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
