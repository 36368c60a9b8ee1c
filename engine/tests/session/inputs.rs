//! Rows that the client sends.

use std::time::Duration;

use coldfront_common::frame::Scope;

use crate::support::{Engine, input_batch};

const CREATE: &str = "CREATE TABLE t (n BIGINT, s VARCHAR)";

#[test]
fn rows_that_arrive_while_the_statement_runs_are_all_there() {
    let engine = Engine::start();
    let mut client = engine.client();
    client.exec(Scope::Write, CREATE).unwrap();
    let seq = client.start_exec("INSERT INTO t SELECT * FROM coldfront_input(7)", 7);
    client.input(7, 60, 50_000);
    assert_eq!(client.answer(seq).unwrap().json::<coldfront_common::frame::Done>().unwrap().rows, 3_000_000);
    assert_eq!(client.number(Scope::Write, "SELECT count(*) FROM t").unwrap(), 3_000_000);
    let sql = "SELECT count(*) FROM t WHERE s IS DISTINCT FROM 'row number ' || n";
    assert_eq!(client.number(Scope::Write, sql).unwrap(), 0);
    assert_eq!(client.number(Scope::Write, "SELECT count(*) - count(n) FROM t").unwrap(), 300_000);
    client.commit().unwrap();
    assert_eq!(client.number(Scope::Read(1), "SELECT count(DISTINCT n) FROM t").unwrap(), 2_700_000);
}

#[test]
fn a_kept_input_is_read_as_often_as_a_statement_likes() {
    let engine = Engine::start();
    let mut client = engine.client();
    client.exec(Scope::Write, CREATE).unwrap();
    // More than fits into memory, so that a part of it is on disk.
    client.input(3, 20, 100_000);
    let sql = "INSERT INTO t SELECT a.n, b.s FROM coldfront_input(3) a JOIN coldfront_input(3) b USING (n)";
    assert_eq!(client.exec(Scope::Write, sql).unwrap(), 1_800_000);
    let failure = client.exec(Scope::Write, "INSERT INTO t SELECT * FROM coldfront_input(3)").unwrap_err();
    assert!(failure.message.contains("input 3"), "{failure:?}");
}

#[test]
fn columns_can_be_left_out_and_counted() {
    let engine = Engine::start();
    let mut client = engine.client();
    client.input(1, 3, 5000);
    assert_eq!(client.number(Scope::Read(1), "SELECT count(*) FROM coldfront_input(1)").unwrap(), 15_000);
    let sql = "SELECT count(s) FROM coldfront_input(1) WHERE n % 2 = 0";
    assert_eq!(client.number(Scope::Read(1), sql).unwrap(), 7500);
}

#[test]
fn an_input_belongs_to_its_session() {
    let engine = Engine::start();
    let (mut mine, mut other) = (engine.client(), engine.client());
    mine.input(1, 1, 10);
    assert_eq!(mine.number(Scope::Read(1), "SELECT count(*) FROM coldfront_input(1)").unwrap(), 10);
    let failure = other.number(Scope::Read(1), "SELECT count(*) FROM coldfront_input(1)").unwrap_err();
    assert!(failure.message.contains("no input 1"), "{failure:?}");
}

#[test]
fn a_statement_that_fails_early_answers_at_once_and_the_rest_is_discarded() {
    let engine = Engine::start();
    let mut client = engine.client();
    client.exec(Scope::Write, CREATE).unwrap();
    client.commit().unwrap();
    let seq = client.start_exec("INSERT INTO nowhere SELECT * FROM coldfront_input(1)", 1);
    assert_eq!(client.answer(seq).unwrap_err().sqlstate, "42P01");
    client.input(1, 200, 50_000);
    client.rollback();
    // The number may be used again.
    let seq = client.start_exec("INSERT INTO t SELECT * FROM coldfront_input(1)", 1);
    client.input(1, 1, 10);
    client.answer(seq).unwrap();
    client.commit().unwrap();
    assert_eq!(client.number(Scope::Read(1), "SELECT count(*) FROM t").unwrap(), 10);
}

#[test]
fn a_client_that_dies_in_the_middle_leaves_no_row() {
    let engine = Engine::start();
    let mut client = engine.client();
    client.exec(Scope::Write, CREATE).unwrap();
    client.commit().unwrap();
    client.start_exec("INSERT INTO t SELECT * FROM coldfront_input(1)", 1);
    client.open_input(1).unwrap();
    for batch in 0..10 {
        client.send_batch(1, &input_batch(batch * 1000, 1000)).unwrap();
    }
    let mut other = engine.client();
    drop(client);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(other.number(Scope::Read(1), "SELECT count(*) FROM t").unwrap(), 0);
}

#[test]
fn reads_go_on_beside_a_statement_that_reads_its_rows_and_writes_do_not() {
    let engine = Engine::start();
    let mut client = engine.client();
    client.exec(Scope::Write, CREATE).unwrap();
    client.commit().unwrap();
    let seq = client.start_exec("INSERT INTO t SELECT * FROM coldfront_input(1)", 1);
    client.open_input(1).unwrap();
    client.send_batch(1, &input_batch(0, 1000)).unwrap();
    assert_eq!(client.number(Scope::Read(1), "SELECT count(*) FROM t").unwrap(), 0);
    assert_eq!(client.exec(Scope::Write, "DELETE FROM t").unwrap_err().sqlstate, "0A000");
    client.end_input(1).unwrap();
    client.answer(seq).unwrap();
    assert_eq!(client.number(Scope::Write, "SELECT count(*) FROM t").unwrap(), 1000);
}
