//! Cancelling requests.

use std::time::{Duration, Instant};

use coldfront_common::frame::Scope;

use crate::support::{Client, Engine};

const ENDLESS: &str = "SELECT count(*) FROM range(1000000000000) t(i) WHERE sin(i) > 2";

fn cancel_and_time(client: &mut Client, seq: u32) -> Duration {
    let began = Instant::now();
    client.cancel(seq);
    let failure = client.answer(seq).unwrap_err();
    assert_eq!(failure.sqlstate, "57014");
    began.elapsed()
}

#[test]
fn a_running_query_stops_within_a_second_and_the_next_request_works() {
    let engine = Engine::start();
    let mut client = engine.client();
    client.number(Scope::Read(9), "SELECT 1::BIGINT").unwrap();
    for round in 0..10 {
        let (_, seq) = client.start_query(Scope::Read(round), ENDLESS);
        std::thread::sleep(Duration::from_millis(20 * round));
        assert!(cancel_and_time(&mut client, seq) < Duration::from_secs(1));
        client.rollback();
        assert_eq!(client.number(Scope::Read(round), "SELECT 5::BIGINT").unwrap(), 5);
    }
}

#[test]
fn a_fetch_and_an_exec_can_be_cancelled() {
    let engine = Engine::start();
    let mut client = engine.client();
    let sql = "SELECT i FROM range(1000000000000) t(i) WHERE i < 100000 OR sin(i) > 2";
    let (stream, schema) = client.query(Scope::Read(1), sql).unwrap();
    client.fetch(stream, &schema).unwrap().unwrap();
    // What the engine had ready is answered with rows; the fetch after it finds none.
    let (failure, took) = loop {
        let seq = client.send(coldfront_common::frame::Kind::Fetch, &coldfront_common::frame::StreamId { stream });
        std::thread::sleep(Duration::from_millis(100));
        let began = Instant::now();
        client.cancel(seq);
        if let Err(failure) = client.answer(seq) {
            break (failure, began.elapsed());
        }
    };
    assert_eq!(failure.sqlstate, "57014");
    assert!(took < Duration::from_secs(1));

    let exec = coldfront_common::frame::Exec { scope: Scope::Write, sql: ENDLESS.into(), input: None };
    let seq = client.send(coldfront_common::frame::Kind::Exec, &exec);
    std::thread::sleep(Duration::from_millis(100));
    assert!(cancel_and_time(&mut client, seq) < Duration::from_secs(1));
    client.rollback();
    assert_eq!(client.number(Scope::Write, "SELECT 5::BIGINT").unwrap(), 5);
}

#[test]
fn cancelling_what_is_over_changes_nothing() {
    let engine = Engine::start();
    let mut client = engine.client();
    let (stream, seq) = client.start_query(Scope::Read(1), "SELECT i FROM range(1000000) t(i)");
    let frame = client.answer(seq).unwrap();
    let schema = coldfront_engine::ipc::decode_schema(&frame.payload).unwrap();
    for stale in [seq, 1, 77, u32::MAX] {
        client.cancel(stale);
    }
    assert_eq!(client.drain(stream, schema).unwrap().end.rows, 1_000_000);
}

#[test]
fn a_request_that_waits_its_turn_can_be_cancelled() {
    let engine = Engine::start();
    let mut client = engine.client();
    let (_, first) = client.start_query(Scope::Read(1), ENDLESS);
    let (_, second) = client.start_query(Scope::Read(2), "SELECT 1::BIGINT");
    client.cancel(second);
    std::thread::sleep(Duration::from_millis(50));
    client.cancel(first);
    assert_eq!(client.answer(first).unwrap_err().sqlstate, "57014");
    assert_eq!(client.answer(second).unwrap_err().sqlstate, "57014");
    assert_eq!(client.number(Scope::Read(3), "SELECT 5::BIGINT").unwrap(), 5);
}

#[test]
fn an_exec_that_waits_for_its_input_can_be_cancelled() {
    let engine = Engine::start();
    let mut client = engine.client();
    client.exec(Scope::Write, "CREATE TABLE t (n BIGINT, s VARCHAR)").unwrap();
    client.commit().unwrap();
    let seq = client.start_exec("INSERT INTO t SELECT * FROM coldfront_input(1)", 1);
    client.open_input(1).unwrap();
    client.send_batch(1, &crate::support::input_batch(0, 10)).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(cancel_and_time(&mut client, seq) < Duration::from_secs(1));
    // What the client had under way is discarded.
    client.send_batch(1, &crate::support::input_batch(0, 10)).unwrap();
    client.end_input(1).unwrap();
    client.rollback();
    assert_eq!(client.number(Scope::Read(1), "SELECT count(*) FROM t").unwrap(), 0);
}
