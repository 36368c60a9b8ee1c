//! `Query` opens a result stream, `Fetch` takes its next batch.

use coldfront_common::frame::{Failure, Frame, Kind, Query, Scope, StreamId};
use coldfront_common::sqlstate;

use super::{json, make_ready, parse};
use crate::duckdb::Error;
use crate::failure;
use crate::instance::SessionConnection;
use crate::server::request::Request;
use crate::server::stream::{Stream, StreamError};
use crate::server::worker::{Answer, Worker};

pub fn query(worker: &mut Worker, request: &Request, frame: &Frame) -> Result<Answer, Failure> {
    let query: Query = parse(frame)?;
    for number in &query.release {
        worker.streams.close_scope(Scope::Read(*number), &mut worker.scopes);
        worker.scopes.release(*number);
    }
    if worker.streams.contains(query.stream) {
        return Err(failure::protocol(format!("stream {} is open already", query.stream)));
    }
    let instance = make_ready(worker, request, query.scope, &query.sql)?;
    let transaction = worker.scopes.get(query.scope, &instance, &worker.session.inputs)?;
    transaction.prepare(&query.sql);
    let opened = transaction.call(request, |connection| {
        let shortcut = match &query.shortcut {
            Some(shortcut) if !has_row(connection, &shortcut.unless)? => Some(&shortcut.sql),
            _ => None,
        };
        Ok((connection.stream(shortcut.unwrap_or(&query.sql))?, shortcut.is_some()))
    });
    worker.scopes.undo_failed_write();
    let (live, is_shortcut) = opened?;
    let (mut stream, schema) = Stream::new(query.scope, live).map_err(|e| stream_failure(worker, request, &e))?;
    stream.end.shortcut = is_shortcut;
    worker.streams.add(query.stream, stream, &mut worker.scopes);
    Ok(Answer::Frame(Kind::Schema, schema))
}

fn has_row(connection: &mut SessionConnection, sql: &str) -> Result<bool, Error> {
    let mut rows = connection.stream(sql)?;
    while let Some(chunk) = rows.next_chunk()? {
        if chunk.num_rows() > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

pub fn fetch(worker: &mut Worker, request: &Request, frame: &Frame) -> Result<Answer, Failure> {
    let StreamId { stream } = parse(frame)?;
    let fetched = worker.streams.fetch(stream, &mut worker.scopes, request);
    worker.scopes.undo_failed_write();
    match fetched {
        None => Err(failure::protocol(format!("stream {stream} is not open"))),
        Some(Ok(Ok(batch))) => Ok(Answer::Frame(Kind::Batch, batch)),
        Some(Ok(Err(end))) => json(Kind::End, &end),
        Some(Err(error)) => Err(stream_failure(worker, request, &error)),
    }
}

fn stream_failure(worker: &Worker, request: &Request, error: &StreamError) -> Failure {
    match error {
        _ if request.is_cancelled() => failure::failure(sqlstate::QUERY_CANCELED, "the statement was cancelled"),
        StreamError::DuckDb(error) => match &worker.instance {
            Some(instance) => instance.explain(error, request.began),
            None => failure::failure(sqlstate::INTERNAL, &error.message),
        },
        StreamError::Spill(error) => failure::from_spill(error),
        // SQLSTATE `program_limit_exceeded`.
        StreamError::RowTooLarge { .. } => failure::failure("54000", error.to_string()),
        StreamError::Encode(error) => failure::failure(sqlstate::FEATURE_NOT_SUPPORTED, error.to_string()),
    }
}
