//! `restore`: cold rows come back to heap partitions. Hot rows have no gap, so the range always ends at the cutoff.

use coldfront_common::quote::literal;
use sqlx::{Connection, Row};

use crate::cli::Restore;
use crate::db::{self, During};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::lifecycle::Table;
use crate::pass::lock;
use crate::settings::Settings;

pub async fn run(args: &Restore, settings: &Settings) -> Result<()> {
    let table = Table::parse(&args.table.table)?;
    let what = format!("restoring {table}");
    if args.print.print_sql {
        let (schema, name) = (literal(&table.schema), literal(&table.name));
        println!("SELECT * FROM coldfront._restore({schema}, {name}, {});", literal(&args.from));
        println!("SELECT coldfront._purge_invisible({schema}, {name});");
        return Ok(());
    }
    let mut connection = db::connect(settings).await?;
    if !lock::take(&mut connection, &table).await? {
        return Err(Error::Kept(format!("another archiver works on {table}: try again when it is done")));
    }
    if let Some(to) = &args.to {
        check_end(&mut connection, &table, to).await?;
    }
    let mut transaction = connection.begin().await.during(&*what)?;
    let row = sqlx::query(
        "SELECT array_length(partitions, 1), row_count FROM coldfront._restore($1, $2, $3::text::timestamptz)",
    )
    .bind(&table.schema)
    .bind(&table.name)
    .bind(&args.from)
    .fetch_one(&mut *transaction)
    .await
    .during(&*what)?;
    let read = || -> Result<(Option<i32>, i64), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
    let (partitions, rows) = read().during(&*what)?;
    failpoint::reach(failpoint::RESTORING).await;
    transaction.commit().await.during(&*what)?;
    failpoint::reach(failpoint::RESTORED).await;
    sqlx::query("SELECT coldfront._purge_invisible($1, $2)")
        .bind(&table.schema)
        .bind(&table.name)
        .execute(&mut connection)
        .await
        .during(format!("{what}: the rows are back; removing them from Iceberg is left to the next run"))?;
    lock::give_back(&mut connection, &table).await;
    println!("restored {rows} rows of {table} to {} partitions", partitions.unwrap_or(0));
    println!("the next run archives them again unless the hot period covers them: see `set --hot-period`");
    Ok(())
}

/// Refuses an end before the cutoff.
async fn check_end(connection: &mut sqlx::PgConnection, table: &Table, to: &str) -> Result<()> {
    let cutoff: Option<String> = sqlx::query_scalar(
        "SELECT w.cutoff FROM coldfront.archive_watermark w \
         JOIN coldfront.partition_config c USING (schema_name, table_name) \
         CROSS JOIN LATERAL coldfront._range_key(coldfront._hot_table($1, $2)) AS k \
         WHERE schema_name = $1 AND table_name = $2 \
         AND coldfront._key_to_time(w.cutoff, k.key_type, c.id_epoch) > $3::text::timestamptz",
    )
    .bind(&table.schema)
    .bind(&table.name)
    .bind(to)
    .fetch_optional(connection)
    .await
    .during(format!("restoring {table}"))?;
    match cutoff {
        None => Ok(()),
        Some(cutoff) => Err(Error::Usage(format!(
            "rows of {table} are cold up to {cutoff}, and hot rows have no gap: leave --to out, or give {cutoff}"
        ))),
    }
}
