"""Names as PostgreSQL takes them: quotes, dots, spaces, mixed case, reserved words of both dialects, 63 bytes, Unicode.

For each name a table is made, read, written in every way and dropped, as schema, as table and as column.
"""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Json

import lake
from probe import describe, fails, limit
from stack import wait_until

pytestmark = pytest.mark.coldfront

ODD = [
    "_leading", "9lives", "Mixed", "with space", " padded ", "a.b.c", ".", "..", 'double"quote', '"', "single'quote", "''", "back\\slash",
    "semi;colon", "--comment", "/*comment*/", "$dollar$", "$1", "per%cent", "q?mark", "sl/ash", "new\nline", "{brace}", "a,b", "(x)", "*", "Ünïcødé",
    "日本語のテーブル", "emoji 🧊", "مرحبا", "e\u0301", "x" * 63, "日" * 21, 'q"' * 31,
]  # fmt: skip
RESERVED = ["select", "user", "pivot", "qualify", "lambda", "main", "temp", "s", "c0"]
WORDS = [
    "plain", "with_under_scores_1", "UPPER", "dot.ted", '""', "dash-ed", "at@", "col:on", "tab\tulator", "[bracket]", "Ü" * 31,
    "table", "from", "order", "group", "default", "all", "null", "true", "unpivot", "asof", "semi", "anti", "describe", "summarize", "macro",
    "positional", "ice", "t", "f", "n", "excluded", "old", "new", "array", "row", "interval", "timestamp", "exclude", "replace", "columns",
]  # fmt: skip
NAMES = [*ODD, *RESERVED, *WORDS]
# What identifies rows inside the engine or in PostgreSQL cannot be a column.
NOT_FOR_COLUMNS = ["filename", "FileName", "file_row_number", "ctid", "xmin", "tableoid"]


def label(name: str) -> str:
    return name.encode("unicode_escape").decode()[:24]


@pytest.fixture(scope="module")
def pg(stack):
    with stack.connect() as db:
        db.execute("CREATE SCHEMA names")
    yield stack
    with stack.connect() as db:
        db.execute("DROP SCHEMA names CASCADE")


@pytest.fixture
def db(pg):
    with pg.connect() as session:
        session.execute("SET client_min_messages = warning")
        yield session


def run(db: psycopg.Connection, text: str, *names: str, **more) -> psycopg.Cursor:
    """A statement in which {} and {name} stand for identifiers."""
    quoted = {key: sql.Identifier(*(value if isinstance(value, tuple) else (value,))) for key, value in more.items()}
    return db.execute(sql.SQL(text).format(*map(sql.Identifier, names), **quoted))


def crud(db: psycopg.Connection, schema: str, table: str, column: str) -> None:
    """Everything that can be done with a relation, whatever it is called."""
    names = {"t": (schema, table), "c": column}
    definition = [{"name": column, "type": "text"}, {"name": "k", "type": "bigint"}]
    assert column != "k"
    db.execute("SELECT coldfront.create_iceberg_table(%s, %s, %s::jsonb)", [schema, table, Json(definition)])
    try:
        assert run(db, "INSERT INTO {t} ({c}, k) VALUES ('one', 1), ('two', 2) RETURNING {c}", **names).fetchall() == [("one",), ("two",)]
        assert run(db, "INSERT INTO {t} SELECT {c} || '!', k + 2 FROM {t}", **names).rowcount == 2
        found = run(db, "SELECT * FROM {t} ORDER BY k", **names)
        assert [d.name for d in found.description] == [column, "k"]
        assert found.fetchall() == [("one", 1), ("two", 2), ("one!", 3), ("two!", 4)]
        assert run(db, "SELECT k FROM {t} WHERE {c} = 'two'", **names).fetchall() == [(2,)]
        assert run(db, "SELECT {c}, count(*) FROM {t} GROUP BY {c} ORDER BY {c} LIMIT 1", **names).fetchall() == [("one", 1)]
        assert run(db, "SELECT max(x.{c}) FROM {t} AS x JOIN {t} AS y USING ({c})", **names).fetchone() == ("two!",)
        assert run(db, "UPDATE {t} SET {c} = upper({c}) WHERE k > 2", **names).rowcount == 2
        assert run(db, "DELETE FROM {t} WHERE {c} = 'ONE!' RETURNING {c}", **names).fetchall() == [("ONE!",)]
        with db.cursor() as cursor, cursor.copy(sql.SQL("COPY {t} ({c}, k) FROM STDIN").format(t=sql.Identifier(schema, table), c=sql.Identifier(column))) as copy:
            copy.write("copied\t9\n")
        with db.cursor() as cursor, cursor.copy(sql.SQL("COPY {t} TO STDOUT").format(t=sql.Identifier(schema, table))) as copy:
            assert sorted(b"".join(copy).splitlines()) == [b"TWO!\t4", b"copied\t9", b"one\t1", b"two\t2"]
        plan = run(db, "EXPLAIN (VERBOSE, FORMAT JSON) SELECT {c} FROM {t} WHERE {c} = 'two'", **names).fetchone()
        assert plan
        error = None
        try:
            run(db, "DROP VIEW {t}", **names)
        except psycopg.Error as refused:
            error = refused
        assert error is not None and error.sqlstate == "0A000"
    finally:
        db.rollback()
        db.execute("SELECT coldfront.drop_iceberg_table(%s, %s, true)", [schema, table])
    assert db.execute("SELECT count(*) FROM pg_class c WHERE relname = %s AND relnamespace = %s::text::regnamespace", [table, sql.Identifier(schema).as_string(db)]).fetchone() == (0,)


@pytest.mark.parametrize("name", [*ODD, *RESERVED], ids=label)
def test_a_table_and_a_column(db, name):
    crud(db, "names", name, name)



@pytest.mark.parametrize("name", [*ODD[::4], "select", "pivot", "ice", "temp", "main"], ids=label)
def test_a_schema(db, name):
    run(db, "CREATE SCHEMA {}", name)
    try:
        crud(db, name, name, "v")
    finally:
        run(db, "DROP SCHEMA {}", name)


def test_names_that_differ_in_little_are_different_tables(db, pg):
    """The lake takes fewer names than PostgreSQL; none of these may meet there."""
    pairs = ["Ab", "ab", "aB", "AB", "a b", "a_b", "a.b", "a-b", "a'b", 'a"b', "xab", "é", "e\u0301", "a" * 62, "a" * 63, "A" * 63]
    try:
        for number, name in enumerate(pairs):
            db.execute("SELECT coldfront.create_iceberg_table('names', %s, '[{\"name\": \"a\", \"type\": \"int\"}]')", [name])
            run(db, f"INSERT INTO {{t}} VALUES ({number})", t=("names", name))
        for number, name in enumerate(pairs):
            assert run(db, "SELECT a FROM {t}", t=("names", name)).fetchall() == [(number,)], name
        assert db.execute("SELECT count(DISTINCT iceberg_table), count(DISTINCT foreign_table) FROM coldfront.tiered_views WHERE schema_name = 'names'").fetchone() == (len(pairs),) * 2
    finally:
        for (name,) in db.execute("SELECT table_name FROM coldfront.tiered_views WHERE schema_name = 'names'").fetchall():
            db.execute("SELECT coldfront.drop_iceberg_table('names', %s, true)", [name])


def test_schema_and_table_are_not_run_together(db):
    """"a.b"."c" and "a"."b.c" are two tables."""
    places = [("na.b", "c"), ("na", "b.c"), ("na_b", "c"), ("na", "b_c")]
    made = []
    try:
        for schema in sorted({schema for schema, _ in places}):
            run(db, "CREATE SCHEMA {}", schema)
        for number, place in enumerate(places):
            db.execute("SELECT coldfront.create_iceberg_table(%s, %s, '[{\"name\": \"a\", \"type\": \"int\"}]')", place)
            made.append(place)
            run(db, f"INSERT INTO {{t}} VALUES ({number})", t=place)
        for number, place in enumerate(places):
            assert run(db, "SELECT a FROM {t}", t=place).fetchall() == [(number,)], place
    finally:
        for place in made:
            db.execute("SELECT coldfront.drop_iceberg_table(%s, %s, true)", place)
        for schema in sorted({schema for schema, _ in places}):
            run(db, "DROP SCHEMA {}", schema)


def test_the_longest_names_together(db):
    schema, table, column = "s" * 63, "t" * 63, "c" * 63
    run(db, "CREATE SCHEMA {}", schema)
    try:
        crud(db, schema, table, column)
        other = "t" * 62 + "u"
        for name in (table, other):
            db.execute("SELECT coldfront.create_iceberg_table(%s, %s, '[{\"name\": \"a\", \"type\": \"int\"}]')", [schema, name])
        run(db, "INSERT INTO {t} VALUES (1)", t=(schema, table))
        assert run(db, "SELECT count(*) FROM {t}", t=(schema, other)).fetchone() == (0,)
        for name in (table, other):
            db.execute("SELECT coldfront.drop_iceberg_table(%s, %s, true)", [schema, name])
    finally:
        run(db, "DROP SCHEMA {}", schema)


def test_all_columns_at_once(db):
    """One table with every name as a column, in all clauses; names that differ in case only are left out."""
    columns = list({name.lower(): name for name in NAMES}.values())
    definition = [{"name": name, "type": "int"} for name in columns]
    db.execute("SELECT coldfront.create_iceberg_table('names', 'wide', %s::jsonb)", [Json(definition)])
    try:
        values = ", ".join(str(n) for n in range(len(columns)))
        db.execute(f"INSERT INTO names.wide VALUES ({values})")
        db.execute(sql.SQL("UPDATE names.wide SET {}").format(sql.SQL(", ").join(sql.SQL("{0} = {0} + 100").format(sql.Identifier(c)) for c in columns)))
        where = sql.SQL(" AND ").join(sql.SQL("{} = {}").format(sql.Identifier(c), n + 100) for n, c in enumerate(columns))
        listed = sql.SQL(", ").join(map(sql.Identifier, reversed(columns)))
        query = sql.SQL("SELECT {} FROM names.wide WHERE {} GROUP BY {}").format(listed, where, listed)
        assert db.execute(query).fetchall() == [tuple(n + 100 for n in reversed(range(len(columns))))]
    finally:
        db.execute("SELECT coldfront.drop_iceberg_table('names', 'wide', true)")


def partitioned(db: psycopg.Connection, name: str) -> None:
    term = sql.Identifier(name).as_string(db)
    definition = [{"name": name, "type": "date"}, {"name": "v", "type": "int"}]
    db.execute("SELECT coldfront.create_iceberg_table('names', 'parted', %s::jsonb, %s)", [Json(definition), [f"month({term})", term]])
    try:
        db.execute("INSERT INTO names.parted VALUES ('2024-01-31', 1), ('2024-02-01', 2)")
        assert run(db, "SELECT v FROM names.parted WHERE {} > '2024-01-31'", name).fetchall() == [(2,)]
    finally:
        db.execute("SELECT coldfront.drop_iceberg_table('names', 'parted', true)")


@pytest.mark.parametrize("name", ["plain", "Mixed", "select", "month", "x" * 63])
def test_a_column_that_partitions(db, name):
    partitioned(db, name)


@pytest.mark.parametrize("name", ['part "of" it, day(x)', "é"])
def test_an_odd_column_that_partitions(db, name):
    """Its name becomes part of the objects' names, which some stores do not take: then nothing is written."""
    try:
        partitioned(db, name)
    except psycopg.errors.InsufficientPrivilege as error:
        assert "object store" in error.diag.message_primary, describe(error)


@pytest.mark.parametrize("name", NOT_FOR_COLUMNS)
def test_columns_that_cannot_be(db, name):
    definition = Json([{"name": name, "type": "int"}])
    error = fails(db, "SELECT coldfront.create_iceberg_table('names', 'no', %s::jsonb)", "42939", "42701", params=[definition])
    assert name in error.diag.message_primary
    assert db.execute("SELECT to_regclass('names.no')").fetchone() == (None,)


def test_names_that_are_too_long_or_empty(db):
    column = '[{"name": "a", "type": "int"}]'
    create = "SELECT coldfront.create_iceberg_table(%s, %s, %s::jsonb)"
    fails(db, create, "42622", params=["names", "x" * 64, column])
    fails(db, create, "42622", params=["names", "ok", Json([{"name": "x" * 64, "type": "int"}])])
    fails(db, create, "42622", params=["names", "ok", Json([{"name": "", "type": "int"}])])
    fails(db, create, "42602", "42601", "42622", params=["names", "", column])
    fails(db, create, "3F000", params=["no such schema", "ok", column])
    fails(db, create, "42701", params=["names", "ok", Json([{"name": "a", "type": "int"}, {"name": "A", "type": "int"}])])
    assert db.execute("SELECT count(*) FROM coldfront.tiered_views WHERE schema_name = 'names'").fetchone() == (0,)


def test_what_is_dropped_is_gone_from_the_lake(db, pg):
    env = pg.environment()
    db.execute("SELECT coldfront.create_iceberg_table('names', 'Go ne', '[{\"name\": \"a\", \"type\": \"int\"}]')")
    db.execute('INSERT INTO names."Go ne" VALUES (1)')
    (ref,) = db.execute("SELECT iceberg_table FROM coldfront.tiered_views WHERE table_name = 'Go ne'").fetchone()
    prefix = "/".join(part.strip('"') for part in ref.split(".")[1:]) + "/"
    assert lake.load(lake.catalog(env), ref).scan().to_arrow().num_rows == 1
    assert lake.objects(prefix, env)
    db.execute("SELECT coldfront.drop_iceberg_table('names', 'Go ne', true)")
    wait_until("its objects to go", lambda: not lake.objects(prefix, env), limit(10))
