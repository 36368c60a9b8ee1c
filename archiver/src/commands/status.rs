//! `status`: cutoff, due partitions and lag of every table.

use sqlx::Row;

use crate::db::{self, During};
use crate::error::Result;
use crate::lifecycle::Table;
use crate::settings::Settings;

const SELECT: &str = "\
SELECT schema_name::text, table_name::text, enabled, cutoff, partitions, due, \
date_trunc('second', lag)::text, phase, trouble FROM coldfront.archive_status()";

pub async fn run(settings: &Settings) -> Result<()> {
    let mut connection = db::connect(settings).await?;
    let found = sqlx::query(SELECT).fetch_all(&mut connection).await.during("reading the status")?;
    let mut rows = Vec::new();
    for row in &found {
        let read = || -> Result<Vec<String>, sqlx::Error> {
            let text = |i: usize| row.try_get::<Option<String>, _>(i).map(|v| v.unwrap_or_else(|| "-".to_owned()));
            let number = |i: usize| {
                row.try_get::<Option<i64>, _>(i).map(|v| v.map_or_else(|| "-".to_owned(), |n| n.to_string()))
            };
            Ok(vec![
                Table { schema: row.try_get(0)?, name: row.try_get(1)? }.to_string(),
                if row.try_get(2)? { "yes" } else { "no" }.to_owned(),
                text(3)?,
                number(4)?,
                number(5)?,
                text(6)?,
                text(7)?,
                text(8)?,
            ])
        };
        rows.push(read().during("reading the status")?);
    }
    super::print_table(&["table", "enabled", "cutoff", "partitions", "due", "lag", "under way", "trouble"], &rows);
    Ok(())
}
