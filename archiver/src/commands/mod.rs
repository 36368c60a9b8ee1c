//! One file per command; `run` and `serve` have modules of their own.

pub mod export;
pub mod import;
pub mod list;
pub mod register;
pub mod remove;
pub mod restore;
pub mod set;
pub mod status;

use sqlx::{AssertSqlSafe, Connection};

use crate::cli::PrintSql;
use crate::db::{self, During};
use crate::error::Result;
use crate::settings::Settings;

/// Runs statements in one transaction, or prints them. Returns the rows changed, None when they were printed.
async fn write(statements: &[String], what: &str, print: &PrintSql, settings: &Settings) -> Result<Option<u64>> {
    if print.print_sql {
        println!("{}", statements.join("\n"));
        return Ok(None);
    }
    let mut connection = db::connect(settings).await?;
    let mut transaction = connection.begin().await.during(what)?;
    let mut changed = 0;
    for statement in statements {
        // Built by the quoting module from names and values.
        let done = sqlx::query(AssertSqlSafe(statement.as_str())).execute(&mut *transaction).await.during(what)?;
        changed += done.rows_affected();
    }
    transaction.commit().await.during(what)?;
    Ok(Some(changed))
}

/// Prints rows under a heading, each column as wide as it needs.
fn print_table(heading: &[&str], rows: &[Vec<String>]) {
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).chain([heading[i].len()]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        println!("{}", padded.join("  ").trim_end());
    };
    line(heading.to_vec());
    for row in rows {
        line(row.iter().map(String::as_str).collect());
    }
}
