"""Tables that other engines wrote are compacted right, or refused by name: partitions, evolved specs and schemas, equality deletes."""

from __future__ import annotations

import datetime
import decimal
import itertools
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType, BooleanType, DateType, DecimalType, DoubleType, FixedType, FloatType, IntegerType, ListType, LongType,
    MapType, NestedField, StringType, StructType, TimestampType, TimestamptzType, TimeType,
)  # fmt: skip

import foreign
import lake
from compact import Compactor, Shape, footers, strictly_valid
from stack import wait_until

pytestmark = pytest.mark.coldfront
_names = itertools.count(1)


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
def make(env, db):
    """Makes a registered table of a schema, and forgets it afterwards."""
    made = []

    def create(schema: Schema, spec: PartitionSpec | None = None, **properties: str):
        catalog, name = lake.catalog(env), f"f{next(_names)}"
        catalog.create_namespace_if_not_exists("foreign")
        options = {"partition_spec": spec} if spec else {}
        table = catalog.create_table(("foreign", name), schema, properties={"format-version": "2", **properties}, **options)
        foreign.register(db, "foreign", name)
        made.append(name)
        return name, table

    yield create
    for name in made:
        foreign.forget(db, "foreign", name)
        lake.catalog(env).drop_table(("foreign", name))


PLAIN = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "k", IntegerType(), required=False), NestedField(3, "s", StringType(), required=False)
)  # fmt: skip


def plain(start: int, count: int = 20) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "k": pa.array([i % 3 for i in ids], pa.int32()), "s": [f"s{i}" for i in ids]})


def duckdb_rows(db, name: str, *columns: str) -> list[tuple]:
    """What DuckDB reads, as text."""
    fields = ", ".join(f"r['{c}'] #>> '{{}}'" for c in columns)
    selected = ", ".join(f'"{c}"::VARCHAR AS "{c}"' for c in columns)
    return sorted(db.execute(f"SELECT {fields} FROM duckdb.query($q$SELECT {selected} FROM \"ice\".\"foreign\".\"{name}\"$q$) AS r").fetchall(), key=repr)


def test_every_type_with_bounds(env, make, compactor):
    fields = [
        ("b", BooleanType(), [True, False, None]), ("i", IntegerType(), [1, -5, None]), ("l", LongType(), [1 << 40, -1, 0]),
        ("f", FloatType(), [1.5, float("nan"), -2.0]), ("d", DoubleType(), [0.25, None, -1e300]),
        ("n9", DecimalType(9, 2), [decimal.Decimal("1.25"), decimal.Decimal("-7.00"), None]),
        ("n18", DecimalType(18, 4), [decimal.Decimal("123456789.1234"), decimal.Decimal("-7"), None]),
        ("n38", DecimalType(38, 10), [decimal.Decimal("1234567890123456789.0000000001"), decimal.Decimal("-7"), None]),
        ("date", DateType(), [datetime.date(2024, 2, 29), None, datetime.date(1960, 1, 1)]),
        ("time", TimeType(), [datetime.time(1, 2, 3, 4), datetime.time(23, 59), None]),
        ("ts", TimestampType(), [datetime.datetime(2024, 1, 1, 1, 1, 1, 5), datetime.datetime(1950, 1, 1), None]),
        ("tz", TimestamptzType(), [datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), None, None]),
        ("s", StringType(), ["ä" * 40, "", None]), ("x", BinaryType(), [b"\x00\xff", b"", None]),
        ("fx", FixedType(3), [b"abc", b"xyz", None]),
        ("list", ListType(100, IntegerType(), element_required=False), [[1, None], [], None]),
        ("map", MapType(101, StringType(), 102, LongType(), value_required=False), [[("a", 1)], [("b", None), ("c", 2)], None]),
        ("struct", StructType(NestedField(103, "p", LongType(), required=False), NestedField(104, "q", StringType(), required=False)),
         [{"p": 1, "q": "x"}, {"p": None, "q": None}, None]),
    ]  # fmt: skip
    schema = Schema(*[NestedField(n, name, kind, required=False) for n, (name, kind, _) in enumerate(fields, 1)])
    name, table = make(schema)
    arrow = table.schema().as_arrow()

    for row in range(3):
        for _ in range(2):
            table.append(pa.Table.from_arrays([pa.array([values[row]], arrow.field(n).type) for n, _, values in fields], schema=arrow))
    before = Shape(env, "foreign", name)
    compactor.compact(f"foreign.{name}")
    after = Shape(env, "foreign", name)
    assert repr(after.rows()) == repr(before.rows()) and after.data_files == 1
    strictly_valid(env, "foreign", name)
    # Bounds are those of the six files taken together; NaN takes part in none.
    readable = after.content(0)[0]["readable_metrics"]
    olds = [file["readable_metrics"] for file in before.content(0)]
    for column, kind, _ in fields[:15]:
        lows = [old[column]["lower_bound"] for old in olds if old[column]["lower_bound"] is not None]
        low = readable[column]["lower_bound"]
        assert readable[column]["value_count"] == 6 and readable[column]["null_value_count"] == sum(o[column]["null_value_count"] for o in olds)
        if low is not None and column not in ("s", "x"):
            assert low <= min(lows), column
        assert low is not None or column in ("f",), column


def test_partitions_stay_apart_and_evolved_specs_keep_theirs(db, env, make, compactor):
    schema = Schema(*PLAIN.fields, NestedField(4, "g", StringType(), required=False))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "k"))
    name, table = make(schema, spec)

    def grouped(start: int) -> pa.Table:
        rows = plain(start)
        return rows.append_column("g", pa.array([f"g{i % 2}" for i in range(rows.num_rows)]))

    for at in range(6):
        table.append(grouped(at * 20))
    with table.update_spec() as update:
        update.remove_field("k").add_field("g", IdentityTransform(), "g")
    for at in range(6, 12):
        table.append(grouped(at * 20))
    before = Shape(env, "foreign", name)
    expected = before.rows()
    compactor.compact(f"foreign.{name}")
    after = Shape(env, "foreign", name)

    def partitions(shape: Shape) -> set:
        return {(file["spec_id"], *sorted(file["partition"].items())) for file in shape.content(0)}

    assert after.data_files == 5 and partitions(after) == partitions(before)
    assert after.rows() == expected
    assert after.table.scan(row_filter="k == 1 and id == 4").to_arrow().num_rows == 1
    assert after.table.scan(row_filter="g == 'g1' and id == 201").to_arrow().num_rows == 1
    assert duckdb_rows(db, name, "id", "s") == sorted(((str(r[0]), r[2]) for r in expected), key=repr)
    strictly_valid(env, "foreign", name)
    # The two specs do not share a manifest.
    manifests = after.table.current_snapshot().manifests(after.table.io)
    assert sorted(manifest.partition_spec_id for manifest in manifests) == [0, 1]


def test_schemas_that_evolved(db, env, make, compactor):
    name, table = make(PLAIN)
    for at in range(3):
        table.append(plain(at * 20))
    with table.update_schema() as update:
        update.update_column("k", LongType())
        update.rename_column("s", "label")
        update.add_column("extra", StringType())
    wide = pa.table({"id": pa.array([1000], pa.int64()), "k": pa.array([1 << 40], pa.int64()), "label": ["wide"], "extra": ["e"]})
    for _ in range(3):
        table.append(wide)
    with table.update_schema() as update:
        update.delete_column("label")
        update.add_column("s", LongType())  # the old name with another meaning
    before = Shape(env, "foreign", name)
    expected = before.rows()
    compactor.compact(f"foreign.{name}")
    after = Shape(env, "foreign", name)
    assert after.data_files == 1 and after.rows() == expected
    assert [c for c in footers(env, after)[0].schema.names] == ["id", "k", "extra", "s"]
    strictly_valid(env, "foreign", name)


def test_equality_deletes(db, env, make, compactor):
    name, table = make(PLAIN)
    for at in range(3):
        table.append(plain(at * 20))
    foreign.delete_equal(table, pa.table({"id": pa.array([3, 25, 999], pa.int64())}), {"id": 1})
    foreign.delete_equal(table, pa.table({"k": pa.array([2], pa.int32()), "s": ["s5"]}), {"k": 2, "s": 3})
    table.append(plain(0, 20))  # rows with the deleted keys that came later stay
    table.append(plain(60))
    expected = sorted([(str(i), f"s{i}") for i in [*range(60), *range(20), *range(60, 80)]], key=repr)
    for gone in ("3", "25", "5"):
        expected.remove((gone, f"s{gone}"))
    assert duckdb_rows(db, name, "id", "s") == expected
    compactor.compact(f"foreign.{name}")
    after = Shape(env, "foreign", name)
    assert (after.data_files, after.delete_files) == (1, 0)
    assert duckdb_rows(db, name, "id", "s") == expected
    assert sorted(((str(r[0]), r[2]) for r in after.rows()), key=repr) == expected
    # A newer equality delete applies to the file that compaction wrote.
    foreign.delete_equal(table, pa.table({"id": pa.array([7], pa.int64())}), {"id": 1})
    expected = [row for row in expected if row[0] != "7"]
    assert duckdb_rows(db, name, "id", "s") == expected
    compactor.compact(f"foreign.{name}", "--delete-files", "1")
    after = Shape(env, "foreign", name)
    assert after.delete_files == 0 and sorted(((str(r[0]), r[2]) for r in after.rows()), key=repr) == expected


def test_equality_deletes_of_one_partition(db, env, make, compactor):
    name, table = make(PLAIN, PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "k")))
    for at in range(6):
        table.append(plain(at * 20))
    foreign.delete_equal(table, pa.table({"s": ["s3", "s4", "s6"]}), {"s": 3}, Record(0))
    expected = sorted(((str(i), f"s{i}") for i in range(120) if i not in (3, 6)), key=repr)
    compactor.compact(f"foreign.{name}")
    after = Shape(env, "foreign", name)
    assert after.delete_files == 0 and sorted(((str(r[0]), r[2]) for r in after.rows()), key=repr) == expected


def test_an_equality_delete_during_the_rewrite_still_applies(stack, db, env, make, compactor):
    name, table = make(PLAIN)
    for at in range(6):
        table.append(plain(at * 20))
    with stack.connect(autocommit=False) as holder:
        holder.execute("SELECT coldfront._claim_iceberg_external(%s)", [f'"ice"."foreign"."{name}"'])
        import threading

        worker = threading.Thread(target=lambda: compactor.compact(f"foreign.{name}"))
        worker.start()
        from stack import wait_until

        wait_until("the compactor to wait for its turn", lambda: db.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'coldfront-compactor' AND wait_event_type = 'Lock'"
        ).fetchone()[0])  # fmt: skip
        foreign.delete_equal(table, pa.table({"id": pa.array([3], pa.int64())}), {"id": 1})
        holder.commit()
        worker.join(60)
    assert Shape(env, "foreign", name).data_files == 1
    assert duckdb_rows(db, name, "id") == sorted(((str(i),) for i in range(120) if i != 3), key=repr)


def test_large_row_groups_are_copied(db, env, make, compactor):
    name, table = make(PLAIN)
    for at in range(5):
        table.append(plain(at * 20_000, 20_000))
    expected = Shape(env, "foreign", name).rows()
    done = compactor.compact(f"foreign.{name}")
    after = Shape(env, "foreign", name)
    assert "5 row groups copied" in done.stderr and after.data_files == 1
    assert after.rows() == expected and footers(env, after)[0].num_row_groups == 5
    assert len(duckdb_rows(db, name, "id")) == 100_000
    strictly_valid(env, "foreign", name)


def test_tables_below_are_left_alone(env, make, compactor):
    name, table = make(PLAIN)
    table.append(plain(0))
    stray = f"foreign/{name}/data/stray.parquet"
    lake.s3(env).put_object(Bucket=env["WAREHOUSE"], Key=stray, Body=b"x")
    inner = lake.catalog(env).create_table(("foreign", f"{name}_in"), PLAIN, location=f"{table.location()}/data/inner", properties={"format-version": "2"})
    inner.append(plain(0))
    compactor.orphans_now(f"foreign.{name}")
    assert stray not in lake.objects(f"foreign/{name}", env)
    assert inner.refresh().scan().to_arrow().num_rows == table.scan().to_arrow().num_rows == 20
    # Also when the catalog knows nothing of it.
    lake.catalog(env).drop_table(("foreign", f"{name}_in"))
    left = set(lake.objects(f"foreign/{name}/data/inner", env))
    compactor.orphans_now(f"foreign.{name}")
    assert set(lake.objects(f"foreign/{name}/data/inner", env)) == left


def test_files_without_field_ids_are_refused_by_name(env, make, compactor):
    name, table = make(PLAIN, **{"schema.name-mapping.default": '[{"field-id":1,"names":["id"]},{"field-id":2,"names":["k"]},{"field-id":3,"names":["s"]}]'})
    for at in range(6):
        path = f"{table.location()}/data/plain-{at}.parquet"
        with table.io.new_output(path).create() as out:
            pq.write_table(plain(at * 20), out)
        table.add_files([path])
    before = Shape(env, "foreign", name)
    refused = compactor.compact(f"foreign.{name}", code=1)
    assert "field id" in refused.stderr and "plain-" in refused.stderr
    assert Shape(env, "foreign", name).rows() == before.rows()


def test_format_versions_that_are_not_written_are_refused_by_name(env, make, compactor):
    name, table = make(PLAIN, **{"format-version": "1"})
    for at in range(6):
        table.append(plain(at * 20))
    refused = compactor.compact(f"foreign.{name}", code=1)
    assert "format version 1" in refused.stderr and name in refused.stderr
