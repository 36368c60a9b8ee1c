"""The compactor on decoupled tables: every task, contents equal before and after for every reader, writers at work meanwhile."""

from __future__ import annotations

import itertools
import re
import subprocess
import threading
import urllib.request

import psycopg
import pytest

import lake
from compact import Compactor, Serving, Shape, footers, strictly_valid
from probe import create
from stack import free_port, wait_until

pytestmark = pytest.mark.coldfront
_names = itertools.count(1)


@pytest.fixture(scope="module")
def env(stack):
    return stack.environment()


@pytest.fixture
def compactor(stack, tmp_path):
    return Compactor(stack, tmp_path)


@pytest.fixture
def table(stack):
    """A decoupled table in schema `cp`, and its heap twin `cp.heap_…`; the name of the former."""
    name = f"t{next(_names)}"
    with stack.connect() as db:
        db.execute("SET client_min_messages = warning")
        db.execute("CREATE SCHEMA IF NOT EXISTS cp")
        create(db, "cp", name, "id bigint, v text, d float8, ts timestamptz")
        db.execute(f"CREATE TABLE cp.heap_{name} (id bigint, v text, d float8, ts timestamptz)")
    yield name
    with stack.connect() as db:
        db.execute("SET client_min_messages = warning")
        db.execute("SELECT coldfront.drop_iceberg_table('cp', %s, true)", [name])
        db.execute(f"DROP TABLE cp.heap_{name}")


@pytest.fixture
def db(stack):
    with stack.connect() as connection:
        yield connection


def both(db: psycopg.Connection, table: str, sql: str) -> None:
    for name in (f"cp.{table}", f"cp.heap_{table}"):
        db.execute(sql.replace("{}", name))


def fragment(db: psycopg.Connection, table: str, files: int = 8, rows: int = 50) -> None:
    """Many small files, with updates and deletes on top."""
    for at in range(files):
        both(db, table, "INSERT INTO {} SELECT g, 'row ' || g, CASE WHEN g % 7 = 0 THEN NULL ELSE g / 3.0 END,"
             f" timestamptz '2026-01-01' + g * interval '1 minute' FROM generate_series({at * rows}, {at * rows + rows - 1}) g")  # fmt: skip
    both(db, table, "DELETE FROM {} WHERE id % 10 = 3")
    both(db, table, "UPDATE {} SET v = 'changed ' || id WHERE id % 10 = 4")


def rows(db: psycopg.Connection, name: str) -> list[tuple]:
    return db.execute(f"SELECT id, v, d, ts FROM {name} ORDER BY id, v").fetchall()


def same_everywhere(db: psycopg.Connection, env: dict, table: str) -> None:
    """PostgreSQL, DuckDB and pyiceberg read what the heap twin has."""
    expected = rows(db, f"cp.heap_{table}")
    assert rows(db, f"cp.{table}") == expected
    assert Shape(env, "cp", table).rows() == sorted(expected, key=repr)
    count, total = db.execute(f"SELECT count(*), sum(id) FROM cp.heap_{table}").fetchone()
    query = f"SELECT r['n'], r['s'] FROM duckdb.query($q$SELECT count(*) AS n, sum(id)::bigint AS s FROM \"ice\".\"cp\".\"{table}\"$q$) AS r"
    assert [tuple(map(int, row)) for row in db.execute(query).fetchall()] == [(count, total)]
    strictly_valid(env, "cp", table)


def test_compaction_merges_files_and_applies_deletes(db, env, table, compactor):
    fragment(db, table)
    before = Shape(env, "cp", table)
    assert before.data_files >= 8 and before.delete_files > 0
    done = compactor.compact(f"cp.{table}")
    after = Shape(env, "cp", table)
    assert (after.data_files, after.delete_files) == (1, 0), done.stderr
    assert after.table.metadata.table_uuid == before.table.metadata.table_uuid
    assert after.table.current_snapshot().summary.operation.value == "replace"
    same_everywhere(db, env, table)
    # It goes on like that.
    both(db, table, "DELETE FROM {} WHERE id = 5")
    both(db, table, "INSERT INTO {} VALUES (100000, 'new', NULL, '2026-05-05 12:00+00')")
    same_everywhere(db, env, table)


def test_nothing_to_do_makes_no_snapshot(db, env, table, compactor):
    both(db, table, "INSERT INTO {} VALUES (1, 'a', 1, '2026-05-05 12:00+00')")
    before = Shape(env, "cp", table).snapshots
    assert "nothing to do" in compactor.compact(f"cp.{table}").stderr
    assert Shape(env, "cp", table).snapshots == before


def test_an_empty_table_is_left_alone(table, compactor):
    for task in ("compact", "rewrite-manifests", "expire", "metadata"):
        compactor.run(f"cp.{table}", task)
    compactor.orphans_now(f"cp.{table}")


def test_expiry_keeps_the_head_tags_and_branches(db, env, table, compactor):
    for at in range(6):
        both(db, table, f"INSERT INTO {{}} VALUES ({at}, 'v', NULL, NULL)")
    loaded = lake.catalog(env).load_table(("cp", table))
    ids = [snapshot.snapshot_id for snapshot in loaded.metadata.snapshots]
    loaded.manage_snapshots().create_tag(ids[1], "keep").create_branch(ids[3], "side").commit()
    tagged = Shape(env, "cp", table).rows(ids[1])
    compactor.compact(f"cp.{table}")
    done = compactor.expire_all(f"cp.{table}")
    assert re.search(r"\d+ snapshots expired", done.stderr)
    after = Shape(env, "cp", table)
    kept = {snapshot.snapshot_id for snapshot in after.table.metadata.snapshots}
    assert {ids[1], ids[3], after.table.current_snapshot().snapshot_id} <= kept
    assert ids[0] not in kept and ids[2] not in kept
    assert after.rows(ids[1]) == tagged
    same_everywhere(db, env, table)


def test_expiry_removes_what_only_old_snapshots_needed(db, env, table, compactor):
    fragment(db, table)
    compactor.compact(f"cp.{table}")
    compactor.expire_all(f"cp.{table}")
    keys = [key for key in lake.objects(f"cp/{table}/", env) if not key.endswith(".metadata.json")]
    assert len([key for key in keys if key.endswith(".parquet")]) == 1, keys
    assert lake.referenced(Shape(env, "cp", table).table) >= set(keys) or len(keys) <= 4, keys
    same_everywhere(db, env, table)


def test_expiry_retains_the_last(db, env, table, compactor):
    for at in range(5):
        both(db, table, f"INSERT INTO {{}} VALUES ({at}, 'v', NULL, NULL)")
    compactor.expire_all(f"cp.{table}", "--retain-last", "3")
    assert Shape(env, "cp", table).snapshots == 3
    same_everywhere(db, env, table)


def test_a_dry_run_changes_nothing(db, env, table, compactor):
    fragment(db, table)
    before, metadata = lake.objects("", env), Shape(env, "cp", table).table.metadata
    done = compactor.call(
        "run", "--table", f"cp.{table}", "--dry-run", "--older-than-hours", "0", "--orphan-age-hours", "0", "--i-know", "--manifests-max", "1"
    )
    assert "would rewrite" in done.stdout and "would expire" in done.stdout, done.stdout
    assert lake.objects("", env) == before
    assert Shape(env, "cp", table).table.metadata == metadata


def test_manifests_are_merged(db, env, table, compactor):
    for at in range(8):
        both(db, table, f"INSERT INTO {{}} VALUES ({at}, 'v', NULL, NULL)")
    done = compactor.run(f"cp.{table}", "rewrite-manifests", "--manifests-max", "3")
    assert "8 manifests became 1" in done.stderr
    shape = Shape(env, "cp", table)
    assert len(shape.table.current_snapshot().manifests(shape.table.io)) == 1 and shape.data_files == 8
    same_everywhere(db, env, table)


def test_orphans_are_removed_when_old_enough(db, env, table, compactor):
    both(db, table, "INSERT INTO {} VALUES (1, 'a', 1, '2026-05-05 12:00+00')")
    store, bucket = lake.s3(env), env["WAREHOUSE"]
    stray = [f"cp/{table}/data/stray.parquet", f"cp/{table}/metadata/stray.avro"]
    for key in stray:
        store.put_object(Bucket=bucket, Key=key, Body=b"x")
    assert "nothing to do" in compactor.run(f"cp.{table}", "orphans").stderr
    assert set(stray) <= set(lake.objects(f"cp/{table}/", env))
    refused = compactor.run(f"cp.{table}", "orphans", "--orphan-age-hours", "0.5", code=2)
    assert "--i-know" in refused.stderr
    assert all(key in compactor.orphans_now(f"cp.{table}", "--dry-run").stdout for key in stray)
    compactor.orphans_now(f"cp.{table}")
    assert not set(stray) & set(lake.objects(f"cp/{table}/", env))
    same_everywhere(db, env, table)


def test_what_a_writer_has_staged_is_kept(stack, db, env, table, compactor):
    """Its files are older than the guard; the pass waits for its turn among the writers, and then they are committed."""
    both(db, table, "INSERT INTO {} VALUES (1, 'a', 1, '2026-05-05 12:00+00')")
    with stack.connect(autocommit=False) as writer:
        writer.execute(f"INSERT INTO cp.{table} SELECT g, 'staged', NULL, NULL FROM generate_series(10, 5000) g")
        worker = threading.Thread(target=lambda: compactor.orphans_now(f"cp.{table}"))
        worker.start()
        wait_until("the pass to wait for the writer", lambda: db.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'coldfront-compactor' AND wait_event_type = 'Lock'"
        ).fetchone()[0])  # fmt: skip
        writer.commit()
        worker.join(60)
    db.execute(f"INSERT INTO cp.heap_{table} SELECT g, 'staged', NULL, NULL FROM generate_series(10, 5000) g")
    same_everywhere(db, env, table)


def test_two_compactors_do_not_meet(db, env, table, compactor):
    fragment(db, table, files=6)
    paused = compactor.pause_at("rewritten", "run", "--table", f"cp.{table}", "--task", "compact")
    assert "another compactor works on it" in compactor.compact(f"cp.{table}").stderr
    paused.kill()
    wait_until("its lock to go", lambda: "became" in compactor.compact(f"cp.{table}").stderr)
    same_everywhere(db, env, table)


def test_status_and_records(db, env, table, compactor):
    fragment(db, table)
    assert f"cp.{table}" in compactor.call("status").stdout
    query = "SELECT files, small_files, delete_files, snapshots, bytes_reclaimable, trouble FROM coldfront.maintenance_status() WHERE table_name = %s"
    files, small, deletes, snapshots, reclaimable, trouble = db.execute(query, [table]).fetchone()
    assert files == small >= 8 and deletes > 0 and snapshots >= 10 and reclaimable > 0 and trouble is None
    compactor.compact(f"cp.{table}")
    assert db.execute(query, [table]).fetchone()[:3] == (1, 1, 0)
    outcome = db.execute("SELECT outcome, failed FROM coldfront.maintenance_run WHERE table_name = %s AND task = 'compact'", [table]).fetchone()
    assert "became 1" in outcome[0] and outcome[1] is False


def test_the_policy_of_a_table_is_followed(db, env, table, compactor):
    fragment(db, table, files=4)
    db.execute("INSERT INTO coldfront.maintenance_config (schema_name, table_name, min_input_files, delete_ratio) VALUES ('cp', %s, 100, 1)", [table])
    db.execute("UPDATE coldfront.maintenance_config SET delete_files = 100 WHERE table_name = %s", [table])
    assert "nothing to do" in compactor.compact(f"cp.{table}").stderr
    db.execute("UPDATE coldfront.maintenance_config SET min_input_files = 2, sort_by = '{v}' WHERE table_name = %s", [table])
    compactor.compact(f"cp.{table}")
    shape = Shape(env, "cp", table)
    values = shape.table.scan().to_arrow()["v"].to_pylist()
    assert shape.data_files == 1 and values == sorted(values)
    same_everywhere(db, env, table)


def test_mistakes_are_named(compactor):
    assert "has no cold part" in compactor.compact("cp.nowhere", code=2).stderr
    assert "schema.table" in compactor.compact("nowhere", code=2).stderr
    unreachable = compactor.call("run", "--all", code=3, COLDFRONT_COMPACTOR_DSN="postgres://x:secret1@127.0.0.1:1/x")
    assert "cannot connect" in unreachable.stderr and "secret1" not in unreachable.stderr
    assert "Exit codes" in compactor.call("--help").stdout


def test_every_type_of_a_decoupled_table(stack, db, env, compactor):
    types = {"a": "smallint", "b": "integer", "c": "bigint", "e": "real", "f": "double precision", "g": "text", "h": "boolean", "i": "date",
             "j": "time", "k": "timestamp", "l": "timestamptz", "m": "uuid", "n": "bytea", "o": "jsonb", "p": "vector(2)", "q": "char(3)"}  # fmt: skip
    db.execute("CREATE SCHEMA IF NOT EXISTS cp")
    create(db, "cp", "every", ", ".join(f"{name} {kind}" for name, kind in types.items()))
    for at in range(6):
        db.execute(
            f"INSERT INTO cp.every SELECT {at}, {at}, {at}, {at}.5, 'NaN', 'ä{at}', true, '2024-02-29', '01:02:03.000004', '1969-12-31 23:59:59.999999',"
            f" '2024-01-01 00:00+00', '00000000-0000-0000-0000-00000000000{at}', '\\x00ff', '{{\"k\": [{at}]}}', ARRAY[{at}, 0.5], 'x'"
        )
        db.execute("INSERT INTO cp.every (a) VALUES (NULL)")
    query = "SELECT * FROM cp.every ORDER BY a, c"
    before = db.execute(query).fetchall()
    compactor.compact("cp.every")
    assert Shape(env, "cp", "every").summary()["total-data-files"] == "1"
    assert repr(db.execute(query).fetchall()) == repr(before)
    for name in types:
        found = db.execute(f"SELECT count(*) FROM cp.every WHERE {name} = (SELECT {name} FROM cp.every WHERE a = 3)").fetchone()
        assert found[0] >= 1 or name in "op", name
    strictly_valid(env, "cp", "every", read=False)  # pyiceberg does not read columns of type uuid
    db.execute("SET client_min_messages = warning; SELECT coldfront.drop_iceberg_table('cp', 'every', true)")


def test_serve_follows_schedules(stack, db, env, table, compactor, tmp_path):
    fragment(db, table, files=6)
    port = free_port()
    config = tmp_path / "coldfront.toml"
    config.write_text(f'[compactor]\nmetrics_listen = "127.0.0.1:{port}"\n[compactor.schedule]\nexpire = ""\n')
    db.execute("INSERT INTO coldfront.maintenance_config (schema_name, table_name, compact_schedule) VALUES ('cp', %s, '* * * * * *')", [table])
    process = subprocess.Popen(compactor.command("--config", str(config), "serve"), env=compactor.environment())
    try:
        wait_until("the schedule to be followed", lambda: Shape(env, "cp", table).data_files == 1, 30)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        assert re.search(rf'coldfront_compactor_files_rewritten_total{{table="cp.{table}",task="compact"}} [1-9]', text), text
    finally:
        process.terminate()
    assert process.wait(10) == 0
    same_everywhere(db, env, table)
    wrong = compactor.call("serve", code=2, COLDFRONT_COMPACTOR_TIME_ZONE="Mars")
    assert "Mars" in wrong.stderr


def test_a_round_reads_only_what_is_new(db, env, table, compactor):
    """Five files in five manifests: what earlier rounds have read is not read again."""
    with Serving(compactor) as serving:
        for at in range(4):
            both(db, table, f"INSERT INTO {{}} VALUES ({at}, 'x', {at}, NULL)")
        serving.look(f"cp.{table}")
        both(db, table, "INSERT INTO {} VALUES (5, 'x', 5, NULL)")
        wait_until("the files to be merged", lambda: any("5 files became 1" in said["message"] for said in serving.rounds(f"cp.{table}")), 30, serving.log)
        merged = next(said for said in serving.rounds(f"cp.{table}") if "5 files became 1" in said["message"])
    # The table, its manifest list and the new manifest; five files; file, manifest and manifest list written; the commit.
    assert merged["requests"] <= 12, merged
    same_everywhere(db, env, table)


def test_copied_row_groups_are_found_by_value(db, env, table, compactor):
    """Row groups of the engine are copied with the filters that its lookups rely on."""
    for at in range(5):
        both(db, table, f"INSERT INTO {{}} SELECT g, 'row ' || g % 100, g % 10, NULL FROM generate_series({at * 10_000}, {at * 10_000 + 9_999}) g")
    done = compactor.compact(f"cp.{table}")
    assert "5 row groups copied" in done.stderr
    chunk = footers(env, Shape(env, "cp", table))[0]
    assert chunk.num_row_groups == 5
    for condition in ("v = 'row 5'", "v = 'nowhere'", "d = 3", "d = 11", "id = 12345", "id IN (1, 49999, 50000)"):
        count = "SELECT count(*), sum(id) FROM cp.{} WHERE " + condition
        assert db.execute(count.format(table)).fetchone() == db.execute(count.format(f"heap_{table}")).fetchone(), condition
    both(db, table, "DELETE FROM {} WHERE v = 'row 5' AND id > 20000")
    compactor.compact(f"cp.{table}", "--delete-ratio", "0.001")
    assert Shape(env, "cp", table).delete_files == 0
    same_everywhere(db, env, table)
