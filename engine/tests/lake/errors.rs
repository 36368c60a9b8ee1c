//! Every outage and wrong setting is an error that names what is at fault, and is over when the cause is.

use coldfront_common::frame::{Failure, Lake, Scope};

use crate::seaweed::{KEY, READER_KEY, SECRET};
use crate::support::Engine;
use crate::world::{client_at, client_with, lake, login, ports, storage};

/// What a read and a write give with a lake that is wrong somewhere.
fn read_and_write(engine: &Engine, table: &str, lake: Lake) -> (Result<i64, Failure>, Result<u64, Failure>) {
    let mut client = client_at(engine, lake);
    let read = client.number(Scope::Read(1), &format!("SELECT count(*) FROM \"ice\".\"t\".\"{table}\""));
    client.rollback();
    let write = client.exec(Scope::Write, &format!("INSERT INTO \"ice\".\"t\".\"{table}\" VALUES (1, 'x')"));
    client.rollback();
    for failure in [read.as_ref().err(), write.as_ref().err()].into_iter().flatten() {
        let text = format!("{failure:?}");
        assert!(!text.contains(SECRET) && !text.contains("wrong-secret"), "{text}");
    }
    (read, write)
}

fn is(failure: &Failure, sqlstate: &str, words: &[&str]) {
    assert_eq!(failure.sqlstate, sqlstate, "{failure:?}");
    for word in words {
        assert!(failure.message.contains(word), "{word}: {failure:?}");
    }
}

#[test]
fn the_part_at_fault_is_named() {
    let engine = Engine::start();
    let mut client = client_with(&engine, "faults", "");
    client.exec(Scope::Write, "INSERT INTO \"ice\".\"t\".\"faults\" VALUES (1, 'x')").unwrap();
    client.commit().unwrap();
    let (_, s3) = ports();
    let store = format!("http://127.0.0.1:{s3}");
    let both = |lake: Lake, sqlstate: &str, words: &[&str]| {
        let (read, write) = read_and_write(&engine, "faults", lake);
        is(&read.unwrap_err(), sqlstate, words);
        is(&write.unwrap_err(), sqlstate, words);
    };

    both(
        Lake { catalog_uri: "http://127.0.0.1:1".into(), ..lake() },
        "08001",
        &["catalog at 127.0.0.1:1", "does not answer"],
    );
    both(Lake { catalog_auth: login("wrong-secret"), ..lake() }, "28000", &["catalog", "rejected the credentials"]);
    both(Lake { warehouse: "nowhere".into(), ..lake() }, "42704", &["catalog", "no warehouse", "nowhere"]);
    let unreachable = storage(KEY, SECRET, "http://127.0.0.1:1".into());
    both(Lake { storage: unreachable, ..lake() }, "08001", &["object store at 127.0.0.1:1", "does not answer"]);
    let wrong = storage(KEY, "wrong-secret", store.clone());
    both(Lake { storage: wrong, ..lake() }, "28000", &["object store", "rejected the credentials"]);

    let (read, write) =
        read_and_write(&engine, "faults", Lake { storage: storage(READER_KEY, SECRET, store), ..lake() });
    assert_eq!(read.unwrap(), 1);
    is(&write.unwrap_err(), "42501", &["object store", "does not allow"]);

    // None of this disturbed a session that has everything right, and the log holds no credential.
    let (read, write) = read_and_write(&engine, "faults", lake());
    assert_eq!((read.unwrap(), write.unwrap()), (1, 1));
    assert!(!engine.log().contains(SECRET) && !engine.log().contains("wrong-secret"));
}

#[test]
fn statements_have_their_own_errors() {
    let engine = Engine::start();
    let mut client = client_with(&engine, "statements", "");
    for (sql, sqlstate) in [
        ("SELECT * FROM \"ice\".\"t\".\"nowhere\"", "42P01"),
        ("SELECT * FROM \"ice\".\"nowhere\".\"t\"", "3F000"),
        ("SELECT nothing FROM \"ice\".\"t\".\"statements\"", "42703"),
        ("CREATE TABLE \"ice\".\"t\".\"statements\" (n BIGINT)", "42P07"),
        ("CREATE TABLE \"ice\".\"t\".\"odd\" (n INTERVAL)", "0A000"),
        ("INSERT INTO \"ice\".\"t\".\"statements\" VALUES ('x', 'y')", "22P02"),
        ("INSERT INTO \"ice\".\"t\".\"statements\" SELECT 9223372036854775807 + i, '' FROM range(3) r(i)", "22003"),
        ("INSERT INTO \"ice\".\"t\".\"statements\" VALUES (1)", "42000"),
    ] {
        assert_eq!(client.exec(Scope::Write, sql).unwrap_err().sqlstate, sqlstate, "{sql}");
        client.rollback();
    }
    assert_eq!(client.number(Scope::Read(1), "SELECT count(*) FROM \"ice\".\"t\".\"statements\"").unwrap(), 0);
}

#[test]
fn a_write_conflict_is_a_serialization_failure() {
    let engine = Engine::start();
    let mut first = client_with(&engine, "conflict", "");
    let mut second = client_at(&engine, lake());
    for (client, n) in [(&mut first, 1), (&mut second, 2)] {
        client.exec(Scope::Write, "DELETE FROM \"ice\".\"t\".\"conflict\" WHERE n = 99").unwrap();
        client.exec(Scope::Write, &format!("INSERT INTO \"ice\".\"t\".\"conflict\" VALUES ({n}, '')")).unwrap();
    }
    first.commit().unwrap();
    is(&second.commit().unwrap_err(), "40001", &["another writer"]);
    second.rollback();
    assert_eq!(second.number(Scope::Read(1), "SELECT sum(n)::BIGINT FROM \"ice\".\"t\".\"conflict\"").unwrap(), 1);
}
