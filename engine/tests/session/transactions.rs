//! Transactions, and what errors do to them.

use coldfront_common::frame::Scope;

use crate::support::Engine;

#[test]
fn a_write_is_seen_by_its_session_and_by_others_after_the_commit() {
    let engine = Engine::start();
    let (mut writer, mut reader) = (engine.client(), engine.client());
    writer.exec(Scope::Write, "CREATE TABLE t (n BIGINT)").unwrap();
    writer.commit().unwrap();
    assert_eq!(writer.exec(Scope::Write, "INSERT INTO t SELECT i FROM range(5) r(i)").unwrap(), 5);
    assert_eq!(writer.number(Scope::Write, "SELECT count(*) FROM t").unwrap(), 5);
    assert_eq!(reader.number(Scope::Read(1), "SELECT count(*) FROM t").unwrap(), 0);
    writer.commit().unwrap();
    assert_eq!(reader.number(Scope::Read(1), "SELECT count(*) FROM t").unwrap(), 0, "one number, one state");
    assert_eq!(reader.number(Scope::Read(2), "SELECT count(*) FROM t").unwrap(), 5);
    assert_eq!(writer.exec(Scope::Write, "DELETE FROM t WHERE n > 2").unwrap(), 2);
    writer.rollback();
    assert_eq!(reader.number(Scope::Read(3), "SELECT count(*) FROM t").unwrap(), 5);
}

#[test]
fn a_failed_statement_takes_the_transaction_with_it() {
    let engine = Engine::start();
    let mut client = engine.client();
    client.exec(Scope::Write, "CREATE TABLE t (n INTEGER)").unwrap();
    client.commit().unwrap();
    client.exec(Scope::Write, "INSERT INTO t VALUES (1)").unwrap();
    let overflow = client.exec(Scope::Write, "INSERT INTO t SELECT i + 2147483647 FROM range(9) r(i)").unwrap_err();
    assert_eq!(overflow.sqlstate, "22003");
    assert_eq!(client.exec(Scope::Write, "INSERT INTO t VALUES (2)").unwrap_err().sqlstate, "25P02");
    assert_eq!(client.commit().unwrap_err().sqlstate, "25P02", "a commit that publishes nothing is an error");
    client.rollback();
    assert_eq!(client.number(Scope::Read(1), "SELECT count(*) FROM t").unwrap(), 0);
}

#[test]
fn a_statement_that_cannot_be_planned_does_not() {
    let engine = Engine::start();
    let mut client = engine.client();
    client.exec(Scope::Write, "CREATE TABLE t (n BIGINT)").unwrap();
    client.exec(Scope::Write, "INSERT INTO t VALUES (1)").unwrap();
    for (sql, state) in [("SELECT * FROM nowhere", "42P01"), ("SELECT nothing", "42703"), ("SELEC", "42601")] {
        assert_eq!(client.exec(Scope::Write, sql).unwrap_err().sqlstate, state);
    }
    client.commit().unwrap();
    assert_eq!(client.number(Scope::Read(1), "SELECT count(*) FROM t").unwrap(), 1);
}

#[test]
fn a_read_scope_cannot_write() {
    let engine = Engine::start();
    let mut client = engine.client();
    client.exec(Scope::Write, "CREATE TABLE t (n BIGINT)").unwrap();
    client.commit().unwrap();
    assert_eq!(client.exec(Scope::Read(1), "INSERT INTO t VALUES (1)").unwrap_err().sqlstate, "25006");
}

#[test]
fn an_open_stream_on_the_write_transaction_survives_the_next_statement() {
    let engine = Engine::start();
    let mut client = engine.client();
    client.exec(Scope::Write, "CREATE TABLE t AS SELECT i AS n FROM range(500000) r(i)").unwrap();
    let (stream, schema) = client.query(Scope::Write, "SELECT n FROM t").unwrap();
    client.fetch(stream, &schema).unwrap().unwrap();
    assert_eq!(client.exec(Scope::Write, "DELETE FROM t").unwrap(), 500_000);
    assert_eq!(client.drain(stream, schema).unwrap().end.rows, 500_000, "as of the query's start");
    assert_eq!(client.number(Scope::Write, "SELECT count(*) FROM t").unwrap(), 0);
}

#[test]
fn without_a_catalog_everything_else_works_and_the_lake_is_a_clear_error() {
    let engine = Engine::start();
    let mut client = engine.client();
    assert_eq!(client.number(Scope::Read(1), "SELECT length('price')").unwrap(), 5);
    let failure = client.number(Scope::Read(1), "SELECT count(*) FROM \"ice\".\"a\".\"b\"").unwrap_err();
    assert_eq!(failure.sqlstate, "42704");
    assert!(failure.message.contains("no Iceberg catalog is configured"), "{}", failure.message);
}
