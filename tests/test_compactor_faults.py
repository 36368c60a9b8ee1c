"""The compactor while catalog and object store fail: the outcome of a commit is always known, and nothing is half done."""

from __future__ import annotations

import pytest

import lake
from compact import Compactor, Shape, strictly_valid
from probe import create

pytestmark = pytest.mark.coldfront
COMMIT = b"POST /v1/lake/namespaces"


@pytest.fixture
def compactor(own_stack, tmp_path):
    return Compactor(own_stack, tmp_path)


@pytest.fixture
def env(own_stack):
    return own_stack.environment()


@pytest.fixture
def db(own_stack, gates):
    with own_stack.connect() as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("CREATE SCHEMA IF NOT EXISTS cf")
        create(connection, "cf", "t", "id bigint")
        for at in range(6):
            connection.execute(f"INSERT INTO cf.t SELECT * FROM generate_series({at * 10}, {at * 10 + 9})")
        yield connection
        gates.reset()
        connection.execute("SELECT coldfront.drop_iceberg_table('cf', 't', true)")


def replaced(env: dict) -> int:
    """Snapshots that compaction made."""
    snapshots = Shape(env, "cf", "t").table.metadata.snapshots
    return sum(snapshot.summary.operation.value == "replace" for snapshot in snapshots)


def whole(db, env: dict) -> None:
    assert db.execute("SELECT count(*), sum(id) FROM cf.t").fetchone() == (60, 1770)
    strictly_valid(env, "cf", "t")


def test_a_lost_answer_is_read_back(db, env, gates, compactor):
    gates.catalog.lose_answer(COMMIT)
    assert "6 files became 1" in compactor.compact("cf.t").stderr
    assert gates.catalog.faults_left == 0 and replaced(env) == 1
    whole(db, env)


@pytest.mark.parametrize("status", [503, 500, 409])
def test_a_refusal_that_passes_is_repeated(db, env, gates, compactor, status):
    gates.catalog.answer(COMMIT, status)
    assert "6 files became 1" in compactor.compact("cf.t").stderr
    assert gates.catalog.faults_left == 0 and replaced(env) == 1
    whole(db, env)


def test_a_refusal_for_good_leaves_nothing(db, env, gates, compactor):
    before = {key for key in lake.objects("cf/t/", env)}
    gates.catalog.answer(COMMIT, 400)
    assert "answered 400" in compactor.compact("cf.t", code=1).stderr
    assert replaced(env) == 0
    assert {key for key in lake.objects("cf/t/", env) if key.endswith(".parquet")} == {key for key in before if key.endswith(".parquet")}
    whole(db, env)


def test_the_catalog_is_down(db, env, gates, compactor):
    gates.catalog.close()
    failed = compactor.compact("cf.t", code=1).stderr
    assert "catalog" in failed and f"127.0.0.1:{gates.catalog.port}" in failed
    outcome = db.execute("SELECT failed, outcome FROM coldfront.maintenance_run WHERE table_name = 't' AND task = 'compact'").fetchone()
    assert outcome[0] and "catalog" in outcome[1]
    assert "catalog" in db.execute("SELECT trouble FROM coldfront.maintenance_status() WHERE table_name = 't'").fetchone()[0]
    gates.catalog.open()
    compactor.compact("cf.t")
    whole(db, env)


def test_the_object_store_is_down(db, env, gates, compactor):
    gates.store.close()
    failed = compactor.compact("cf.t", code=1).stderr
    assert "cannot read s3://" in failed
    for secret in (env["S3_SECRET_KEY"], env["S3_ACCESS_KEY"]):
        assert secret not in failed
    gates.store.open()
    assert replaced(env) == 0
    whole(db, env)
