"""kill -9 of the engine, and of its clients, at every point: only what was in flight fails, and nothing of it stays.

The engine dies while it scans, writes, commits or idles. Each time the statement (or transaction) fails with 58000 and
the advice to retry, the backend lives, the next statement works within 2 s, the rows are as before, and the object
store holds what the tables refer to and nothing else. ROWS sets the size of the table that is scanned.
"""

from __future__ import annotations

import os
import re
import signal
import time
from itertools import pairwise

import psutil
import psycopg
import pytest

from probe import (
    Running, create, describe, drop, engine, engines_of, fails, fill, insert_in_engine, is_gone,
    kill_engine, left_over, limit, meets_waiting, new_objects, nothing_staged, postmaster, wait_for_engine, waits_for, within,
)  # fmt: skip
from stack import wait_until

import lake

pytestmark = pytest.mark.coldfront
STACK_SETTINGS = {"coldfront.engine_memory_limit_mb": "512"}
ROWS = int(os.environ.get("ROWS", 600_000))
LOST = "58000"
# An engine that lived this long starts again at once; one that died sooner waits a little longer each time.
HEALTHY_AFTER_S = 5.0
MANY = "SELECT g, md5(g::text) FROM generate_series(1, 50000000) AS g"


@pytest.fixture(scope="module")
def pg(own_stack, gates):
    with own_stack.connect() as db:
        db.execute("CREATE SCHEMA k")
        create(db, "k", "big", "id bigint, v text")
        fill(db, "k", "big", f"SELECT range, md5(range::VARCHAR) FROM range({ROWS})")
        create(db, "k", "unread", "id bigint, v text")
        fill(db, "k", "unread", "SELECT range, md5(range::VARCHAR) FROM range(1000)")
        create(db, "k", "a", "id bigint, v text")
        create(db, "k", "b", "id bigint, v text")
        db.execute("INSERT INTO k.a VALUES (1, 'one'), (2, 'two'), (3, 'three')")
        db.execute("INSERT INTO k.b VALUES (10, 'ten')")
        db.execute("CREATE TABLE k.heap (id bigint)")
    return own_stack


@pytest.fixture
def watcher(pg):
    with pg.connect() as db:
        yield db


@pytest.fixture
def db(pg, gates, watcher):
    """A session whose statement will lose its engine; afterwards everything has to be as it was."""
    before, known, left = contents(watcher), lake.objects("", pg.environment()), left_over(pg)
    wait_until("the engine to have lived for a while", lambda: time.time() - wait_for_engine(pg).create_time() > HEALTHY_AFTER_S)
    with pg.connect() as session:
        session.execute("SELECT count(*) FROM k.a")  # its session with the engine is open
        yield session
        gates.reset()
        if not session.closed:
            session.cancel()  # of a test that failed
            session.rollback()
            assert session.execute("SELECT pg_backend_pid()").fetchone() == (session.info.backend_pid,)
            assert contents(session) == before
    with pg.connect() as new:
        assert contents(new) == before
    nothing_staged(pg, left)
    assert set(known) - set(left) <= set(lake.objects("", pg.environment())), "objects of the tables were removed"
    assert list((pg.pg.data / "coldfront/journal").iterdir()) == []


def contents(db: psycopg.Connection) -> list[tuple]:
    return [
        db.execute("SELECT count(*), sum(id), count(v) FROM k.big").fetchone(),
        *db.execute("SELECT id, v FROM k.a ORDER BY id"),
        *db.execute("SELECT id, v FROM k.b ORDER BY id"),
        db.execute("SELECT count(*) FROM k.heap").fetchone(),
    ]


def is_lost(error: psycopg.Error) -> None:
    assert error.sqlstate == LOST, describe(error)
    assert "engine" in error.diag.message_primary, describe(error)
    assert "retry" in (error.diag.message_hint or ""), describe(error)


def next_statement_works(db: psycopg.Connection, since: float) -> None:
    """Within 2 s of the kill, in the session that lost its engine and in a new one."""
    db.rollback()
    assert db.execute("SELECT count(*) FROM k.a").fetchone() == (3,)
    took = time.monotonic() - since
    assert took < limit(2), f"the next statement was done {took:.2f} s after the kill"


def lose(stack, running: Running, within_s: float = 2.0) -> None:
    """Kills the engine under a running statement, which has to fail, and the session goes on."""
    killed = kill_engine(stack)
    is_lost(running.fails(LOST))
    took = running.ended - killed
    assert took < limit(within_s), f"the statement noticed after {took:.2f} s"
    next_statement_works(running.connection, max(killed, running.ended))


def staged(stack, known: dict[str, int]) -> None:
    wait_until("objects to be staged", lambda: new_objects(stack, known), 60, stack.pg.log)


# --- scans


def test_a_scan_that_postgres_reads(pg, db, watcher):
    """Rows are evaluated one by one in PostgreSQL, so the scan is open for a long time."""
    running = Running(db, "SELECT count(*) FROM k.big WHERE pg_sleep(0.000001) IS NOT NULL")
    waits_for(watcher, running.pid, ("Extension", "Timeout"))
    lose(pg, running, within_s=10)  # it still works through the rows it holds


def test_a_scan_that_the_engine_computes(pg, db, watcher):
    running = Running(db, "SELECT * FROM duckdb.query('SELECT sum(hash(range)) AS h FROM range(1000000000000)')")
    waits_for(watcher, running.pid)
    lose(pg, running)


def test_a_scan_that_waits_for_the_object_store(pg, gates, db, watcher):
    gates.store.hold(b"GET /lake/k/unread/data/")
    running = Running(db, "SELECT * FROM k.unread")
    assert gates.store.held.wait(20)
    killed = kill_engine(pg)
    is_lost(running.fails(LOST))
    gates.store.close()
    gates.store.open()
    next_statement_works(db, max(killed, running.ended))


def test_a_cursor_between_two_fetches(pg, db):
    db.execute("BEGIN")
    db.execute("DECLARE c CURSOR FOR SELECT * FROM k.big")
    assert len(db.execute("FETCH 10 FROM c").fetchall()) == 10
    killed = kill_engine(pg)
    is_lost(fails(db, "MOVE ALL FROM c", LOST))
    fails(db, "SELECT 1", "25P02")
    next_statement_works(db, killed)


def test_two_scans_of_two_sessions(pg, db, watcher):
    """Everybody's statement in flight is lost, and nobody's backend."""
    with pg.connect() as other:
        query = "SELECT * FROM duckdb.query('SELECT sum(hash(range)) AS h FROM range(1000000000000)')"
        both = [Running(db, query), Running(other, query)]
        for running in both:
            waits_for(watcher, running.pid)
        killed = kill_engine(pg)
        for running in both:
            is_lost(running.fails(LOST))
        next_statement_works(db, killed)
        next_statement_works(other, killed)


# --- writes


def test_a_large_insert(pg, db):
    known = lake.objects("", pg.environment())
    running = Running(db, f"INSERT INTO k.a {MANY}")
    staged(pg, known)
    lose(pg, running)


def test_a_large_insert_from_a_cold_table(pg, db):
    known = lake.objects("", pg.environment())
    running = Running(db, "INSERT INTO k.a SELECT b.id, md5(b.v || n) FROM k.big AS b, generate_series(1, 1000) AS n")
    staged(pg, known)
    lose(pg, running)


def test_a_copy(pg, db):
    known = lake.objects("", pg.environment())
    killed = None
    with pytest.raises(psycopg.Error) as caught, db.cursor() as cursor, cursor.copy("COPY k.a FROM STDIN") as copy:
        row = 0
        while killed is None or time.monotonic() < killed + 30:
            copy.write("".join(f"{n}\t{os.urandom(24).hex()}\n" for n in range(row, row + 5000)))
            row += 5000
            if killed is None and row % 50_000 == 0 and new_objects(pg, known):
                killed = kill_engine(pg)
    is_lost(caught.value)
    next_statement_works(db, time.monotonic())


# Without the pauses, few enough to be noticed within the limit, the DELETE may be over before its engine is killed.
SLOW_DELETE = "DELETE FROM k.big WHERE id % 2 = 0 AND (id % 20000 <> 0 OR pg_sleep(0.05) IS NOT NULL)"


@pytest.mark.parametrize("statement", ["UPDATE k.big SET v = v || '!'", SLOW_DELETE])
def test_an_update_or_delete_that_collects_its_rows(pg, db, watcher, statement):
    running = Running(db, statement)
    meets_waiting(watcher, running.pid)
    lose(pg, running)


@pytest.mark.parametrize(
    ("statement", "request_held"),
    [
        ("UPDATE k.a SET v = v || '!'", b"-deletes.parquet"),
        ("DELETE FROM k.a WHERE id = 2", b"-deletes.parquet"),
        ("INSERT INTO k.a VALUES (4, 'four')", b".parquet"),
    ],
    ids=["update", "delete", "insert"],
)
def test_a_write_while_it_stages(pg, gates, db, statement, request_held):
    gates.store.hold_answer(b"PUT /lake/k/a/data/")
    running = Running(db, statement)
    assert gates.store.held.wait(20)
    killed = kill_engine(pg)
    is_lost(running.fails(LOST))
    gates.store.close()
    gates.store.open()
    next_statement_works(db, max(killed, running.ended))


def test_a_commit_that_the_catalog_did_not_get(pg, gates, db):
    gates.catalog.hold(b"transactions/commit")
    running = Running(db, "UPDATE k.a SET v = v || '!'")
    assert gates.catalog.held.wait(20)
    killed = kill_engine(pg)
    running.fails(LOST, "08007")
    gates.catalog.close()  # the request dies with its sender
    gates.catalog.open()
    for journal in (pg.pg.data / "coldfront/journal").iterdir():
        # A commit that was sent is given a minute to arrive before its objects are removed.
        os.utime(journal, (time.time() - 300, time.time() - 300))
    next_statement_works(db, max(killed, running.ended))


def test_a_commit_whose_answer_nobody_heard(pg, gates, watcher):
    """The catalog has applied it, so its objects may not be touched, and the client is told that the outcome is unknown."""
    left = left_over(pg)
    create(watcher, "k", "heard", "id bigint")
    watcher.execute("INSERT INTO k.heard VALUES (1)")
    with pg.connect() as db:
        db.execute("SELECT * FROM k.heard")
        gates.catalog.hold_answer(b"transactions/commit")
        running = Running(db, "INSERT INTO k.heard VALUES (2)")
        assert gates.catalog.held.wait(20)
        kill_engine(pg)
        error = running.fails(LOST, "08007")
        gates.catalog.close()
        gates.catalog.open()
        assert db.execute("SELECT id FROM k.heard ORDER BY id").fetchall() == [(1,), (2,)], describe(error)
    nothing_staged(pg, left)
    wait_until("the journal to go", lambda: not list((pg.pg.data / "coldfront/journal").iterdir()), 20)
    drop(pg, "k", "heard")


# --- transactions


@pytest.mark.parametrize("then", ["SELECT count(*) FROM k.a", "INSERT INTO k.b VALUES (5, 'five')", "UPDATE k.a SET v = ''", "COMMIT"])
def test_between_the_statements_of_a_transaction(pg, db, then):
    db.execute("BEGIN")
    db.execute("INSERT INTO k.heap VALUES (1)")
    db.execute("INSERT INTO k.a VALUES (4, 'four')")
    db.execute("UPDATE k.b SET v = 'changed'")
    killed = kill_engine(pg)
    is_lost(fails(db, then, LOST))
    next_statement_works(db, killed)


def test_a_transaction_that_goes_on_with_its_heap_only(pg, db):
    """PostgreSQL's part may not commit without the lake's."""
    db.execute("BEGIN")
    db.execute("INSERT INTO k.a VALUES (4, 'four')")
    kill_engine(pg)
    db.execute("INSERT INTO k.heap VALUES (1)")
    is_lost(fails(db, "COMMIT", LOST))


def test_a_transaction_that_is_rolled_back(pg, db):
    db.execute("BEGIN")
    db.execute("INSERT INTO k.a VALUES (4, 'four')")
    killed = kill_engine(pg)
    assert db.execute("ROLLBACK").statusmessage == "ROLLBACK"
    next_statement_works(db, killed)


def test_a_repeatable_read_transaction_does_not_change_what_it_sees(pg, db, watcher):
    create(watcher, "k", "seen", "id bigint")
    try:
        watcher.execute("INSERT INTO k.seen VALUES (1)")
        db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert db.execute("SELECT count(*) FROM k.seen").fetchone() == (1,)
        watcher.execute("INSERT INTO k.seen VALUES (2)")
        kill_engine(pg)
        try:
            assert db.execute("SELECT count(*) FROM k.seen").fetchone() == (1,)
        except psycopg.Error as error:
            is_lost(error)
        db.rollback()
        assert db.execute("SELECT count(*) FROM k.seen").fetchone() == (2,)
    finally:
        db.rollback()
        drop(pg, "k", "seen")


def test_an_idle_session(pg, db):
    killed = kill_engine(pg)
    next_statement_works(db, killed)


def test_an_idle_session_that_writes_next(pg, db, watcher):
    create(watcher, "k", "fresh", "id bigint")
    try:
        killed = kill_engine(pg)
        db.execute("INSERT INTO k.fresh VALUES (1)")
        assert time.monotonic() - killed < limit(2)
        assert watcher.execute("SELECT count(*) FROM k.fresh").fetchone() == (1,)
    finally:
        drop(pg, "k", "fresh")


# --- the other processes


def test_a_killed_backend_in_an_insert(pg, gates, watcher):
    """PostgreSQL restarts all of its processes then; the engine notices that its client has gone."""
    before, known, left = contents(watcher), lake.objects("", pg.environment()), left_over(pg)
    session = pg.connect()
    running = Running(session, f"INSERT INTO k.a {MANY}")
    staged(pg, known)
    os.kill(running.pid, signal.SIGKILL)
    running.fails("57P02", None)
    wait_until("PostgreSQL to be back", lambda: pg.connect().close() is None, 30, pg.pg.log)
    with pg.connect() as db:
        assert contents(db) == before
    nothing_staged(pg, left)
    assert len(engines_of(pg)) == 1


def test_a_killed_supervisor(pg):
    """It has shared memory, so PostgreSQL restarts; the engine ends with its parent and another one starts."""
    old = wait_for_engine(pg)
    supervisor = old.parent()
    supervisor.kill()
    wait_until("the old engine to end", lambda: is_gone(old), 10)

    def works() -> bool:
        with pg.connect() as db:
            return db.execute("SELECT count(*) FROM k.a").fetchone() == (3,)

    wait_until("cold reads to work again", works, 30, pg.pg.log)
    assert len(engines_of(pg)) == 1


def busy(stack) -> list[Running]:
    """One session computes in the engine, another one stages."""
    known = lake.objects("", stack.environment())
    scan = Running(stack.connect(), "SELECT * FROM duckdb.query('SELECT sum(hash(range)) AS h FROM range(1000000000000)')")
    rows = "SELECT range, md5(range::VARCHAR) FROM range(1000000000)"
    insert = Running(stack.connect(), insert_in_engine("k", "a", rows))
    staged(stack, known)
    assert scan.running and insert.running
    return [scan, insert]


@pytest.fixture
def started_again(pg):
    yield pg
    pg.pg.start()


@pytest.mark.parametrize("mode", ["fast", "immediate", "smart"])
def test_the_engine_stops_with_the_server(started_again, mode):
    pg = started_again
    with pg.connect() as db:
        before, left = contents(db), left_over(pg)
    running = [] if mode == "smart" else busy(pg)
    family = [postmaster(pg), *postmaster(pg).children(recursive=True)]
    assert engine(pg) in family
    with within(15, f"stop -m {mode}"):
        pg.pg.tool("pg_ctl", "stop", "-D", str(pg.pg.data), "-m", mode, "-t", "15")
        wait_until("every process of the server to end", lambda: not engines_of(pg), 10, pg.pg.log)
    psutil.wait_procs(family, timeout=5)
    staying = [process for process in family if not is_gone(process)]
    pg.pg.start()
    assert staying == [], staying
    for statement in running:
        statement.fails("57P01", "57P02", LOST, None)
    with pg.connect() as db:
        assert contents(db) == before
    nothing_staged(pg, left)


def test_the_engine_ends_with_a_killed_postmaster(started_again):
    pg = started_again
    old = wait_for_engine(pg)
    process = postmaster(pg)
    process.kill()
    wait_until("the engine to end", lambda: is_gone(old), 10, pg.pg.log)
    assert not engines_of(pg)
    wait_until("the server to have gone", lambda: pg.pg.daemon.process() is None)
    pg.pg.start()
    with pg.connect() as db:
        assert db.execute("SELECT count(*) FROM k.a").fetchone() == (3,)


def test_sigterm_of_the_engine_alone(pg, db):
    """It is started again, as after any other end."""
    old = wait_for_engine(pg)
    old.terminate()
    wait_until("the engine to end", lambda: is_gone(old), 10)
    next_statement_works(db, time.monotonic())


def test_an_engine_that_cannot_start(pg):
    """The server stays usable, the error is clear, and the supervisor tries ever more seldom."""
    pg.pg.stop()
    pg.pg.settings["coldfront.engine_path"] = "/bin/false"
    start = pg.pg.log.stat().st_size
    try:
        pg.pg.start()
        with pg.connect() as db:
            db.execute("SET coldfront.engine_wait_ms = 300")
            db.execute("INSERT INTO k.heap VALUES (1)")
            with within(2, "a cold statement without an engine"):
                error = fails(db, "SELECT * FROM k.a", LOST)
            assert "the engine is not running" in error.diag.message_primary, describe(error)
            assert "log" in error.diag.message_hint, describe(error)
            db.execute("BEGIN")
            db.execute("INSERT INTO k.heap VALUES (2)")
            fails(db, "INSERT INTO k.a VALUES (9, 'nine')", LOST)
            db.execute("ROLLBACK")
            assert db.execute("DELETE FROM k.heap").rowcount == 1

            def pauses() -> list[int]:
                text = pg.pg.log.read_text(errors="replace")[start:]
                return [int(ms) for ms in re.findall(r"engine ended \(exit code 1\); it starts again in (\d+) ms", text)]

            wait_until("the supervisor to have tried five times", lambda: len(pauses()) >= 5, 20, pg.pg.log)
            assert all(later == 2 * earlier for earlier, later in pairwise(pauses()[:5]))
            assert not [p for p in postmaster(pg).children(recursive=True) if p.status() == psutil.STATUS_ZOMBIE]
    finally:
        pg.pg.stop()
        del pg.pg.settings["coldfront.engine_path"]
        pg.pg.start()
    with pg.connect() as db:
        assert db.execute("SELECT count(*) FROM k.a").fetchone() == (3,)


def test_an_engine_that_is_not_started_by_the_server(pg, watcher):
    """autostart off stops it, on starts it again, both without a restart of the server."""
    with pg.connect() as db:
        db.execute("SET coldfront.engine_wait_ms = 10000")
        watcher.execute("ALTER SYSTEM SET coldfront.engine_autostart = off")
        watcher.execute("SELECT pg_reload_conf()")
        try:
            wait_until("the engine to stop", lambda: not engines_of(pg), 15, pg.pg.log)
            db.execute("SET coldfront.engine_wait_ms = 0")
            error = fails(db, "SELECT * FROM k.a", LOST)
            assert "coldfront.engine_autostart" in error.diag.message_hint, describe(error)
        finally:
            watcher.execute("ALTER SYSTEM RESET coldfront.engine_autostart")
            watcher.execute("SELECT pg_reload_conf()")
        db.execute("SET coldfront.engine_wait_ms = 10000")
        assert db.execute("SELECT count(*) FROM k.a").fetchone() == (3,)
