"""Outages beyond a server that is simply down: one that hangs or stumbles, a full disk, faults inside a transaction.

Whatever is wrong is named, with an SQLSTATE that says what kind of thing it is, nothing is half done, and once it is
mended both the session that met it and a new one work, without a restart of anything. No secret is shown anywhere.
"""

from __future__ import annotations

import itertools
import os
import subprocess

import psycopg
import pytest

from probe import (
    Running, create, describe, engine, fails, fill, limit, nothing_staged, wait_for_engine, within,
)  # fmt: skip
from stack import wait_until

pytestmark = pytest.mark.coldfront
SPILL_MB = 24
STACK_SETTINGS = {"coldfront.engine_memory_limit_mb": "128", "coldfront.engine_spill_limit_mb": str(SPILL_MB)}
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def pg(own_stack, gates):
    with own_stack.connect() as db:
        db.execute("CREATE SCHEMA o")
        create(db, "o", "t", "id bigint, v text")
        create(db, "o", "u", "id bigint")
        db.execute("INSERT INTO o.t VALUES (1, 'one')")
        create(db, "o", "big", "id bigint, v text")
        fill(db, "o", "big", "SELECT range, md5(range::VARCHAR) || md5((range + 1)::VARCHAR) FROM range(300000)")
        db.execute("CREATE TABLE o.heap (id bigint)")
    return own_stack


@pytest.fixture
def db(pg, gates):
    """A session that meets an outage; afterwards it works, as a new one does, and nothing has changed."""
    with pg.connect() as watcher:
        before, pid = contents(watcher), wait_for_engine(pg).pid
    with pg.connect() as session:
        session.execute("SELECT count(*) FROM o.t")
        yield session
        gates.reset()
        gates.put_in()
        session.rollback()
        assert contents(session) == before
        works(session)
    with pg.connect() as new:
        assert contents(new) == before
    assert wait_for_engine(pg).pid == pid, "the engine was restarted"


def contents(db: psycopg.Connection) -> list:
    return [
        db.execute("SELECT id, v FROM o.t ORDER BY id").fetchall(), db.execute("SELECT count(*) FROM o.u").fetchone(),
        db.execute("SELECT count(*) FROM o.big").fetchone(), db.execute("SELECT count(*) FROM o.heap").fetchone(),
    ]  # fmt: skip


def works(db: psycopg.Connection) -> None:
    db.execute("BEGIN")
    assert db.execute("INSERT INTO o.u VALUES (1)").rowcount == 1
    assert db.execute("SELECT count(*) FROM o.u").fetchone() == (1,)
    db.execute("COMMIT")
    assert db.execute("DELETE FROM o.u").rowcount == 1


@pytest.fixture
def unread(pg):
    """A table that nobody has read yet, so that nothing of it is cached anywhere."""
    name = f"unread{next(NUMBERS)}"
    with pg.connect() as db:
        create(db, "o", name, "id bigint, v text")
        fill(db, "o", name, "SELECT range, md5(range::VARCHAR) FROM range(1000)")
    yield f"o.{name}"
    with pg.connect() as db:
        db.execute("SELECT coldfront.drop_iceberg_table('o', %s, true)", [name])


def names(error: psycopg.Error, part: str, gate) -> None:
    """The message tells which part it was and where it is sought."""
    text = error.diag.message_primary
    assert part in text and str(gate.port) in text, describe(error)
    assert error.diag.message_hint, describe(error)


# --- servers that hang


def test_the_catalog_hangs_for_a_while(pg, gates, db):
    """The statement waits and then goes on as if nothing had been."""
    gates.catalog.hold(b"GET /v1/lake/namespaces/o/tables/t")
    running = Running(db, "SELECT v FROM o.t")
    assert gates.catalog.held.wait(limit(10))
    gates.catalog.open()
    assert running.works().fetchall() == [("one",)]


def test_the_object_store_hangs_for_a_while(pg, gates, db, unread):
    gates.store.hold(f"GET /lake/{unread.replace('.', '/')}/".encode())
    running = Running(db, f"SELECT count(v) FROM {unread}")
    assert gates.store.held.wait(limit(10))
    gates.store.open()
    assert running.works().fetchone() == (1000,)


def test_the_object_store_hangs_while_another_table_commits(pg, gates, db):
    """A write that waits holds up its own table's writers and nobody else."""
    gates.store.hold(b"PUT /lake/o/t/data/")
    running = Running(db, "INSERT INTO o.t VALUES (2, 'two')")
    assert gates.store.held.wait(limit(10))
    with pg.connect() as other:
        other.execute("SET statement_timeout = '20s'")
        other.execute("SET lock_timeout = '200ms'")
        fails(other, "INSERT INTO o.t VALUES (3, 'three')", "55P03")
    gates.store.open()
    running.works()
    assert db.execute("DELETE FROM o.t WHERE id = 2").rowcount == 1


# --- servers that are away or stumble


def test_a_new_session_meets_a_catalog_that_is_down(pg, gates, db):
    gates.catalog.close()
    with pg.connect() as new, within(10, "to say so"):
        for sql in ("SELECT * FROM o.t", "INSERT INTO o.t VALUES (2, 'two')", "UPDATE o.t SET v = ''"):
            names(fails(new, sql, "08001"), "catalog", gates.catalog)
        gates.catalog.open()
        works(new)


def test_a_new_session_meets_an_object_store_that_is_down(pg, gates, db, unread):
    gates.store.close()
    with pg.connect() as new, within(20, "to say so"):
        names(fails(new, f"SELECT * FROM {unread}", "08001"), "object store", gates.store)
        names(fails(new, "INSERT INTO o.t VALUES (2, 'two')", "08001"), "object store", gates.store)
        gates.store.open()
        assert new.execute(f"SELECT count(*) FROM {unread}").fetchone() == (1000,)


def test_the_catalog_stumbles_once(pg, gates, db):
    """A read that can be repeated is repeated."""
    gates.catalog.answer(b"GET /v1/lake/namespaces/o/tables/t", 503)
    assert db.execute("SELECT v FROM o.t").fetchall() == [("one",)]


@pytest.mark.parametrize("status", [500, 503])
def test_the_catalog_fails(pg, gates, db, status):
    gates.catalog.answer(b"/v1/lake/namespaces/o/tables/t", status, times=1000)
    error = fails(db, "SELECT v FROM o.t", "58030", "08001")
    names(error, "catalog", gates.catalog)


def test_the_object_store_fails(pg, gates, db):
    gates.store.answer(b"PUT /lake/o/t/data/", 500, times=1000)
    error = fails(db, "INSERT INTO o.t VALUES (2, 'two')", "58030", "08001")
    names(error, "object store", gates.store)


def test_the_catalog_goes_down_before_the_commit(pg, gates, db):
    """COMMIT fails, and PostgreSQL's own part goes with it."""
    db.execute("BEGIN")
    db.execute("INSERT INTO o.heap VALUES (1)")
    db.execute("INSERT INTO o.t VALUES (2, 'two')")
    db.execute("INSERT INTO o.u VALUES (2)")
    gates.catalog.close()
    names(fails(db, "COMMIT", "08001"), "catalog", gates.catalog)


def test_the_object_store_goes_down_in_a_transaction(pg, gates, db):
    db.execute("BEGIN")
    db.execute("INSERT INTO o.heap VALUES (1)")
    db.execute("INSERT INTO o.t VALUES (2, 'two')")
    gates.store.close()
    names(fails(db, "INSERT INTO o.u VALUES (2)", "08001"), "object store", gates.store)
    fails(db, "SELECT 1", "25P02")
    assert db.execute("ROLLBACK").statusmessage == "ROLLBACK"


def test_the_object_store_goes_down_in_a_large_insert(pg, gates, db):
    gates.store.hold_answer(b"PUT /lake/o/t/data/")
    running = Running(db, "INSERT INTO o.t SELECT g, md5(g::text) FROM generate_series(1, 50000000) AS g")
    assert gates.store.held.wait(limit(30))
    gates.store.close()
    names(running.fails("08001", timeout_s=limit(20)), "object store", gates.store)


def test_a_commit_whose_answer_is_lost(pg, gates, db):
    """The catalog has applied it; the engine finds out, so the client sees plain success."""
    gates.catalog.lose_answer(b"transactions/commit")
    assert db.execute("INSERT INTO o.t VALUES (2, 'two')").rowcount == 1
    assert db.execute("SELECT id FROM o.t ORDER BY id").fetchall() == [(1,), (2,)]
    assert db.execute("DELETE FROM o.t WHERE id = 2").rowcount == 1


@pytest.mark.parametrize(("status", "states"), [(409, ["40001"]), (400, ["22023", "58030"])])
def test_a_commit_that_is_refused(pg, gates, db, status, states):
    gates.catalog.answer(b"transactions/commit", status, times=1000)
    fails(db, "UPDATE o.t SET v = 'changed'", *states)


def test_a_commit_at_which_the_catalog_stumbles(pg, gates, db):
    """Nobody knows whether it was applied; it is looked up, and sent again because it was not."""
    gates.catalog.answer(b"transactions/commit", 503, times=2)
    assert db.execute("INSERT INTO o.t VALUES (2, 'two')").rowcount == 1
    assert gates.catalog.faults_left == 0
    assert db.execute("DELETE FROM o.t WHERE id = 2").rowcount == 1


# --- credentials


def test_secrets_are_changed_under_sessions_at_work(pg, gates, db, unread):
    """A session in a transaction keeps what it has, everybody's next transaction takes the new ones."""
    weed, store = pg.weed, f"http://127.0.0.1:{gates.store.port}"
    with pg.connect() as admin:
        db.execute("BEGIN")
        db.execute("INSERT INTO o.t VALUES (2, 'two')")
        admin.execute("SELECT coldfront.set_storage_secret(%s, 'wrong-under-way', %s)", [weed.access_key, store])
        assert db.execute("SELECT count(*) FROM o.t").fetchone() == (2,)
        db.execute("ROLLBACK")
        names(fails(db, f"SELECT v FROM {unread}", "28000"), "object store", gates.store)
        gates.put_in()
        assert db.execute(f"SELECT count(v) FROM {unread}").fetchone() == (1000,)


def test_a_key_that_nobody_knows(pg, gates, db, unread):
    with pg.connect() as admin:
        admin.execute("SELECT coldfront.set_storage_secret('NOBODY', 'wrong-nobody', %s)", [f"http://127.0.0.1:{gates.store.port}"])
    for sql in (f"SELECT v FROM {unread}", "INSERT INTO o.t VALUES (2, 'two')"):
        names(fails(db, sql, "28000"), "object store", gates.store)
    gates.put_in()


def test_no_secret_at_all(pg, gates, db, unread):
    with pg.connect() as admin:
        admin.execute("DELETE FROM coldfront.storage_secret")
    error = fails(db, f"SELECT v FROM {unread}", "28000", "42501", "42704")
    assert "catalog" in error.diag.message_primary and error.diag.message_hint, describe(error)
    gates.put_in()


def test_the_warehouse_is_missing_for_a_new_session(pg, db):
    with pg.connect() as new:
        new.execute("SET coldfront.warehouse = 'nosuch'")
        for sql in ("SELECT * FROM o.t", "INSERT INTO o.t VALUES (2, 'two')"):
            error = fails(new, sql, "42704")
            assert "nosuch" in error.diag.message_primary and "coldfront.warehouse" in error.diag.message_hint, describe(error)
        new.execute("SET client_min_messages = warning")
        with pytest.raises(psycopg.Error, match="nosuch"):
            create(new, "o", "in_nosuch", "id bigint")
        new.execute("RESET coldfront.warehouse")
        works(new)


def test_a_read_only_key_writes_nothing(pg, gates, db):
    weed, store = pg.weed, f"http://127.0.0.1:{gates.store.port}"
    with pg.connect() as admin:
        admin.execute("SELECT coldfront.set_storage_secret(%s, %s, %s)", [weed.access_key + "RO", weed.secret_key, store])
    for sql in ("INSERT INTO o.t VALUES (2, 'two')", "UPDATE o.t SET v = ''", "DELETE FROM o.t"):
        names(fails(db, sql, "42501"), "object store", gates.store)
    assert db.execute("SELECT v FROM o.t").fetchall() == [("one",)]
    gates.put_in()


# --- the spill directory


def test_the_spill_directory_reaches_its_limit(pg, db):
    """An UPDATE of many rows sets its new rows aside until it has read all old ones."""
    error = fails(db, "UPDATE o.big SET v = v || '!'", "53100")
    text = error.diag.message_primary
    assert "spill" in text and f"{SPILL_MB} MiB" in text, describe(error)
    assert "spill_limit_mb" in error.diag.message_hint, describe(error)
    spilled = sum(f.stat().st_size for f in (pg.pg.data / "coldfront/spill").rglob("*") if f.is_file())
    assert spilled < 1 << 20, "the space is free again"


def test_a_computation_that_does_not_fit_in_memory(pg, db):
    query = "SELECT length(string_agg(md5(range::VARCHAR))) AS n FROM range(50000000)"
    error = fails(db, f"SELECT * FROM duckdb.query('{query}')", "53200")
    assert "memory limit of" in error.diag.message_primary and "memory_limit_mb" in error.diag.message_hint, describe(error)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
def test_the_disk_of_the_spill_directory_is_full(pg, gates, db):
    """A tiny file system under it, which is full before the configured limit is reached."""
    spill = pg.pg.data / "coldfront/spill"
    account = pg.pg.account
    options = f"size=8m,mode=700,uid={account.pw_uid},gid={account.pw_gid}"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(spill)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"this machine does not let us mount: {mounted.stderr.strip()}")
    try:
        error = fails(db, "UPDATE o.big SET v = v || '!'", "53100")
        assert "full" in error.diag.message_primary and "spill" in error.diag.message_primary, describe(error)
        works(db)
    finally:
        subprocess.run(["umount", "-l", str(spill)], check=True)


# --- afterwards


def test_nothing_staged_is_left(pg, gates):
    """What could not be removed during an outage is tried again every 15 s."""
    with pg.connect() as db:
        works(db)
    nothing_staged(pg, timeout_s=40)
    journals = pg.pg.data / "coldfront/journal"
    wait_until("the journals to go", lambda: not list(journals.iterdir()), limit(40))


def test_no_secret_in_any_log_or_error(pg, gates):
    """Runs last: the log holds everything that the tests above provoked, with every statement in it."""
    weed, mark = pg.weed, "sec" + "ret-of-this-test"
    shown: list[str] = []
    with pg.connect() as db:
        for setting in ("log_statement = 'all'", "log_min_duration_statement = 0", "log_min_messages = debug1", "log_parameter_max_length_on_error = -1"):
            db.execute(f"SET {setting}")
        attempts = [
            f"SELECT coldfront.set_storage_secret('k', '{mark}', url_style => 'nonsense')",
            f"SELECT coldfront.set_storage_secret('k', '{mark}', no_such_parameter => 1)",
            f"SELECT coldfront.set_storage_secret('k', '{mark}'",
            f"SELECT coldfront.set_storage_secret(NULL, '{mark}')",
            f"SELECT coldfront.set_catalog_secret('{mark}', NULL)",
            f"SELECT coldfront.set_catalog_token('{mark}', 1)",
            f"SELECT coldfront.set_storage_secret_azure('AccountName=a;AccountKey={mark}') / 0",
            f"DO $$ BEGIN PERFORM coldfront.set_catalog_token('{mark}'); RAISE EXCEPTION 'no'; END $$",
            f"BEGIN; SELECT coldfront.set_storage_secret('k', '{mark}'); ROLLBACK",
            f"EXPLAIN SELECT coldfront.set_storage_secret('k', '{mark}')",
            f"PREPARE p AS SELECT coldfront.set_storage_secret('k', '{mark}'); EXECUTE p; DEALLOCATE p",
        ]
        for sql in attempts:
            try:
                db.execute(sql)
            except psycopg.Error as error:
                shown.append(describe(error))
            db.rollback()
        for params in (["k", mark, "http://127.0.0.1:1"], ["k", mark, "nonsense://x"]):
            db.execute("SELECT coldfront.set_storage_secret(%s, %s, %s)", params)
            for sql in ("SELECT v FROM o.t", "INSERT INTO o.t VALUES (2, 'two')", "SELECT coldfront.ensure_attached()"):
                try:
                    db.execute(sql)
                except psycopg.Error as error:
                    shown.append(describe(error))
        gates.put_in()
        works(db)
        for sql in ("SELECT * FROM duckdb.query('SELECT * FROM duckdb_secrets()')", "SELECT * FROM duckdb.query('FROM duckdb_settings()')"):
            try:
                shown += map(str, db.execute(sql))
            except psycopg.Error as error:
                shown.append(describe(error))
    secrets = [weed.secret_key, mark, "wrong-under-way", "wrong-nobody"]
    text = "\n".join(shown)
    assert [secret for secret in secrets if secret in text] == [], text
    logged = [line for line in pg.pg.log.read_text(errors="replace").splitlines() if any(secret in line for secret in secrets)]
    assert logged == []
    for place in (pg.pg.data / "coldfront").rglob("*"):
        if place.is_file():
            kept = place.read_bytes()
            assert not [secret for secret in secrets if secret.encode() in kept], place
    assert pg.pg.log.stat().st_size > 10_000


def test_no_secret_in_the_engine_s_command_line_or_environment(pg):
    process = engine(pg)
    seen = " ".join(process.cmdline()) + str(process.environ())
    assert pg.weed.secret_key not in seen
