"""The archiver's export: every type arrives, files are of one partition with sorted row groups, nothing is left of an export
that fails, and what goes as whole files goes without rewriting rows."""

from __future__ import annotations

import uuid

import lake
import pyarrow.parquet as pq
import pytest
from archive import Archiver, content, make, month
from compact import Compactor
from probe import Running, fails, waits_for
from pyarrow.fs import S3FileSystem
from pyiceberg.table import Table
from stack import wait_until

pytestmark = pytest.mark.coldfront

ALL_TYPES = (
    "id bigint NOT NULL, ts timestamptz NOT NULL, b bool, i2 smallint, i4 int, f4 real, f8 double precision, n numeric(20,4), w numeric(38,10),"
    " t text, vc varchar(20), c char(5), j json, jb jsonb, iv interval, u uuid, y bytea, d date, tm time, tz timestamp"
)
VALUES = (
    "SELECT i, {at} + i * interval '1 hour', i % 2 = 0, i, -i, i / 3.0, CASE i % 3 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' ELSE i / 7.0 END, i / 9.0,"
    " -12345678901234567890.0123456789, repeat('ü', i % 50), 'v' || i, 'c', ('{{\"a\": ' || i || '}}')::json, ('{{\"b\": [' || i || ', null]}}')::jsonb,"
    " i * interval '1 month 2 days 3.5 seconds', md5(i::text)::uuid, decode(md5(i::text), 'hex'), date '0044-03-15 BC' + i, time '23:59:59.999999',"
    " timestamp '1969-12-31 23:59:59.5' + i * interval '1 year' FROM generate_series(1, 400) AS i"
)


def archive(archiver: Archiver, name: str, *options: str, **env: str) -> str:
    archiver.call("register", "--table", name, "--hot-period", "1 month", "--premake", "0", *options)
    return archiver.run(name, **env).stderr


def loaded(stack, schema: str, table: str = "t") -> Table:
    return lake.load(lake.catalog(stack.environment()), f'"ice"."{schema}"."{table}"')


def data_files(stack, schema: str, table: str = "t") -> list[dict]:
    """Path, rows, partition and bounds of each data file, as pyiceberg reads them."""
    return loaded(stack, schema, table).inspect.files().to_pylist()


def opened(stack, path: str) -> pq.ParquetFile:
    env = stack.environment()
    fs = S3FileSystem(access_key=env["S3_ACCESS_KEY"], secret_key=env["S3_SECRET_KEY"], endpoint_override=env["S3_ENDPOINT"], region=env["S3_REGION"])
    return pq.ParquetFile(path.removeprefix("s3://"), filesystem=fs)


def row_groups(stack, path: str) -> list[tuple]:
    """First and last `ts` of each row group, from the data."""
    file = opened(stack, path)
    groups = [file.read_row_group(at, columns=["ts"])["ts"].to_pylist() for at in range(file.num_row_groups)]
    assert all(group == sorted(group) for group in groups), path
    return [(group[0], group[-1]) for group in groups]


def encodings(stack, path: str) -> dict[str, set[str]]:
    """Encodings of each column's pages."""
    metadata = opened(stack, path).metadata
    chunks = [metadata.row_group(at).column(column) for at in range(metadata.num_row_groups) for column in range(metadata.num_columns)]
    return {chunk.path_in_schema: set(chunk.encodings) for chunk in chunks}


def test_numbers_are_delta_encoded_unless_a_property_says_otherwise(db, stack, schema, archiver):
    """The smallest and largest of each type, side by side."""
    columns = "id bigint NOT NULL, ts timestamptz NOT NULL, i2 smallint, i4 int, i8 bigint, n numeric(18,4), s numeric(9,2), w numeric(38,0), d date, tm time, t text"
    name = make(db, schema, "t", [-4, -3, 0], columns, rows=0)
    extremes = {
        "i2": "32767", "i4": "2147483647", "i8": "9223372036854775807", "n": "99999999999999.9999", "s": "9999999.99", "w": "9" * 38,
    }  # fmt: skip
    for offset in (-4, -3):
        signed = ", ".join(f"CASE i % 3 WHEN 0 THEN '{value}' WHEN 1 THEN '-{value}' END::{'numeric' if column in 'nsw' else 'bigint'}" for column, value in extremes.items())
        db.execute(
            f"INSERT INTO {name} (id, ts, {', '.join(extremes)}, d, tm, t) SELECT i, {month(offset)} + i * interval '1 second', {signed},"
            " CASE i % 2 WHEN 0 THEN date '0001-01-01' ELSE date '9999-12-31' END, time '00:00' + i * interval '1 second', 'v' || i"
            " FROM generate_series(1, 20000) AS i"
        )
    archiver.call("register", "--table", name, "--hot-period", "3 months", "--premake", "0")
    before = db.execute(f"SELECT t.*::text FROM {name} AS t ORDER BY id, ts").fetchall()
    archiver.run(name)
    [delta] = [file["file_path"] for file in data_files(stack, schema)]
    used = encodings(stack, delta)
    assert all("DELTA_BINARY_PACKED" in used[column] for column in ("id", "ts"))
    assert [any("DICTIONARY" in encoding for encoding in used[column]) for column in ("id", "ts", "d", "i8")] == [False, False, True, True]
    with loaded(stack, schema).transaction() as change:
        change.set_properties({"coldfront.parquet.delta-encoding": "false"})
    archiver.call("set", "--table", name, "--hot-period", "1 month")
    archiver.run(name)
    [plain] = [file["file_path"] for file in data_files(stack, schema) if file["file_path"] != delta]
    assert not any("DELTA_BINARY_PACKED" in used for used in encodings(stack, plain).values())
    assert db.execute(f"SELECT t.*::text FROM {name} AS t ORDER BY id, ts").fetchall() == before
    read = loaded(stack, schema).scan(selected_fields=("id", "i8", "n", "d")).to_arrow().to_pylist()
    heap = db.execute(f"SELECT id, i8, n, d FROM {name} WHERE id = 3 AND ts < {month(-3)}").fetchone()
    assert (3, 2**63 - 1) == heap[:2] and len(read) == 40000
    assert heap in [tuple(row.values()) for row in read]


def test_every_type_arrives(db, stack, schema, archiver):
    name = make(db, schema, "t", [-3, 0], ALL_TYPES, rows=0)
    db.execute(f"INSERT INTO {name} {VALUES.format(at=month(-3))}")
    db.execute(f"INSERT INTO {name} (id, ts) VALUES (0, {month(-3)})")
    columns = [column.split()[0] for column in ALL_TYPES.split(", ")]
    query = f"SELECT {', '.join(f'{column}::text' for column in columns)} FROM {name} ORDER BY id"
    # The two zeros are equal; the lake keeps the positive one.
    before = [tuple("0" if value == "-0" else value for value in row) for row in db.execute(query).fetchall()]
    archive(archiver, name)
    assert db.execute(query).fetchall() == before
    assert db.execute(f"SELECT count(*) FROM {schema}._t WHERE ts < {month(-1)}").fetchone() == (0,)
    table = loaded(stack, schema)
    read = ("id", "n", "w", "y", "tz", "tm", "u")
    rows = {row["id"]: row for row in table.scan(selected_fields=read).to_arrow().to_pylist()}
    heap = db.execute(f"SELECT {', '.join(read)} FROM {name} WHERE id IN (0, 1, 17, 400) ORDER BY id").fetchall()
    assert len(rows) == 401 and len(heap) == 4
    for want in heap:
        found = rows[want[0]]
        identity = uuid.UUID(bytes=found.pop("u")) if isinstance(found["u"], bytes) else found.pop("u")
        assert (*(found[column] for column in read[:-1]), identity) == want
    assert table.scan(row_filter=f"id == 17 and u == '{heap[2][-1]}'", selected_fields=("id",)).to_arrow().num_rows == 1


@pytest.mark.parametrize("disorder", [False, True], ids=["in order", "in disorder"])
def test_row_groups_are_sorted_and_files_have_one_partition(db, stack, schema, archiver, disorder):
    name = make(db, schema, "t", [-3, -2], rows=0)
    order = "ORDER BY random()" if disorder else ""
    for offset in (-3, -2):
        db.execute(f"INSERT INTO {name} SELECT i, {month(offset)} + i * interval '200 milliseconds', 'v', i, 0 FROM generate_series(1, 600000) AS i {order}")
    db.execute(f"ANALYZE {name}")
    archive(archiver, name, COLDFRONT_ARCHIVER_EXPORT_JOBS="1")
    files = data_files(stack, schema)
    assert len(files) == 2 and sum(file["record_count"] for file in files) == 1_200_000
    assert len({str(file["partition"]) for file in files}) == 2
    for file in files:
        groups = row_groups(stack, file["file_path"])
        assert len(groups) > 1
        assert all(groups[at][1] <= groups[at + 1][0] for at in range(len(groups) - 1)), "row groups follow one another"
        bounds = file["readable_metrics"]["ts"]
        assert (bounds["lower_bound"], bounds["upper_bound"]) == (groups[0][0], groups[-1][1])
        assert bounds["null_value_count"] == 0


def test_a_partition_of_a_week_becomes_files_of_days(db, stack, schema, archiver):
    db.execute(f"CREATE TABLE {schema}.t ({'id bigint, ts timestamptz NOT NULL, v text'}) PARTITION BY RANGE (ts)")
    low, high = db.execute("SELECT date_trunc('week', now()) - interval '70 days', date_trunc('week', now()) - interval '63 days'").fetchone()
    db.execute(f"CREATE TABLE {schema}.p PARTITION OF {schema}.t FOR VALUES FROM ('{low}') TO ('{high}')")
    # Every row is of another day than the one before it.
    db.execute(f"INSERT INTO {schema}.t SELECT i, '{low}'::timestamptz + (i % 7) * interval '1 day' + i * interval '1 ms', 'v' FROM generate_series(1, 7000) AS i")
    before = db.execute(f"SELECT * FROM {schema}.t ORDER BY id").fetchall()
    archive(archiver, f"{schema}.t", "--period", "weekly")
    assert db.execute(f"SELECT * FROM {schema}.t ORDER BY id").fetchall() == before
    files = data_files(stack, schema)
    assert [file["record_count"] for file in files] == [1000] * 7
    assert len({str(file["partition"]) for file in files}) == 7


def test_pieces_read_every_row_once(db, schema, archiver):
    name = make(db, schema, "t", [-3], rows=5000)
    db.execute(f"DELETE FROM {name} WHERE id % 3 = 0")
    archiver.call("register", "--table", name, "--hot-period", "1 month", "--premake", "0")
    paused = archiver.pause_at("purged", "run", "--table", name)
    try:
        (attempt,) = db.execute("SELECT attempt_id FROM coldfront.archive_attempt WHERE schema_name = %s", [schema]).fetchone()
        expected = sorted(db.execute(f"SELECT id FROM {name}").fetchall())
        (pages,) = db.execute(f"SELECT pg_relation_size('{schema}.p99_t') / current_setting('block_size')::int").fetchone()
        for jobs, smallest, largest, expect in ((1, 1, 10**9, 1), (4, 1, 10**9, 4), (4, 10**9, 10**9, 1), (1, 1, 1, pages), (1000, 1, 10**9, pages)):
            sql = "SELECT coldfront._attempt_pieces(%s, %s, %s, %s)"
            pieces = [query for (query,) in db.execute(sql, [attempt, jobs, smallest, largest]).fetchall()]
            assert len(pieces) == expect
            assert sorted(row for query in pieces for row in db.execute(f"SELECT id FROM ({query}) AS q").fetchall()) == expected
    finally:
        paused.kill()
    archiver.run(name)
    assert len(content(db, name)) == len(expected)


def test_nothing_stays_of_an_export_that_fails(db, stack, schema, archiver):
    name = make(db, schema, "t", [-3], "id bigint, ts timestamptz NOT NULL, d date", rows=0)
    db.execute(f"INSERT INTO {name} SELECT i, {month(-3)}, date '2020-01-01' FROM generate_series(1, 300000) AS i")
    db.execute(f"INSERT INTO {name} VALUES (0, {month(-3)}, 'infinity')")
    archiver.call("register", "--table", name, "--hot-period", "1 month", "--premake", "0")
    failed = archiver.run(name, code=1)
    assert "infinite date" in failed.stderr and '"d"' in failed.stderr
    assert not [key for key in lake.objects(f"{schema}/", stack.environment()) if key.endswith(".parquet")]
    assert lake.uploads(stack.environment()) == []
    db.execute(f"UPDATE {name} SET d = NULL WHERE id = 0")
    archiver.run(name)
    assert db.execute(f"SELECT count(*), count(d) FROM {name}").fetchone() == (300001, 300000)


def test_wide_rows_travel_in_small_batches(db, schema, archiver):
    """As many at a time as fit, and at least one."""
    name = make(db, schema, "t", [-3], "id bigint, ts timestamptz NOT NULL, v text", rows=0)
    db.execute(f"INSERT INTO {name} SELECT i, {month(-3)}, repeat(md5(i::text), 20000) FROM generate_series(1, 40) AS i")
    before = db.execute(f"SELECT id, md5(v) FROM {name} ORDER BY id").fetchall()
    db.execute(f"BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT * FROM {name} ORDER BY id")
    sizes = []
    while (batch := db.execute("SELECT coldfront._fetch_arrow('c', 1000000)").fetchone()[0]) is not None:
        sizes.append(len(batch))
    db.execute("ROLLBACK")
    assert len(sizes) == 20 and max(sizes) < 2_000_000, sizes
    assert fails(db, "SELECT coldfront._fetch_arrow('nosuch', 1)", "34000")
    archive(archiver, name)
    assert db.execute(f"SELECT id, md5(v) FROM {name} ORDER BY id").fetchall() == before


def test_an_export_that_waits_for_nobody(db, stack, schema, archiver):
    """Somebody who wants a partition for himself waits for the export; the export does not wait for him."""
    name = make(db, schema, "t", [-3], rows=100)
    archiver.call("register", "--table", name, "--hot-period", "1 month", "--premake", "0")
    with stack.connect() as other:
        paused = archiver.pause_at("purged", "run", "--table", name)
        (attempt,) = db.execute("SELECT attempt_id FROM coldfront.archive_attempt WHERE schema_name = %s", [schema]).fetchone()
        db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        db.execute("SELECT coldfront._attempt_snapshot(%s)", [attempt])
        vacuum = Running(other, f"VACUUM FULL {schema}.p99_t")
        with stack.connect() as worker:
            # Not from inside the transaction, which sees the activity of its first look only.
            waits_for(worker, vacuum.pid, "Lock")
            fails(worker, f"SELECT coldfront._attempt_join({attempt})", "55P03")
        db.execute("ROLLBACK")
        vacuum.works()
        paused.kill()
    archiver.run(name)
    assert len(content(db, name)) == 100


def test_orphans_leave_a_running_export_alone(db, stack, schema, archiver, tmp_path):
    """What an export has staged may be older than the age guard when it commits."""
    compactor = Compactor(stack, tmp_path)
    name = make(db, schema, "t", [-3], rows=100)
    archiver.call("register", "--table", name, "--hot-period", "1 month", "--premake", "0")
    paused = archiver.pause_at("exporting", "run", "--table", name)
    staged = [key for key in lake.objects(f"{schema}/", stack.environment()) if key.endswith(".parquet")]
    assert staged
    assert "export" in compactor.orphans_now(name).stderr
    assert set(staged) <= set(lake.objects(f"{schema}/", stack.environment()))
    paused.kill()
    wait_until("the export's session to end", lambda: "removed" in compactor.orphans_now(name).stderr)
    assert not set(staged) & set(lake.objects(f"{schema}/", stack.environment()))
    archiver.run(name)
    assert len(content(db, name)) == 100


@pytest.mark.parametrize("point", ["exporting", "verifying"])
def test_cold_writers_go_on(db, schema, archiver, point):
    """While rows are copied, and while they are verified."""
    name = make(db, schema, "t", [-4, -3], rows=100)
    archiver.call("register", "--table", name, "--hot-period", "3 months", "--premake", "0")
    archiver.run(name)
    archiver.call("set", "--table", name, "--hot-period", "1 month")
    paused = archiver.pause_at(point, "run", "--table", name)
    db.execute("SET statement_timeout = '10s'")
    assert db.execute(f"UPDATE {name} SET v = 'changed' WHERE ts < {month(-3)} AND id <= 10").rowcount == 10
    paused.kill()
    archiver.run(name)
    assert db.execute(f"SELECT count(*), count(*) FILTER (WHERE v = 'changed') FROM {name}").fetchone() == (200, 10)


def test_whole_files_expire_without_delete_files(db, stack, schema, archiver):
    name = make(db, schema, "t", [-6, -5, -3, 0], rows=50)
    archive(archiver, name)
    archiver.call("set", "--table", name, "--retention-period", "4 months")
    said = archiver.run(name).stderr
    assert '"rows":100' in said
    assert len(content(db, name)) == 100
    files = data_files(stack, schema)
    assert [(file["content"], file["record_count"]) for file in files] == [(0, 50)]
    table = loaded(stack, schema)
    summary = table.current_snapshot().summary
    assert summary.operation.value == "delete" and summary["deleted-data-files"] == "2" and summary["total-records"] == "50"


def test_what_a_killed_export_committed_goes_as_whole_files(db, stack, schema, archiver):
    name = make(db, schema, "t", [-3, -2], rows=50)
    archiver.call("register", "--table", name, "--hot-period", "1 month", "--premake", "0")
    archiver.pause_at("appended", "run", "--table", name).kill()
    assert "removed what an earlier attempt left" in archiver.run(name).stderr
    assert len(content(db, name)) == 100
    assert [file["content"] for file in data_files(stack, schema)] == [0, 0], "no delete files"


def test_the_checksum_tells_rows_apart(db, schema):
    """What must not pass verification: values in other rows, a lost sign, NULL for zero, 64 bits taken for 32."""
    db.execute(f"CREATE TABLE {schema}.rows (a bigint, b text, n numeric(18,4), f double precision)")

    def checksum(rows: list[tuple]) -> tuple:
        db.execute(f"TRUNCATE {schema}.rows")
        for row in rows:
            db.execute(f"INSERT INTO {schema}.rows VALUES (%s, %s, %s, %s)", row)
        [what] = db.execute("SELECT coldfront._checksum(%s::regclass)", [f"{schema}.rows"]).fetchone()
        return db.execute(f"SELECT {what} FROM {schema}.rows").fetchone()

    rows = [(1, "x", 5, 0.0), (-5, "y", 7, 1.0), (2**32, "z", 9, None)]
    (a, b, c) = rows
    others = [
        [(1, "y", 5, 0.0), (-5, "x", 7, 1.0), c], [(1, "x", 7, 0.0), (-5, "y", 5, 1.0), c], [(1, "x", -5, 0.0), b, c],
        [(1, "x", 5, None), b, c], [a, (2**32 - 5, "y", 7, 1.0), c], [a, b, (1, "z", 9, None)], [a, b], [a, b, c, c],
    ]  # fmt: skip
    seen = {checksum(rows), *map(checksum, others)}
    assert len(seen) == 1 + len(others) and checksum([c, a, b]) == checksum(rows)


@pytest.mark.parametrize(
    ("type", "value", "same", "others"),
    [
        ("real", "-0", "0", ["NaN", "1e-45", "NULL"]),
        ("double precision", "-0", "0", ["NaN", "5e-324", "NULL"]),
        ("real[]", "{-0,NULL,NaN}", "{0,NULL,NaN}", ["{0,0,NaN}", "{NULL,0,NaN}", "{0,NULL}", "{0,NULL,NaN,NULL}", "NULL", "{}", "{{0},{1}}"]),
        ("char(5)", "a  ", "a", [" a", "b", "", "NULL"]),
        ("text", "a", "a", ["a ", "A", "", "NULL"]),
        ("numeric(30,10)", "1.10", "1.1", ["1.1000000001", "-1.1", "11", "0", "NaN", "NULL"]),
        ("smallint", "-1", "-1", ["32767", "1", "0", "NULL"]),
        ("boolean", "f", "f", ["t", "NULL"]),
        ("jsonb", '{"a": 1, "b": 2}', '{"b":2,"a":1}', ['{"a": 1}', '{"a": 2, "b": 1}', "null", "NULL"]),
        ("interval", "1 mon", "1 mon", ["30 days", "720 hours", "-1 mon", "NULL"]),
        ("bytea", "\\x00", "\\x00", ["\\x0000", "\\x", "NULL"]),
        ("uuid", "00000000-0000-0000-0000-00000000000A", "00000000-0000-0000-0000-00000000000a", ["00000000-0000-0000-0000-00000000000b", "NULL"]),
        ("timestamptz", "2020-01-01 00:00+00", "2020-01-01 01:00+01", ["2020-01-01 00:00:00.000001+00", "NULL"]),
    ],
)  # fmt: skip
def test_a_row_hash_is_of_what_the_lake_stores(db, type, value, same, others):
    def hashed(value: str, neighbour: str = "x", expression: str = "{0}::{1}") -> int:
        null = value == "NULL"
        expression = expression.format("NULL" if null else "%s", type)
        return db.execute(f"SELECT coldfront._row_hash(ROW({expression}, %s::text))", ([] if null else [value]) + [neighbour]).fetchone()[0]

    assert hashed(value) == hashed(same) != hashed(value, "y")
    assert len({hashed(value), *map(hashed, others)}) == 1 + len(others)


def test_values_do_not_run_into_each_other_in_a_row_hash(db):
    rows = "ROW('a'::text, 'bc'::text)", "ROW('ab'::text, 'c'::text)", "ROW('abc'::text, ''::text)", "ROW('abc'::text, NULL::text)", "ROW(NULL::text, 'abc'::text)"
    [hashes] = db.execute(f"SELECT array_agg(coldfront._row_hash(r)) FROM (VALUES {', '.join(f'({row})' for row in rows)}) AS v(r)").fetchone()
    assert len(set(hashes)) == len(rows)
    fails(db, "SELECT coldfront._row_hash(ROW(point '(1,2)'))", "0A000")
