//! A table's lifecycle as it is configured: between the command line, YAML and `coldfront.partition_config`.

use coldfront_common::quote::{ident, literal};
use serde::{Deserialize, Serialize};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::cli;
use crate::db::During;
use crate::error::{Error, Result};

/// A table by its two names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Table {
    pub schema: String,
    pub name: String,
}

impl Table {
    /// `schema.table`, where parts in double quotes are taken as they are and others are folded to lower case.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = || Error::TableName(text.to_owned());
        let mut parts = vec![String::new()];
        let mut quoted = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let part = parts.last_mut().ok_or_else(invalid)?;
            match c {
                '"' if quoted && chars.next_if_eq(&'"').is_some() => part.push('"'),
                '"' => quoted = !quoted,
                '.' if !quoted => parts.push(String::new()),
                other if quoted => part.push(other),
                other => part.extend(other.to_lowercase()),
            }
        }
        match <[String; 2]>::try_from(parts) {
            Ok([schema, name]) if !quoted && !schema.is_empty() && !name.is_empty() => Ok(Self { schema, name }),
            _ => Err(invalid()),
        }
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = |name: &str| {
            let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if plain { name.to_owned() } else { ident(name) }
        };
        write!(f, "{}.{}", part(&self.schema), part(&self.name))
    }
}

/// One row of `coldfront.partition_config`; also an entry of the YAML file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lifecycle {
    pub schema: String,
    pub table: String,
    pub period: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_period: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_period: Option<String>,
    #[serde(default = "default_premake")]
    pub premake: i32,
    #[serde(default = "default_part_mode")]
    pub part_mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_scheme: Option<String>,
    #[serde(default = "default_id_epoch")]
    pub id_epoch: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_partition_source: Option<String>,
    #[serde(default = "default_expiration")]
    pub expiration: String,
    #[serde(default = "default_enabled")]
    pub enabled: bool,
}

fn default_premake() -> i32 {
    4
}
fn default_part_mode() -> String {
    "time".to_owned()
}
fn default_id_epoch() -> String {
    "2023-01-01 00:00:00+00".to_owned()
}
fn default_expiration() -> String {
    "drop".to_owned()
}
fn default_enabled() -> bool {
    true
}

/// Columns in the order of the table, as text where they have a type of their own.
const SELECT: &str = "\
SELECT schema_name::text, table_name::text, period, hot_period::text, retention_period::text, premake, part_mode, \
id_scheme, (id_epoch AT TIME ZONE 'UTC')::text || '+00', sub_partition_source, expiration, enabled \
FROM coldfront.partition_config ORDER BY schema_name, table_name";

impl Lifecycle {
    pub async fn all(connection: &mut PgConnection) -> Result<Vec<Self>> {
        let rows = sqlx::query(SELECT).fetch_all(connection).await.during("reading the lifecycles")?;
        Ok(rows.iter().map(Self::from_row).collect::<Result<_, sqlx::Error>>().during("reading the lifecycles")?)
    }

    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            schema: row.try_get(0)?,
            table: row.try_get(1)?,
            period: row.try_get(2)?,
            hot_period: row.try_get(3)?,
            retention_period: row.try_get(4)?,
            premake: row.try_get(5)?,
            part_mode: row.try_get(6)?,
            id_scheme: row.try_get(7)?,
            id_epoch: row.try_get(8)?,
            sub_partition_source: row.try_get(9)?,
            expiration: row.try_get(10)?,
            enabled: row.try_get(11)?,
        })
    }

    pub fn name(&self) -> Table {
        Table { schema: self.schema.clone(), name: self.table.clone() }
    }

    /// All of it as column and value, for a complete INSERT.
    fn assignments(&self) -> Vec<(&'static str, String)> {
        let text = |value: &Option<String>| value.as_deref().map_or_else(|| "NULL".to_owned(), literal);
        vec![
            ("schema_name", literal(&self.schema)),
            ("table_name", literal(&self.table)),
            ("period", literal(&self.period)),
            ("hot_period", text(&self.hot_period)),
            ("retention_period", text(&self.retention_period)),
            ("premake", self.premake.to_string()),
            ("part_mode", literal(&self.part_mode)),
            ("id_scheme", text(&self.id_scheme)),
            ("id_epoch", literal(&self.id_epoch)),
            ("sub_partition_source", text(&self.sub_partition_source)),
            ("expiration", literal(&self.expiration)),
            ("enabled", self.enabled.to_string()),
        ]
    }

    /// An INSERT that replaces what is there.
    pub fn upsert(&self) -> String {
        let all = self.assignments();
        let set: Vec<String> = all[2..].iter().map(|(column, _)| format!("{column} = EXCLUDED.{column}")).collect();
        format!("{} ON CONFLICT (schema_name, table_name) DO UPDATE SET {};", insert_into(&all), set.join(", "))
    }
}

/// An INSERT of what the command line gave, the rest being defaults.
pub fn insert(table: &Table, lifecycle: &cli::Lifecycle) -> String {
    let mut all = vec![("schema_name", literal(&table.schema)), ("table_name", literal(&table.name))];
    all.extend(given(lifecycle));
    format!("{};", insert_into(&all))
}

fn insert_into(all: &[(&'static str, String)]) -> String {
    let columns: Vec<&str> = all.iter().map(|(column, _)| *column).collect();
    let values: Vec<&str> = all.iter().map(|(_, value)| value.as_str()).collect();
    format!("INSERT INTO coldfront.partition_config ({}) VALUES ({})", columns.join(", "), values.join(", "))
}

/// An UPDATE of what the command line gave; None if it gave nothing.
pub fn update(table: &Table, lifecycle: &cli::Lifecycle) -> Option<String> {
    let set: Vec<String> = given(lifecycle).into_iter().map(|(column, value)| format!("{column} = {value}")).collect();
    (!set.is_empty())
        .then(|| format!("UPDATE coldfront.partition_config SET {} WHERE {};", set.join(", "), of_table(table)))
}

pub fn delete(table: &Table) -> String {
    format!("DELETE FROM coldfront.partition_config WHERE {};", of_table(table))
}

fn of_table(table: &Table) -> String {
    format!("schema_name = {} AND table_name = {}", literal(&table.schema), literal(&table.name))
}

fn given(lifecycle: &cli::Lifecycle) -> Vec<(&'static str, String)> {
    fn word<T: clap::ValueEnum>(value: Option<T>) -> Option<String> {
        value.and_then(|v| v.to_possible_value()).map(|v| literal(v.get_name()))
    }
    let text = |value: &Option<String>| {
        value.as_deref().map(|v| if v.eq_ignore_ascii_case("none") { "NULL".to_owned() } else { literal(v) })
    };
    // A scheme says the mode.
    let part_mode = lifecycle.part_mode.or(lifecycle.id_scheme.map(|_| cli::PartMode::Id));
    [
        ("period", word(lifecycle.period)),
        ("hot_period", text(&lifecycle.hot_period)),
        ("retention_period", text(&lifecycle.retention_period)),
        ("premake", lifecycle.premake.map(|n| n.to_string())),
        ("part_mode", word(part_mode)),
        ("id_scheme", word(lifecycle.id_scheme)),
        ("id_epoch", lifecycle.id_epoch.as_deref().map(literal)),
        ("sub_partition_source", text(&lifecycle.sub_partition_source)),
        ("expiration", word(lifecycle.expiration)),
        ("enabled", lifecycle.enabled.map(|b| b.to_string())),
    ]
    .into_iter()
    .filter_map(|(column, value)| value.map(|value| (column, value)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_postgresql_reads_them() {
        for (text, schema, name) in
            [("app.Events", "app", "events"), ("\"A.b\".\"c\"\"d\"", "A.b", "c\"d"), ("s.\"select\"", "s", "select")]
        {
            assert_eq!(Table::parse(text).unwrap(), Table { schema: schema.into(), name: name.into() });
        }
        for text in ["events", "a.b.c", ".x", "a.\"b", ""] {
            assert!(Table::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_names_parse_back() {
        for (schema, name) in [("app", "events"), ("A.b", "c\"d"), ("s", "1st")] {
            let table = Table { schema: schema.into(), name: name.into() };
            assert_eq!(Table::parse(&table.to_string()).unwrap(), table);
        }
    }

    #[test]
    fn what_is_not_given_is_not_written() {
        let table = Table::parse("app.events").unwrap();
        assert_eq!(update(&table, &cli::Lifecycle::default()), None);
        let lifecycle = cli::Lifecycle { hot_period: Some("none".into()), premake: Some(2), ..Default::default() };
        assert_eq!(
            update(&table, &lifecycle).unwrap(),
            "UPDATE coldfront.partition_config SET hot_period = NULL, premake = 2 \
             WHERE schema_name = 'app' AND table_name = 'events';"
        );
    }
}
