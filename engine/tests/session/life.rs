//! Start, stop, crash, and clients that misbehave.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coldfront_common::frame::{Kind, PROTOCOL_VERSION, Scope};
use rustix::process::Signal;

use crate::support::{Client, Engine, command};

#[test]
fn the_socket_is_for_its_owner_only() {
    let engine = Engine::start();
    let mode = std::fs::metadata(engine.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn another_version_is_refused_by_name() {
    let engine = Engine::start();
    let mut client = Client::connect(&engine.socket());
    let failure = client.hello("test", PROTOCOL_VERSION + 1).unwrap_err();
    assert_eq!(failure.sqlstate, "08P01");
    assert!(failure.message.contains("matching versions"), "{}", failure.message);
}

#[test]
fn a_session_begins_with_a_hello() {
    let engine = Engine::start();
    let mut client = Client::connect(&engine.socket());
    assert_eq!(client.commit().unwrap_err().sqlstate, "08P01");
}

#[test]
fn frames_that_are_too_long_or_unknown_end_the_session_and_no_other() {
    let engine = Engine::start();
    let mut healthy = engine.client();
    for bytes in [
        &[255, 255, 255, 255, Kind::Query as u8, 1, 0, 0, 0][..],
        &[5, 0, 0, 0, 250, 1, 0, 0, 0],
        &[0, 0, 0, 0, Kind::Query as u8, 1, 0, 0, 0],
        &[6, 0, 0, 0, Kind::InputData as u8, 0, 0, 0, 0, 1],
    ] {
        let mut client = engine.client();
        client.socket.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        client.socket.read_to_end(&mut answer).unwrap();
        assert!(String::from_utf8_lossy(&answer).contains("08P01"), "{bytes:?}");
    }
    assert_eq!(healthy.number(Scope::Read(1), "SELECT 1::BIGINT").unwrap(), 1);
}

#[test]
fn a_terminated_engine_ends_cleanly_even_with_work_in_hand() {
    let mut engine = Engine::start();
    let mut client = engine.client();
    client.exec(Scope::Write, "CREATE TABLE t (n BIGINT)").unwrap();
    client.start_query(Scope::Read(1), "SELECT count(*) FROM range(1000000000000) t(i) WHERE sin(i) > 2");
    std::thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    engine.signal(Signal::TERM);
    assert!(engine.wait().success());
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(!engine.socket().exists());
}

#[test]
fn a_killed_engine_is_replaced_by_the_next() {
    let mut engine = Engine::start();
    let mut client = engine.client();
    client.number(Scope::Read(1), "SELECT 1::BIGINT").unwrap();
    engine.signal(Signal::KILL);
    engine.wait();
    assert!(engine.socket().exists(), "a killed engine leaves its socket");
    let again = Engine::with(engine.directory.clone(), &[]);
    assert_eq!(again.client().number(Scope::Read(1), "SELECT 1::BIGINT").unwrap(), 1);
}

#[test]
fn two_engines_do_not_share_a_state_directory_or_a_socket() {
    let engine = Engine::start();
    let status = command(engine.directory.path(), &[]).status().unwrap();
    assert_eq!(status.code(), Some(4));
    let elsewhere = tempfile::tempdir().unwrap();
    let state = elsewhere.path().to_str().unwrap();
    let status = command(engine.directory.path(), &["--state-dir", state]).status();
    assert_eq!(status.unwrap().code(), Some(2), "clap refuses an argument given twice");
    assert_eq!(engine.client().number(Scope::Read(1), "SELECT 1::BIGINT").unwrap(), 1);
}

#[test]
fn missing_settings_are_named() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_coldfront-engine")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("COLDFRONT_ENGINE_SOCKET"));
}

#[test]
fn a_broken_extension_directory_is_an_error_of_the_statement() {
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let nowhere = directory.path().join("nowhere");
    let engine = Engine::with_extensions(directory, &nowhere);
    let failure = engine.client().number(Scope::Read(1), "SELECT 1::BIGINT").unwrap_err();
    assert!(
        failure.message.contains("nowhere") || failure.detail.is_some_and(|d| d.contains("nowhere")),
        "{}",
        failure.message
    );
}

#[test]
fn many_sessions_come_and_go() {
    let engine = Engine::start();
    engine.client().exec(Scope::Write, "SELECT 1").unwrap();
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let engine = &engine;
            scope.spawn(move || {
                for round in 0..25 {
                    let mut client = engine.client();
                    let sql = format!("SELECT {worker}::BIGINT * 1000 + {round}");
                    assert_eq!(client.number(Scope::Read(1), &sql).unwrap(), worker * 1000 + round);
                }
            });
        }
    });
}
