//! Nothing that was staged stays after a transaction that did not commit, and nothing committed ever goes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::time::{Duration, Instant, SystemTime};

use coldfront_common::frame::{Exec, Kind, Scope};
use rustix::process::Signal;

use crate::support::{Client, Engine, input_batch};
use crate::world::{client_at, client_with, lake, objects};

const PARTITIONED: &str = "PARTITIONED BY (bucket(4, n))";

/// Waits until a table has exactly these objects.
fn settles(name: &str, expected: &BTreeSet<String>) {
    let began = Instant::now();
    loop {
        let now = objects(name);
        if now == *expected {
            return;
        }
        let extra: Vec<_> = now.difference(expected).collect();
        let gone: Vec<_> = expected.difference(&now).collect();
        assert!(began.elapsed() < Duration::from_secs(20), "left behind: {extra:?}, gone: {gone:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn insert(client: &mut Client, name: &str, rows: u64) {
    let sql = format!("INSERT INTO \"ice\".\"t\".\"{name}\" SELECT i, 'row ' || i FROM range({rows}) r(i)");
    assert_eq!(client.exec(Scope::Write, &sql).unwrap(), rows);
}

/// Starts an insert that goes on for a long time, and waits until it has staged something.
fn insert_for_ever(client: &mut Client, name: &str, before: usize) -> u32 {
    let text = "md5(i::VARCHAR) || md5((i + 1)::VARCHAR)";
    let sql = format!("INSERT INTO \"ice\".\"t\".\"{name}\" SELECT i, {text} FROM range(1000000000) r(i)");
    let seq = client.send(Kind::Exec, &Exec { scope: Scope::Write, sql, input: None });
    let began = Instant::now();
    while objects(name).len() <= before {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is staged");
        std::thread::sleep(Duration::from_millis(50));
    }
    seq
}

fn count(client: &mut Client, scope: Scope, name: &str) -> i64 {
    client.number(scope, &format!("SELECT count(*) FROM \"ice\".\"t\".\"{name}\"")).unwrap()
}

#[test]
fn a_rollback_removes_what_every_kind_of_statement_wrote() {
    let engine = Engine::start();
    let mut client = client_with(&engine, "rolled_back", PARTITIONED);
    insert(&mut client, "rolled_back", 1000);
    client.commit().unwrap();
    let committed = objects("rolled_back");
    insert(&mut client, "rolled_back", 1000);
    client.exec(Scope::Write, "UPDATE \"ice\".\"t\".\"rolled_back\" SET s = 'x' WHERE n < 500").unwrap();
    client.exec(Scope::Write, "DELETE FROM \"ice\".\"t\".\"rolled_back\" WHERE n > 900").unwrap();
    assert!(objects("rolled_back").len() > committed.len());
    client.rollback();
    assert_eq!(objects("rolled_back"), committed);
    assert_eq!(count(&mut client, Scope::Read(1), "rolled_back"), 1000);
}

#[test]
fn a_failed_statement_removes_what_the_transaction_wrote_at_once() {
    let engine = Engine::start();
    let mut client = client_with(&engine, "failed", PARTITIONED);
    insert(&mut client, "failed", 1000);
    let sql = "INSERT INTO \"ice\".\"t\".\"failed\" SELECT i, CASE WHEN i = 1500000 THEN error('22012: no') ELSE 'x' END FROM range(2000000) r(i)";
    assert_eq!(client.exec(Scope::Write, sql).unwrap_err().sqlstate, "22012");
    settles("failed", &BTreeSet::new());
    client.rollback();
}

#[test]
fn a_cancelled_insert_leaves_neither_objects_nor_uploads() {
    let engine = Engine::start();
    let mut client = client_with(&engine, "cancelled", "");
    for _ in 0..3 {
        let seq = insert_for_ever(&mut client, "cancelled", 0);
        let began = Instant::now();
        client.cancel(seq);
        assert_eq!(client.answer(seq).unwrap_err().sqlstate, "57014");
        assert!(began.elapsed() < Duration::from_secs(2));
        client.rollback();
        settles("cancelled", &BTreeSet::new());
    }
    insert(&mut client, "cancelled", 10);
    client.commit().unwrap();
    assert_eq!(count(&mut client, Scope::Read(1), "cancelled"), 10);
}

#[test]
fn a_client_that_dies_leaves_nothing() {
    let engine = Engine::start();
    let mut client = client_with(&engine, "orphaned", "");
    insert_for_ever(&mut client, "orphaned", 0);
    drop(client);
    settles("orphaned", &BTreeSet::new());
    // Also in the middle of its own rows, and between two statements.
    let mut client = client_at(&engine, lake());
    client.start_exec("INSERT INTO \"ice\".\"t\".\"orphaned\" SELECT * FROM coldfront_input(1)", 1);
    client.open_input(1).unwrap();
    client.send_batch(1, &input_batch(0, 1000)).unwrap();
    drop(client);
    let mut client = client_at(&engine, lake());
    insert(&mut client, "orphaned", 10);
    drop(client);
    std::thread::sleep(Duration::from_millis(500));
    settles("orphaned", &BTreeSet::new());
    assert_eq!(count(&mut client_at(&engine, lake()), Scope::Read(1), "orphaned"), 0);
}

#[test]
fn a_killed_engine_leaves_nothing_once_the_next_one_knows_the_lake() {
    let mut engine = Engine::start();
    let mut client = client_with(&engine, "killed", "");
    insert(&mut client, "killed", 100);
    client.commit().unwrap();
    let committed = objects("killed");
    insert(&mut client, "killed", 100);
    client.exec(Scope::Write, "DELETE FROM \"ice\".\"t\".\"killed\" WHERE n < 5").unwrap();
    let mut other = client_with(&engine, "killed_too", "");
    insert_for_ever(&mut other, "killed_too", 0);
    engine.signal(Signal::KILL);
    engine.wait();
    assert!(objects("killed").len() > committed.len());

    let engine = Engine::with(engine.directory.clone(), &[]);
    let mut client = client_at(&engine, lake());
    assert_eq!(count(&mut client, Scope::Read(1), "killed"), 100);
    settles("killed", &committed);
    settles("killed_too", &BTreeSet::new());
}

#[test]
fn a_terminated_engine_tidies_up_itself() {
    let mut engine = Engine::start();
    let mut client = client_with(&engine, "terminated", "");
    insert_for_ever(&mut client, "terminated", 0);
    engine.signal(Signal::TERM);
    assert!(engine.wait().success());
    // What DuckDB's upload threads still had under way then is the next start's.
    let engine = Engine::with(engine.directory.clone(), &[]);
    count(&mut client_at(&engine, lake()), Scope::Read(1), "terminated");
    settles("terminated", &BTreeSet::new());
}

/// A journal that ends with COMMIT sent, as a crash at that moment leaves it.
fn interrupted_commit(engine: &mut Engine, name: &str, publish: bool) -> BTreeSet<String> {
    let mut client = client_with(engine, name, "");
    insert(&mut client, name, 100);
    let journals = engine.directory.path().join("state/journal");
    let path = fs::read_dir(&journals).unwrap().next().unwrap().unwrap().path();
    let mut journal = fs::read_to_string(&path).unwrap();
    if publish {
        client.commit().unwrap();
        // Manifests and manifest list are staged by the commit.
        for object in objects(name).iter().filter(|object| object.contains("/metadata/")) {
            journal += &format!("{{\"object\":\"s3://lake/{object}\"}}\n");
        }
    } else {
        engine.signal(Signal::KILL);
    }
    let before = objects(name);
    if publish {
        engine.signal(Signal::KILL);
    }
    engine.wait();
    fs::write(&path, journal + "\"committing\"\n").unwrap();
    // As if the crash were longer ago than a commit may take.
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    File::options().append(true).open(&path).unwrap().set_modified(hour_ago).unwrap();
    before
}

#[test]
fn an_interrupted_commit_that_was_applied_is_kept() {
    let mut engine = Engine::start();
    let before = interrupted_commit(&mut engine, "applied", true);
    let engine = Engine::with(engine.directory.clone(), &[]);
    let mut client = client_at(&engine, lake());
    assert_eq!(count(&mut client, Scope::Read(1), "applied"), 100);
    let journals = engine.directory.path().join("state/journal");
    let began = Instant::now();
    while fs::read_dir(&journals).unwrap().next().is_some() {
        assert!(began.elapsed() < Duration::from_secs(20), "the journal is still there\n{}", engine.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(objects("applied"), before);
    assert_eq!(count(&mut client, Scope::Read(2), "applied"), 100);
}

#[test]
fn an_interrupted_commit_that_was_not_applied_is_undone() {
    let mut engine = Engine::start();
    let before = interrupted_commit(&mut engine, "not_applied", false);
    assert!(!before.is_empty());
    let engine = Engine::with(engine.directory.clone(), &[]);
    assert_eq!(count(&mut client_at(&engine, lake()), Scope::Read(1), "not_applied"), 0);
    settles("not_applied", &BTreeSet::new());
}
