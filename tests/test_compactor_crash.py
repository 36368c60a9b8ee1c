"""kill -9 of the compactor at every step, writers that change what is being rewritten, and services that go away."""

from __future__ import annotations

import itertools
import threading

import psycopg
import pytest

import lake
from compact import Compactor, Shape, strictly_valid
from probe import create
from stack import wait_until

pytestmark = pytest.mark.coldfront
_names = itertools.count(1)
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'coldfront-compactor' AND wait_event_type = 'Lock'"


@pytest.fixture(scope="module")
def env(stack):
    return stack.environment()


@pytest.fixture
def compactor(stack, tmp_path):
    return Compactor(stack, tmp_path)


@pytest.fixture
def db(stack):
    with stack.connect() as connection:
        yield connection


@pytest.fixture
def table(db):
    """Twelve files of ten rows, and some deletes."""
    name = f"t{next(_names)}"
    db.execute("SET client_min_messages = warning")
    db.execute("CREATE SCHEMA IF NOT EXISTS cc")
    create(db, "cc", name, "id bigint, v text")
    for at in range(12):
        db.execute(f"INSERT INTO cc.{name} SELECT g, 'v' || g FROM generate_series({at * 10}, {at * 10 + 9}) g")
    db.execute(f"DELETE FROM cc.{name} WHERE id % 10 = 0")
    yield name
    db.execute("SELECT coldfront.drop_iceberg_table('cc', %s, true)", [name])


def rows(db: psycopg.Connection, table: str) -> list[tuple]:
    return db.execute(f"SELECT id, v FROM cc.{table} ORDER BY 1").fetchall()


def garbage(env: dict, table: str) -> set[str]:
    """Objects of the table that no snapshot refers to."""
    found = {key for key in lake.objects(f"cc/{table}/", env) if not key.endswith(".metadata.json")}
    return found - lake.referenced(lake.catalog(env).load_table(("cc", table)))


POINTS = [
    *(("compact", point) for point in ("planned", "rewriting", "rewritten", "claimed", "prepared", "committed")),
    *(("rewrite-manifests", point) for point in ("planned", "claimed", "prepared", "committed")),
    *(("expire", point) for point in ("planned", "claimed", "expired", "removing")),
    *(("orphans", point) for point in ("listed", "removing")),
]


@pytest.mark.parametrize("task,point", POINTS)
def test_killed(db, env, table, compactor, task, point):
    before = rows(db, table)
    arguments = {"rewrite-manifests": ["--manifests-max", "2"], "expire": ["--older-than-hours", "0"], "orphans": ["--orphan-age-hours", "0", "--i-know"]}
    if task == "orphans":
        lake.s3(env).put_object(Bucket=env["WAREHOUSE"], Key=f"cc/{table}/data/stray.parquet", Body=b"x")
    if task == "expire":
        compactor.compact(f"cc.{table}")
    paused = compactor.pause_at(point, "run", "--table", f"cc.{table}", "--task", task, *arguments.get(task, []))
    paused.kill()
    assert rows(db, table) == before
    assert db.execute(f"INSERT INTO cc.{table} VALUES (1000, 'after')").statusmessage == "INSERT 0 1"
    strictly_valid(env, "cc", table)
    wait_until("the lock of the killed one to go", lambda: "works on it" not in compactor.orphans_now(f"cc.{table}").stderr)
    assert garbage(env, table) == set()
    compactor.run(f"cc.{table}", task, *arguments.get(task, []))
    assert rows(db, table) == [*before, (1000, "after")]
    strictly_valid(env, "cc", table)


def waiting(stack, db, compactor, table: str, change: str) -> str:
    """Compacts while a transaction is open that has made `change`, and lets that commit first; returns the log."""
    logs = []
    with stack.connect(autocommit=False) as writer:
        writer.execute(change)
        worker = threading.Thread(target=lambda: logs.append(compactor.compact(f"cc.{table}").stderr))
        worker.start()
        wait_until("the compactor to wait for its turn", lambda: db.execute(WAITS).fetchone()[0])
        writer.commit()
        worker.join(60)
    return logs[0]


def test_a_delete_of_rows_being_rewritten_is_not_lost(stack, db, env, table, compactor):
    before = rows(db, table)
    log = waiting(stack, db, compactor, table, f"DELETE FROM cc.{table} WHERE id = 15")
    assert "1 groups given up" in log and "became 1" in log, log
    assert rows(db, table) == [row for row in before if row[0] != 15]
    assert Shape(env, "cc", table).delete_files == 0
    assert garbage(env, table) == set()


def test_an_insert_meanwhile_costs_no_second_rewrite(stack, db, env, table, compactor):
    before = rows(db, table)
    log = waiting(stack, db, compactor, table, f"INSERT INTO cc.{table} VALUES (500, 'new')")
    assert "0 groups given up" in log and "became 1" in log, log
    assert rows(db, table) == [*before, (500, "new")]
    strictly_valid(env, "cc", table)


def test_a_lost_claim_commits_nothing(stack, db, env, table, compactor):
    before, snapshots = rows(db, table), Shape(env, "cc", table).snapshots
    failed = []
    with stack.connect(autocommit=False) as holder:
        holder.execute("SELECT coldfront._claim_iceberg_external(%s)", [f'"ice"."cc"."{table}"'])
        worker = threading.Thread(target=lambda: failed.append(compactor.compact(f"cc.{table}", code=1).stderr))
        worker.start()
        wait_until("the compactor to wait for its turn", lambda: db.execute(WAITS).fetchone()[0])
        db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'coldfront-compactor' AND wait_event_type = 'Lock'")
        worker.join(60)
    assert f"cc.{table}" in failed[0]
    assert rows(db, table) == before and Shape(env, "cc", table).snapshots == snapshots
    compactor.orphans_now(f"cc.{table}")
    assert garbage(env, table) == set()
