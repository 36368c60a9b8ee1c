//! Result streams.

use std::time::{Duration, Instant};

use coldfront_common::frame::{BATCH_TARGET_BYTES, Scope};

use crate::support::Engine;

#[test]
fn a_large_result_streams_in_batches_and_the_first_comes_early() {
    let engine = Engine::start();
    let mut client = engine.client();
    let (stream, schema) = client.query(Scope::Read(1), "SELECT i, i::VARCHAR AS s FROM range(3000000) t(i)").unwrap();
    assert_eq!(schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["i", "s"]);
    let first = client.fetch(stream, &schema).unwrap().unwrap();
    assert!(first.num_rows() <= 10_000, "{}", first.num_rows());
    let rest = client.drain(stream, schema).unwrap();
    assert_eq!(rest.end.rows, 3_000_000);
    let average = rest.end.bytes as usize / rest.batches.len();
    assert!((BATCH_TARGET_BYTES / 4..BATCH_TARGET_BYTES * 2).contains(&average), "{average}");
}

#[test]
fn a_slow_result_is_delivered_as_it_comes() {
    let engine = Engine::start();
    let mut client = engine.client();
    // The first rows are cheap, what follows takes for ever.
    let sql = "SELECT i FROM range(100000000000) t(i) WHERE i < 100000 OR sin(i) > 2";
    let (stream, schema) = client.query(Scope::Read(1), sql).unwrap();
    let began = Instant::now();
    assert!(client.fetch(stream, &schema).unwrap().unwrap().num_rows() > 0);
    assert!(began.elapsed() < Duration::from_secs(5));
    // Closing it does not wait for the end, and what comes next works.
    client.close_stream(stream);
    assert_eq!(client.number(Scope::Read(1), "SELECT 7::BIGINT").unwrap(), 7);
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn any_number_of_streams_may_be_open_on_one_snapshot() {
    let engine = Engine::start();
    let mut client = engine.client();
    let mut open = Vec::new();
    for n in 1..=4 {
        let sql = format!("SELECT i * {n} AS i, 'padding of some length' AS s FROM range(400000) t(i)");
        let (stream, schema) = client.query(Scope::Read(1), &sql).unwrap();
        client.fetch(stream, &schema).unwrap().unwrap();
        open.push((stream, schema));
    }
    for (stream, schema) in open.into_iter().rev() {
        assert_eq!(client.drain(stream, schema).unwrap().end.rows, 400_000);
    }
}

#[test]
fn a_parked_stream_that_outgrows_the_spill_limit_says_so() {
    let engine = Engine::with(tempfile::tempdir().unwrap().into(), &["--spill-limit-mb", "10"]);
    let mut client = engine.client();
    let sql = "SELECT repeat('x', 1000) || i AS s FROM range(1000000) t(i)";
    let (stream, schema) = client.query(Scope::Read(1), sql).unwrap();
    assert_eq!(client.number(Scope::Read(1), "SELECT 1::BIGINT").unwrap(), 1);
    let failure = loop {
        match client.fetch(stream, &schema) {
            Ok(batch) => assert!(batch.is_ok(), "the stream ended without an error"),
            Err(failure) => break failure,
        }
    };
    assert_eq!(failure.sqlstate, "53100");
    assert!(failure.message.contains("spill"), "{}", failure.message);
}

#[test]
fn an_error_in_the_middle_of_a_stream_ends_it() {
    let engine = Engine::start();
    let mut client = engine.client();
    let sql = "SELECT CASE WHEN i = 2500000 THEN error('22012: division by zero') ELSE i END FROM range(3000000) t(i)";
    let (stream, schema) = client.query(Scope::Read(1), sql).unwrap();
    let failure = client.drain(stream, schema.clone()).err().unwrap();
    assert_eq!((failure.sqlstate.as_str(), failure.message.as_str()), ("22012", "division by zero"));
    assert_eq!(client.fetch(stream, &schema).unwrap_err().sqlstate, "08P01");
    // The snapshot ended with it; another one works.
    assert_eq!(client.number(Scope::Read(1), "SELECT 1::BIGINT").unwrap_err().sqlstate, "25P02");
    assert_eq!(client.number(Scope::Read(2), "SELECT 1::BIGINT").unwrap(), 1);
}

#[test]
fn types_arrive_as_arrow_has_them() {
    let engine = Engine::start();
    let mut client = engine.client();
    let sql = "SELECT true, 1::SMALLINT, 1.5::DECIMAL(10,2), 'x', 'ab'::BLOB, DATE '2024-02-29', \
               TIMESTAMP '2024-02-29 12:00:00', TIMESTAMPTZ '2024-02-29 12:00:00+00', [1::FLOAT, NULL], NULL::DOUBLE";
    let rows = client.rows(Scope::Read(1), sql).unwrap();
    let types: Vec<String> = rows.schema.fields().iter().map(|f| f.data_type().to_string()).collect();
    assert_eq!(rows.batches[0].num_rows(), 1);
    assert_eq!(types[..4], ["Boolean", "Int16", "Decimal128(10, 2)", "Utf8"], "{types:?}");
    assert_eq!(types[7], "Timestamp(µs, \"UTC\")", "{types:?}");
}

#[test]
fn wide_rows_travel_in_small_batches_and_a_giant_one_is_refused() {
    let engine = Engine::start();
    let mut client = engine.client();
    let sql = "SELECT repeat('x', 300000) || i AS s FROM range(600) t(i)";
    let rows = client.rows(Scope::Read(1), sql).unwrap();
    assert_eq!(rows.end.rows, 600);
    let widest = rows.batches.iter().map(|batch| batch.num_rows()).max().unwrap();
    assert!(widest <= 8, "{widest} rows of 300 kB in one batch");
    let failure = client.rows(Scope::Read(2), "SELECT repeat('x', 280000000) AS s").err().unwrap();
    assert_eq!(failure.sqlstate, "54000", "{failure:?}");
    assert_eq!(client.number(Scope::Read(3), "SELECT 1::BIGINT").unwrap(), 1);
}
