"""Ctrl-C, statement_timeout and pg_terminate_backend end whatever a session waits for in under 2 s, and nothing stays.

All statements here would run for minutes. Each is ended once it is known to be where the test wants it: computing in
the engine, waiting for a server that hangs, staging objects, or queueing behind another writer.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request

import psycopg
import pytest

import lake
from probe import (
    Running, create, describe, fails, fill, insert_in_engine, left_over, limit, new_objects, nothing_staged,
    wait_for_engine, waits_for,
)  # fmt: skip
from stack import free_port, wait_until

pytestmark = pytest.mark.coldfront
HTTP = f"127.0.0.1:{free_port()}"
STACK_SETTINGS = {"coldfront.engine_memory_limit_mb": "512", "coldfront.engine_metrics_listen": HTTP}
CANCELLED, TERMINATED = "57014", "57P01"

COMPUTES = "SELECT * FROM duckdb.query('SELECT sum(hash(range)) AS h FROM range(1000000000000)')"
READS = "SELECT count(*) FROM c.big WHERE pg_sleep(0.000001) IS NOT NULL"
AGGREGATES = "SELECT count(*) FROM c.big AS x JOIN c.big AS y ON x.v || 'a' < y.v || 'b'"
FROM_HEAP = "INSERT INTO c.a SELECT g, md5(g::text) FROM generate_series(1, 50000000) AS g"
FROM_COLD = "INSERT INTO c.a SELECT b.id, md5(b.v || n) FROM c.big AS b, generate_series(1, 1000) AS n"
IN_ENGINE = insert_in_engine("c", "a", "SELECT range, md5(range::VARCHAR) FROM range(1000000000)")
UPDATES = "UPDATE c.big SET v = v || '!' WHERE pg_sleep(0.000001) IS NOT NULL"
DELETES = "DELETE FROM c.big WHERE id % 2 = 0 AND pg_sleep(0.000001) IS NOT NULL"
RETURNS = "UPDATE c.big SET v = v || '!' RETURNING *"


@pytest.fixture(scope="module")
def pg(own_stack, gates):
    with own_stack.connect() as db:
        db.execute("CREATE SCHEMA c")
        create(db, "c", "big", "id bigint, v text")
        fill(db, "c", "big", "SELECT range, md5(range::VARCHAR) FROM range(300000)")
        create(db, "c", "unread", "id bigint, v text")
        fill(db, "c", "unread", "SELECT range, md5(range::VARCHAR) FROM range(1000)")
        create(db, "c", "a", "id bigint, v text")
        db.execute("INSERT INTO c.a VALUES (1, 'one'), (2, 'two')")
        db.execute("CREATE TABLE c.heap (id bigint)")
    return own_stack


@pytest.fixture
def watcher(pg):
    with pg.connect() as db:
        yield db


@pytest.fixture
def db(pg, gates, watcher):
    """A session with a statement that will be ended; afterwards it works, and everything is as it was."""
    before, left, engine = contents(watcher), left_over(pg), wait_for_engine(pg).pid
    with pg.connect() as session:
        session.execute("SELECT count(*) FROM c.a")
        yield session
        gates.reset()
        if not session.closed:
            session.cancel()  # of a test that failed
            session.rollback()
    assert contents(watcher) == before
    nothing_staged(pg, left)
    wait_until("the journal to be empty", lambda: not list((pg.pg.data / "coldfront/journal").iterdir()), limit(10))
    locks = "SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory'"
    wait_until("write locks to be free", lambda: watcher.execute(locks).fetchone()[0], limit(5))
    assert wait_for_engine(pg).pid == engine, "the engine was restarted"


def contents(db: psycopg.Connection) -> list[tuple]:
    count = "SELECT count(*), sum(id), count(v) FROM c.big"
    return [db.execute(count).fetchone(), *db.execute("SELECT id, v FROM c.a ORDER BY id"), db.execute("TABLE c.heap").fetchone()]


def in_time(running: Running, told: float) -> None:
    took = running.ended - told
    assert took < limit(2), f"it ended {took:.2f} s after it was told to"


def goes_on(db: psycopg.Connection) -> None:
    """The session reads and writes as before."""
    db.rollback()
    db.execute("SET statement_timeout = '60s'")
    assert db.execute("SELECT id FROM c.a ORDER BY id").fetchall() == [(1,), (2,)]
    db.execute("BEGIN")
    assert db.execute("INSERT INTO c.a VALUES (3, 'three')").rowcount == 1
    assert db.execute("SELECT id FROM c.a ORDER BY id").fetchall() == [(1,), (2,), (3,)]
    db.execute("ROLLBACK")


def cancel(pg, running: Running) -> None:
    told = time.monotonic()
    running.connection.cancel_safe()
    error = running.fails(CANCELLED)
    in_time(running, told)
    assert error.diag.message_primary == "canceling statement due to user request", describe(error)


def staged(pg, known: dict[str, int]) -> None:
    wait_until("objects to be staged", lambda: new_objects(pg, known), limit(20), pg.pg.log)


# --- cancel


@pytest.mark.parametrize("sql", [COMPUTES, READS, AGGREGATES, UPDATES, DELETES, RETURNS])
def test_cancel(pg, db, watcher, sql):
    running = Running(db, sql)
    waits_for(watcher, running.pid, ("Extension", "Timeout"))
    cancel(pg, running)
    goes_on(db)


@pytest.mark.parametrize("sql", [FROM_HEAP, FROM_COLD, IN_ENGINE], ids=["heap", "cold", "engine"])
def test_cancel_an_insert_that_stages(pg, db, sql):
    known = lake.objects("", pg.environment())
    running = Running(db, sql)
    staged(pg, known)
    cancel(pg, running)
    goes_on(db)


def test_cancel_a_copy(pg, db, watcher):
    """This client goes on sending, as they do; the server has ended the statement all the same."""
    enough = threading.Event()

    def copy(connection, sql):
        with connection.cursor() as cursor, cursor.copy(sql) as stream:
            row = 0
            while not enough.is_set():
                stream.write("".join(f"{n}\tcopied {n}\n" for n in range(row, row + 1000)))
                row += 1000

    def copied() -> int | None:
        return (watcher.execute("SELECT tuples_processed FROM pg_stat_progress_copy WHERE pid = %s", [running.pid]).fetchone() or [None])[0]

    running = Running(db, "COPY c.a FROM STDIN", copy)
    try:
        wait_until("rows to arrive", lambda: (copied() or 0) > 100_000, limit(20), pg.pg.log)
        watcher.execute("SELECT pg_cancel_backend(%s)", [running.pid])
        wait_until("the copy to end", lambda: copied() is None, limit(2), pg.pg.log)
    finally:
        enough.set()
    running.fails(CANCELLED)
    goes_on(db)


def test_cancel_a_copy_to(pg, db, watcher):
    running = Running(db, "COPY (SELECT id, pg_sleep(0.000001) FROM c.big) TO STDOUT", drain)
    waits_for(watcher, running.pid, ("Extension", "Timeout", "Client"))
    cancel(pg, running)
    goes_on(db)


def drain(connection, sql) -> int:
    with connection.cursor() as cursor, cursor.copy(sql) as stream:
        return sum(len(block) for block in stream)


@pytest.mark.parametrize("server", ["catalog", "store"])
def test_cancel_while_a_server_hangs(pg, gates, db, server):
    """The engine's own work is stuck in a system call of a library; the session may not be."""
    gate = getattr(gates, server)
    gate.hold(b"GET /v1/lake/namespaces/c/tables/unread" if server == "catalog" else b"GET /lake/c/unread/")
    running = Running(db, "SELECT * FROM c.unread")
    assert gate.held.wait(limit(10)), f"the {server} was not asked"
    cancel(pg, running)
    gates.reset()
    goes_on(db)


def test_cancel_while_a_write_hangs(pg, gates, db):
    gates.store.hold(b"PUT /lake/c/a/data/")
    running = Running(db, "INSERT INTO c.a VALUES (3, 'three')")
    assert gates.store.held.wait(limit(10))
    cancel(pg, running)
    gates.reset()
    goes_on(db)


def test_cancel_a_fetch_and_leave_the_rest_of_the_cursor(pg, db, watcher):
    db.execute("BEGIN")
    db.execute("DECLARE d CURSOR FOR SELECT id FROM c.big WHERE pg_sleep(0.000001) IS NOT NULL")
    db.execute("FETCH 1 FROM d")
    running = Running(db, "MOVE ALL FROM d")
    waits_for(watcher, running.pid, ("Extension", "Timeout"))
    cancel(pg, running)
    goes_on(db)


def test_cancel_again_and_again(pg, db, watcher):
    """A cancel that comes at any moment leaves the session in step with the engine."""
    for milliseconds in (0, 1, 2, 5, 10, 20, 40, 80, 160):
        for sql in (READS, AGGREGATES, AGGREGATES, FROM_HEAP):
            db.execute(f"SET statement_timeout = '{milliseconds + 1}ms'")
            fails(db, sql, CANCELLED)
            db.execute("SET statement_timeout = 0")
            assert db.execute("SELECT id, v FROM c.a ORDER BY id").fetchall() == [(1, "one"), (2, "two")]
    goes_on(db)


# --- statement_timeout, transaction_timeout, lock_timeout


@pytest.mark.parametrize("sql", [COMPUTES, READS, FROM_HEAP, FROM_COLD, IN_ENGINE, UPDATES])
def test_statement_timeout(pg, db, sql):
    db.execute("SET statement_timeout = '700ms'")
    running = Running(db, sql)
    error = running.fails(CANCELLED)
    in_time(running, running.began + 0.7)
    assert error.diag.message_primary == "canceling statement due to statement timeout", describe(error)
    goes_on(db)


def test_transaction_timeout(pg, db):
    """It ends the session, as on a heap."""
    db.execute("SET transaction_timeout = '700ms'")
    running = Running(db, IN_ENGINE)
    running.fails("25P04")
    in_time(running, running.began + 0.7)


# --- the queue of writers


@pytest.fixture
def holder(pg):
    """Another session, which holds c.a's write lock."""
    with pg.connect() as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO c.a VALUES (9, 'held')")
        yield other
        other.rollback()


def test_cancel_a_wait_for_another_writer(pg, db, watcher, holder):
    running = Running(db, "INSERT INTO c.a VALUES (3, 'three')")
    waits_for(watcher, running.pid, "Lock")
    cancel(pg, running)
    holder.execute("ROLLBACK")
    goes_on(db)


@pytest.mark.parametrize(("setting", "state"), [("statement_timeout", "57014"), ("lock_timeout", "55P03")])
def test_timeout_in_a_wait_for_another_writer(pg, db, holder, setting, state):
    db.execute(f"SET {setting} = '300ms'")
    running = Running(db, "UPDATE c.a SET v = 'changed'")
    running.fails(state)
    in_time(running, running.began + 0.3)
    db.execute(f"SET {setting} = 0")
    assert db.execute("SELECT count(*) FROM c.a").fetchone() == (2,), "readers wait for nobody"
    holder.execute("ROLLBACK")
    goes_on(db)


def test_the_queue_moves_on_when_its_head_is_cancelled(pg, db, watcher):
    """Whoever waits gets its turn at once when the writer before it is cancelled in the middle of its work."""
    create(watcher, "c", "queue", "id bigint")
    try:
        with pg.connect() as first, pg.connect() as second:
            head = Running(first, insert_in_engine("c", "queue", "SELECT range FROM range(1000000000000)"))
            waits_for(watcher, head.pid)
            next_one = Running(second, "INSERT INTO c.queue VALUES (1)")
            waits_for(watcher, next_one.pid, "Lock")
            told = time.monotonic()
            first.cancel_safe()
            head.fails(CANCELLED)
            next_one.works()
            in_time(next_one, told)
            assert second.execute("SELECT id FROM c.queue").fetchall() == [(1,)]
    finally:
        watcher.execute("SELECT coldfront.drop_iceberg_table('c', 'queue', true)")


# --- pg_terminate_backend and clients that go away


def sessions() -> int:
    """Sessions the engine has."""
    with urllib.request.urlopen(f"http://{HTTP}/healthz", timeout=5) as answer:
        return json.load(answer)["sessions"]


@pytest.mark.parametrize("sql", [COMPUTES, READS, FROM_HEAP, IN_ENGINE, UPDATES])
def test_terminate(pg, watcher, db, sql):
    known = sessions()
    session = pg.connect()
    running = Running(session, sql)
    waits_for(watcher, running.pid, ("Extension", "Timeout"))
    told = time.monotonic()
    watcher.execute("SELECT pg_terminate_backend(%s)", [running.pid])
    running.fails(TERMINATED)
    in_time(running, told)
    wait_until("the backend to go", lambda: not watcher.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [running.pid]).fetchone())
    wait_until("the engine to forget the session", lambda: sessions() <= known, limit(5))
    goes_on(db)


def test_terminate_a_transaction_that_wrote(pg, watcher, db):
    known = sessions()
    session = pg.connect()
    session.execute("BEGIN")
    session.execute("INSERT INTO c.heap VALUES (1)")
    session.execute("INSERT INTO c.a VALUES (3, 'three')")
    watcher.execute("SELECT pg_terminate_backend(%s)", [session.info.backend_pid])
    db.execute("SET lock_timeout = '5s'")
    goes_on(db)
    wait_until("the engine to forget the session", lambda: sessions() <= known, limit(5))


def test_a_client_that_just_goes_away(pg, watcher, db):
    """Its backend notices when it next sends; here it is told to look while it works."""
    session = pg.connect()
    session.execute("SET client_connection_check_interval = '200ms'")
    running = Running(session, COMPUTES)
    waits_for(watcher, running.pid)
    running.connection.pgconn.finish()
    wait_until("the backend to go", lambda: not watcher.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [running.pid]).fetchone(), limit(5))
    goes_on(db)
