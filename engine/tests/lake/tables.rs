//! Tables of the lake.

use coldfront_common::frame::{Done, Kind, Scope, Stats, TableStats};

use crate::support::Engine;
use crate::world::{client_at, client_with, lake};

#[test]
fn several_statements_on_several_tables_commit_together() {
    let engine = Engine::start();
    let mut client = client_with(&engine, "left", "");
    client_with(&engine, "right", "PARTITIONED BY (bucket(3, n))");
    client.exec(Scope::Write, "INSERT INTO \"ice\".\"t\".\"left\" SELECT i, 'row ' || i FROM range(100) r(i)").unwrap();
    let seq = client.start_exec("INSERT INTO \"ice\".\"t\".\"right\" SELECT * FROM coldfront_input(1)", 1);
    client.input(1, 4, 1000);
    assert_eq!(client.answer(seq).unwrap().json::<Done>().unwrap().rows, 4000);
    let update = "UPDATE \"ice\".\"t\".\"left\" SET s = 'changed' WHERE n < 10";
    assert_eq!(client.exec(Scope::Write, update).unwrap(), 10);
    let own = "SELECT count(*) FROM \"ice\".\"t\".\"left\" WHERE s = 'changed'";
    assert_eq!(client.number(Scope::Write, own).unwrap(), 10);
    let mut other = client_at(&engine, lake());
    assert_eq!(other.number(Scope::Read(1), own).unwrap(), 0);
    client.commit().unwrap();
    assert_eq!(other.number(Scope::Read(1), own).unwrap(), 0, "a snapshot stays as it is");
    assert_eq!(other.number(Scope::Read(2), own).unwrap(), 10);
    assert_eq!(other.number(Scope::Read(2), "SELECT count(*) FROM \"ice\".\"t\".\"right\"").unwrap(), 4000);
}

#[test]
fn rows_are_changed_by_file_and_position() {
    let engine = Engine::start();
    let mut client = client_with(&engine, "positions", "");
    client.exec(Scope::Write, "INSERT INTO \"ice\".\"t\".\"positions\" SELECT i, 'old' FROM range(1000) r(i)").unwrap();
    client.commit().unwrap();
    let create = "CREATE TEMP TABLE picked AS SELECT filename AS f, file_row_number AS p FROM \"ice\".\"t\".\"positions\" WHERE n % 100 = 7";
    client.exec(Scope::Write, create).unwrap();
    let update = "UPDATE \"ice\".\"t\".\"positions\" AS t SET s = 'new' FROM picked WHERE t.filename = picked.f AND t.file_row_number = picked.p";
    assert_eq!(client.exec(Scope::Write, update).unwrap(), 10);
    client.commit().unwrap();
    let sql = "SELECT count(*) FROM \"ice\".\"t\".\"positions\" WHERE s = 'new' AND n % 100 = 7";
    assert_eq!(client.number(Scope::Read(1), sql).unwrap(), 10);
}

#[test]
fn sizes_follow_the_commits() {
    let engine = Engine::start();
    let mut client = client_with(&engine, "sizes", "");
    let mut size = || {
        let stats = Stats { namespace: "t".into(), table: "sizes".into(), fresh: false, has: None };
        let frame = client.call(Kind::Stats, &stats).unwrap();
        let rows = frame.json::<TableStats>().unwrap().rows;
        client.exec(Scope::Write, "INSERT INTO \"ice\".\"t\".\"sizes\" SELECT i, '' FROM range(50) r(i)").unwrap();
        client.commit().unwrap();
        rows
    };
    assert_eq!([size(), size(), size()], [0, 50, 100]);
}

#[test]
fn a_dropped_table_is_gone_with_its_files_if_that_is_asked_for() {
    let engine = Engine::start();
    let mut client = client_with(&engine, "dropped", "");
    client.exec(Scope::Write, "INSERT INTO \"ice\".\"t\".\"dropped\" VALUES (1, 'x')").unwrap();
    client.commit().unwrap();
    client.exec(Scope::Write, "DROP TABLE \"ice_drop_purge\".\"t\".\"dropped\"").unwrap();
    client.commit().unwrap();
    assert!(crate::world::objects("dropped").is_empty());
    let failure = client.number(Scope::Read(1), "SELECT count(*) FROM \"ice\".\"t\".\"dropped\"").unwrap_err();
    assert_eq!(failure.sqlstate, "42P01");
}
