//! SQL functions that talk to the engine.

use arrow_array::{Array, cast::AsArray};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use coldfront_common::{
    frame::{Kind, Query, Scope},
    ident::TableRef,
    quote, sqlstate,
};
use pgrx::{JsonB, iter::SetOfIterator, pg_extern};

use crate::{
    client::Interrupts,
    error::{Error, OrRaise, Result},
    lake, session, txn,
};

/// Rows of a `duckdb.raw_query` that its notice shows.
const RAW_ROWS_SHOWN: usize = 1_000;

#[pg_extern]
fn _claim_iceberg_lock(table_ref: &str) {
    txn::lock_table(&parse(table_ref));
}

#[pg_extern]
fn _exec_iceberg_with_claim(table_ref: &str, sql: &str) -> i64 {
    let table = parse(table_ref);
    txn::refuse_read_only(table_ref);
    lake::require_configured().or_raise();
    txn::lock_table(&table);
    let changed = session::exec(sql, &[&table]).map_err(|e| explain_existing(e, &table)).or_raise();
    i64::try_from(changed).unwrap_or(i64::MAX)
}

/// Drops a table in the lake; false if the lake does not have it any more.
#[pg_extern]
fn _drop_lake_table(table_ref: &str, purge: bool) -> bool {
    let table = parse(table_ref);
    txn::lock_table(&table);
    let name = table.to_string();
    // The engine takes the purge decision from the attachment the statement names.
    let name = if purge { name.replacen("\"ice\"", "\"ice_drop_purge\"", 1) } else { name };
    match session::exec(&format!("DROP TABLE {name}"), &[&table]) {
        Ok(_) => true,
        Err(error) if error.sqlstate() == sqlstate::UNDEFINED_TABLE => false,
        Err(error) => error.on_relation(table_ref).raise(),
    }
}

/// A table that only the lake knows is a puzzle to someone who looks in PostgreSQL.
fn explain_existing(error: Error, table: &TableRef) -> Error {
    if error.sqlstate() != sqlstate::DUPLICATE_TABLE {
        return error.on_relation(&table.to_string());
    }
    Error::refused(
        sqlstate::DUPLICATE_TABLE,
        format!("coldfront: the lake already has a table {table}"),
        "Another database or an earlier installation made it. Choose another name or schema, or drop it in the catalog.",
    )
}

#[pg_extern]
fn _create_namespace(namespace: &str) {
    txn::refuse_read_only(namespace);
    lake::require_configured().or_raise();
    session::create_namespace(&quote::ident(namespace)).or_raise();
}

/// Id of a table's current snapshot as the catalog has it now; NULL for an empty table.
#[pg_extern]
fn _lake_head(table_ref: &str) -> Option<i64> {
    lake::require_configured().or_raise();
    session::ensure_connected().or_raise();
    session::with(|s| s.table_stats(&parse(table_ref), true)).or_raise().snapshot
}

/// Whether the catalog knows a snapshot of a table.
#[pg_extern]
fn _lake_has_snapshot(table_ref: &str, snapshot: i64) -> bool {
    lake::require_configured().or_raise();
    session::ensure_connected().or_raise();
    session::with(|s| s.has_snapshot(&parse(table_ref), snapshot)).or_raise()
}

#[pg_extern]
fn ensure_attached() {
    lake::require_configured().or_raise();
    let sql = "SELECT database_name FROM duckdb_databases() WHERE database_name = 'ice'";
    if collect(sql, Scope::Read(0), 1).or_raise().is_empty() {
        Error::refused(
            sqlstate::UNDEFINED_OBJECT,
            "coldfront: the Iceberg catalog could not be attached",
            "Check coldfront.warehouse and coldfront.lakekeeper_endpoint.",
        )
        .raise();
    }
}

#[pg_extern]
fn raw_query(sql: &str) {
    let rows = collect(sql, Scope::Write, RAW_ROWS_SHOWN + 1).or_raise();
    let mut lines: Vec<String> = rows.iter().take(RAW_ROWS_SHOWN).map(|row| row.join(" | ")).collect();
    if rows.len() > RAW_ROWS_SHOWN {
        lines.push(format!("(only the first {RAW_ROWS_SHOWN} rows are shown)"));
    }
    pgrx::notice!("{}", lines.join("\n"));
}

#[pg_extern]
fn query(sql: &str) -> SetOfIterator<'static, JsonB> {
    let wrapped = format!("SELECT CAST(to_json(q) AS VARCHAR) FROM ({sql}) AS q");
    let scope = if session::with(|s| s.txn.writes > 0) { Scope::Write } else { Scope::Read(0) };
    let rows = collect(&wrapped, scope, usize::MAX).or_raise();
    SetOfIterator::new(rows.into_iter().filter_map(|mut row| {
        row.pop().map(|json| JsonB(serde_json::from_str(&json).unwrap_or(serde_json::Value::Null)))
    }))
}

#[pg_extern]
fn iceberg_scan(table: &str) -> SetOfIterator<'static, JsonB> {
    query(&format!("SELECT * FROM {}", quoted_path(table).or_raise()))
}

fn parse(table_ref: &str) -> TableRef {
    TableRef::parse(table_ref)
        .map_err(|e| Error::value(sqlstate::INVALID_PARAMETER, format!("coldfront: {e}")))
        .or_raise()
}

/// Quotes the parts of a dotted name; parts may be quoted already.
fn quoted_path(path: &str) -> Result<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    let mut chars = path.chars().peekable();
    while let Some(c) = chars.next() {
        let part = parts.last_mut().expect("there is always a part");
        match c {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => part.push('"'),
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            other => part.push(other),
        }
    }
    if quoted || parts.iter().any(String::is_empty) {
        return Err(Error::refused(
            sqlstate::INVALID_PARAMETER,
            format!("coldfront: \"{path}\" is not a table name"),
            "Write ice.namespace.table, with double quotes around parts that need them.",
        ));
    }
    Ok(parts.iter().map(|part| quote::ident(part)).collect::<Vec<_>>().join("."))
}

/// Runs a query and collects up to `limit` rows as text.
fn collect(sql: &str, scope: Scope, limit: usize) -> Result<Vec<Vec<String>>> {
    session::ensure_connected()?;
    let unreadable =
        |e: arrow_schema::ArrowError| Error::EngineLost { cause: format!("The engine's rows could not be read: {e}.") };
    let mut decoder = StreamDecoder::new();
    let stream = session::with(|s| {
        s.refuse_doomed()?;
        s.txn.used = true;
        // Snapshot 0 stands for "a fresh one".
        let scope = match scope {
            Scope::Read(_) => Scope::Read(s.new_snapshot()),
            Scope::Write => Scope::Write,
        };
        let stream = s.new_stream();
        let request = Query { stream, scope, sql: sql.to_owned(), shortcut: None, release: s.take_released() };
        let call = |c: &mut crate::client::Connection| c.call(Kind::Query, Kind::Schema, &request, Interrupts::Serve);
        let frame = if scope == Scope::Write { s.write_call(call)? } else { call(s.connection()?)? };
        if let Scope::Read(snapshot) = scope {
            s.release_snapshot(snapshot);
        } else {
            // Whether it wrote is the engine's knowledge; it commits with the transaction in any case.
            s.txn.writes += 1;
        }
        decoder.decode(&mut Buffer::from_vec(frame.payload)).map_err(unreadable)?;
        Ok(stream)
    })?;
    let mut rows = Vec::new();
    loop {
        let frame = session::with(|s| s.fetch(stream))?;
        if frame.kind == Kind::End {
            return Ok(rows);
        }
        if let Some(batch) = decoder.decode(&mut Buffer::from_vec(frame.payload)).map_err(unreadable)? {
            for i in 0..batch.num_rows() {
                rows.push(batch.columns().iter().map(|column| cell(column, i)).collect());
                if rows.len() >= limit {
                    session::with(|s| s.close_stream(stream));
                    return Ok(rows);
                }
            }
        }
    }
}

/// One value as text.
fn cell(column: &dyn Array, row: usize) -> String {
    use arrow_array::types as t;
    use arrow_schema::DataType;
    if column.is_null(row) {
        return "NULL".to_owned();
    }
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<t::Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<t::Int64Type>().value(row).to_string(),
        DataType::UInt64 => column.as_primitive::<t::UInt64Type>().value(row).to_string(),
        DataType::Float64 => column.as_primitive::<t::Float64Type>().value(row).to_string(),
        DataType::Decimal128(_, scale) => {
            coldfront_common::numeric::to_text(column.as_primitive::<t::Decimal128Type>().value(row), *scale as u8)
        }
        other => format!("<{other}>"),
    }
}
