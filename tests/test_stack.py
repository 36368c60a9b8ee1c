"""The stack the other tests stand on: it comes back with its data, and its parts fail one at a time."""

from __future__ import annotations

import urllib.error
import urllib.request

import boto3
import botocore.exceptions
import duckdb
import psycopg
import pytest

import lake
from gate import Gate
from stack import LOCAL, Stack


def s3(stack: Stack, suffix: str = ""):
    return boto3.client(
        "s3", endpoint_url=stack.weed.s3_endpoint, region_name=stack.weed.region,
        aws_access_key_id=stack.weed.access_key + suffix, aws_secret_access_key=stack.weed.secret_key,
    )  # fmt: skip


def duck(stack: Stack, catalog_port: int | None = None, s3_port: int | None = None) -> duckdb.DuckDBPyConnection:
    """An engine that is not ours, attached to the lake."""
    weed = stack.weed
    catalog = f"http://127.0.0.1:{catalog_port or weed.ports['iceberg']}"
    db = duckdb.connect(config={"extension_directory": str(LOCAL / "duckdb/extensions")})
    for name in ("httpfs", "avro", "iceberg"):
        db.execute(f"LOAD {name}")
    db.execute(
        f"CREATE SECRET s (TYPE s3, KEY_ID '{weed.access_key}', SECRET '{weed.secret_key}', REGION '{weed.region}',"
        f" ENDPOINT '127.0.0.1:{s3_port or weed.ports['s3']}', URL_STYLE 'path', USE_SSL false)"
    )
    db.execute(
        f"CREATE SECRET c (TYPE iceberg, CLIENT_ID '{weed.access_key}', CLIENT_SECRET '{weed.secret_key}',"
        f" OAUTH2_SERVER_URI '{catalog}/v1/oauth/tokens')"
    )
    db.execute(f"ATTACH '{weed.warehouse}' AS ice (TYPE ICEBERG, ENDPOINT '{catalog}', SECRET c, ACCESS_DELEGATION_MODE 'none')")
    return db


@pytest.fixture
def table(stack):
    db = duck(stack)
    db.execute("CREATE SCHEMA IF NOT EXISTS ice.stack")
    db.execute("CREATE TABLE ice.stack.t (id BIGINT)")
    db.execute("INSERT INTO ice.stack.t VALUES (1), (2)")
    yield "ice.stack.t"
    db.execute("DROP TABLE ice.stack.t")


def test_data_survives_stop_and_kill(private_stack):
    stack = private_stack
    with stack.connect() as db:
        db.execute("CREATE TABLE kept AS SELECT 1 AS a")
    db = duck(stack)
    db.execute("CREATE SCHEMA ice.kept")
    db.execute("CREATE TABLE ice.kept.t AS SELECT 5 AS a")
    for end in (stack.stop, stack.kill):
        end()
        with pytest.raises(psycopg.OperationalError):
            stack.connect()
        stack.start()
        with stack.connect() as again:
            assert again.execute("SELECT a FROM kept").fetchone() == (1,)
        assert duck(stack).execute("SELECT a FROM ice.kept.t").fetchone() == (5,)


def test_the_server_is_utf8_and_utc(db):
    shown = [db.execute(f"SHOW {name}").fetchone()[0] for name in ("server_encoding", "TimeZone", "wal_level")]
    assert shown == ["UTF8", "UTC", "logical"]


def test_its_own_libraries_are_used(db):
    db.execute("CREATE EXTENSION IF NOT EXISTS dblink")
    assert db.execute("SELECT count(*) FROM pg_extension WHERE extname = 'dblink'").fetchone() == (1,)


def test_the_second_key_only_reads(stack, table):
    key = next(iter(lake.objects("stack/t/", stack.environment())))
    assert s3(stack, "RO").get_object(Bucket=stack.weed.warehouse, Key=key)["ContentLength"] > 0
    with pytest.raises(botocore.exceptions.ClientError, match="AccessDenied"):
        s3(stack, "RO").put_object(Bucket=stack.weed.warehouse, Key=key + ".x", Body=b"x")


def test_pyiceberg_reads_the_lake(stack, table):
    found = lake.load(lake.catalog(stack.environment()), '"ice"."stack"."t"')
    assert found.scan().to_arrow().to_pydict() == {"id": [1, 2]}


def test_a_closed_gate_refuses_and_an_open_one_carries(stack, table):
    with Gate(stack.weed.ports["s3"]) as gate:
        db = duck(stack, s3_port=gate.port)
        assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (2,)
        gate.close()
        with pytest.raises(duckdb.IOException, match="Could not connect"):
            db.execute(f"INSERT INTO {table} VALUES (3)")
        gate.open()
        assert db.execute(f"INSERT INTO {table} VALUES (3)").fetchone() == (1,)


def test_a_gate_answers_in_the_servers_place(stack):
    with Gate(stack.weed.ports["iceberg"]) as gate:
        url = f"http://127.0.0.1:{gate.port}/v1/config"
        gate.answer(b"GET /v1/config", 503)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(url, timeout=5)
        assert urllib.request.urlopen(url, timeout=5).status == 200


def test_a_lost_answer_was_carried_out(stack, table):
    def snapshots() -> int:
        return len(lake.load(lake.catalog(stack.environment()), '"ice"."stack"."t"').metadata.snapshots)

    before = snapshots()
    with Gate(stack.weed.ports["iceberg"]) as gate:
        db = duck(stack, catalog_port=gate.port)
        gate.lose_answer(b"transactions/commit", times=10)
        with pytest.raises(duckdb.Error):
            db.execute(f"INSERT INTO {table} VALUES (4)")
        assert gate.faults_left < 10
    assert snapshots() > before


def test_a_hanging_gate_holds_the_answer(stack):
    with Gate(stack.weed.ports["iceberg"]) as gate:
        gate.hang()
        with pytest.raises(TimeoutError):
            urllib.request.urlopen(f"http://127.0.0.1:{gate.port}/v1/config", timeout=1)
        gate.open()
        assert urllib.request.urlopen(f"http://127.0.0.1:{gate.port}/v1/config", timeout=5).status == 200
