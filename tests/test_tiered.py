"""Statements on a tiered relation: each goes to the tier of its rows, whatever was planned before a cutover."""

from __future__ import annotations

import re

import psycopg
import pytest
from archive import Archiver, bound, content, make, month
from probe import describe, fails

pytestmark = pytest.mark.coldfront
REFUSED = "0A000"


@pytest.fixture(scope="module")
def pg(own_stack, gates):
    with own_stack.connect() as db:
        db.execute("CREATE SCHEMA s")
    return own_stack


@pytest.fixture
def archiver(pg, tmp_path):
    return Archiver(pg, tmp_path)


@pytest.fixture
def db(pg, gates):
    with pg.connect() as db:
        db.execute("SET TimeZone = 'UTC'; SET client_min_messages = warning")
        yield db
        gates.reset()
        db.rollback()
        db.execute("RESET ROLE; RESET ALL; SET client_min_messages = warning")
        for schema, table in db.execute("SELECT schema_name, table_name FROM coldfront.tiered_views").fetchall():
            db.execute("SELECT coldfront.drop_iceberg_table(%s, %s, true)", [schema, table])
        db.execute("DELETE FROM coldfront.partition_config; DROP SCHEMA s CASCADE; CREATE SCHEMA s")


@pytest.fixture
def events(db, archiver):
    """Rows 1 to 20 of each of five months, of which the last two are hot; a heap twin beside it."""
    name = make(db, "s", "events", [-4, -3, -2, -1, 0], rows=20)
    db.execute(f"CREATE TABLE s.twin AS TABLE {name}")
    archiver.call("register", "--table", name, "--hot-period", "1 month", "--premake", "1")
    archiver.run(name)
    assert db.execute("SELECT count(*) FROM s._events").fetchone() == (40,)
    return "s.events"


def cutoff(db: psycopg.Connection) -> str:
    return bound(db, -1)


def same(db: psycopg.Connection) -> None:
    assert content(db, "s.events") == content(db, "s.twin")


def both(db: psycopg.Connection, statement: str, params=None) -> psycopg.Cursor:
    """Runs a statement on the relation and on its twin, which have to answer alike; {t} stands for the relation."""
    done = [db.execute(statement.format(t=name), params) for name in ("s.twin", "s.events")]
    assert done[0].statusmessage == done[1].statusmessage
    if done[0].description:
        assert sorted(map(repr, done[0].fetchall())) == sorted(map(repr, done[1].fetchall()))
    same(db)
    return done[1]


def plan(db: psycopg.Connection, statement: str, params=None, options: str = "COSTS OFF") -> str:
    return "\n".join(row[0] for row in db.execute(f"EXPLAIN ({options}) {statement}", params))


# --- routing


WHERE = {
    "ts = {hot}": "hot", "{hot} = ts": "hot", "ts > {cut}": "hot", "ts >= {cut}": "hot", "{cut} <= ts": "hot", "ts < {cut}": "cold",
    "{cut} > ts": "cold", "ts <= {cold}": "cold", "ts BETWEEN {cold} AND {cold}": "cold", "ts BETWEEN {cold} AND {hot}": "both",
    "ts IN ({cold}, {cold})": "cold", "ts IN ({hot})": "hot", "ts IN ({hot}, {cold})": "both", "ts = {hot} OR ts = {cold}": "both",
    "ts = {cold} OR ts < {cold}": "cold", "ts >= {cut} AND id < 5": "hot", "id < 5": "both", "ts >= {cut} OR id = 1": "both",
    "NOT ts < {cut}": "hot", "ts > {hot} AND ts < {cold}": "none", "ts >= {hot}::date": "any",
}  # fmt: skip


@pytest.mark.parametrize("change", ["UPDATE {t} SET v = v || '!' WHERE", "DELETE FROM {t} WHERE"])
def test_where_decides(db, events, change):
    """Both operand orders, AND, OR, BETWEEN, IN: the plan reads the tiers that may have rows, and the answer is the heap's."""
    literal = {"cut": f"'{cutoff(db)} 00:00+00'::timestamptz", "hot": f"'{bound(db, 0)} 00:05+00'::timestamptz", "cold": f"'{bound(db, -3)} 00:05+00'::timestamptz"}
    for where, tiers in WHERE.items():
        statement = f"{change} {where.format(**literal)}"
        shown = plan(db, statement.format(t="s.events"))
        found = {"hot": "Seq Scan" in shown, "cold": "Foreign Scan" in shown}
        if tiers in ("hot", "cold"):
            assert found == {"hot": tiers == "hot", "cold": tiers == "cold"}, f"{where}\n{shown}"
        elif tiers == "both":
            assert found == {"hot": True, "cold": True}, f"{where}\n{shown}"
        elif tiers == "none":
            assert not found["cold"], f"{where}\n{shown}"
        db.execute("BEGIN")
        both(db, statement)
        db.execute("ROLLBACK")


def test_aggregates_read_the_cutoff_only_where_a_row_reaches_it(db, events):
    """Another program may write such rows, and rows without a key; they are not the relation's."""
    queries = [
        "SELECT count(*) FROM {t}", "SELECT count(*), sum(id), max(ts) FROM {t} WHERE id < 15",
        f"SELECT count(*), min(ts) FROM {{t}} WHERE ts < '{cutoff(db)} 00:00+00'", f"SELECT count(*) FROM {{t}} WHERE ts < '{bound(db, -2)} 00:00+00'",
    ]  # fmt: skip

    def taken() -> list[str]:
        found = []
        for query in queries:
            both(db, query)
            shown = plan(db, query.format(t="s.events"), options="ANALYZE, COSTS OFF")
            found += re.findall("Shortcut Taken: (.*)", shown)
        return found

    # The last one has a bound of its own, below the cutoff.
    assert taken() == ["yes"] * 3
    cold = 'coldfront_cold."s.events"'
    db.execute(f"ALTER FOREIGN TABLE {cold} ALTER ts DROP NOT NULL")
    for ts in (f"{bound(db, 0)} 00:00+00", None):
        db.execute(f"INSERT INTO {cold} (id, ts) VALUES (1, %s)", [ts])
        assert taken() == ["no"] * 3
        db.execute(f"DELETE FROM {cold} WHERE ts IS NOT DISTINCT FROM %s", [ts])
        assert taken() == ["yes"] * 3


def test_hot_rows_are_asked_for_the_cutoff_where_partitions_do_not_tell(db, events):
    query = "SELECT count(*), max(v) FROM s.events"
    assert "Filter" not in plan(db, query)
    both(db, query.replace("s.events", "{t}"))
    db.execute("PREPARE q AS " + query)
    for _ in range(7):
        assert db.execute("EXECUTE q").fetchone() == db.execute("SELECT count(*), max(v) FROM s.twin").fetchone()
    db.execute("CREATE TABLE s.other PARTITION OF s._events DEFAULT")
    assert "Filter: (ts >=" in plan(db, query)
    assert "Filter: (ts >=" in plan(db, "EXECUTE q")


def test_a_hot_statement_needs_no_lake(db, events, gates):
    """Catalog and store are away; constants, parameters and now() keep cold rows out of it."""
    gates.catalog.close()
    gates.store.close()
    day = f"{bound(db, 0)} 00:05+00"
    assert db.execute("SELECT count(*) FROM s.events WHERE ts >= %s", [cutoff(db)]).fetchone() == (40,)
    assert db.execute("SELECT count(*) FROM s.events WHERE ts > now() - interval '1 day' AND ts < now() - interval '1 hour'").rowcount == 1
    for prepare in (False, True):
        for _ in range(7):
            assert db.execute("SELECT id FROM s.events WHERE ts = %s::timestamptz", [day], prepare=prepare).fetchall() == [(5,)]
            assert db.execute("UPDATE s.events SET v = 'new' WHERE ts = %s::timestamptz", [day], prepare=prepare).rowcount == 1
    assert db.execute(f"INSERT INTO s.events (id, ts) VALUES (100, now()), (101, {month(0)}) RETURNING id").fetchall() == [(100,), (101,)]
    assert db.execute("DELETE FROM s.events WHERE ts >= now() - interval '1 minute' AND id = 100").rowcount == 1
    with db.cursor() as cursor, cursor.copy("COPY s.events (id, ts) FROM STDIN") as copy:
        copy.write(f"102\t{day}\n")
    error = fails(db, "SELECT count(v) FROM s.events WHERE ts < now()", "08001")
    assert "s.events" in error.diag.message_primary


KEYS = {
    "timestamptz": ("now()", "2020-01-01", "2999-01-01"), "timestamp": ("now()::timestamp", "2020-01-01", "2999-01-01"),
    "date": ("current_date", "2020-01-01", "2999-01-01"), "bigint": ("9007199254740993", "0", "9223372036854775807"),
    "uuid": ("'018bcfe5-687b-7fff-bfff-ffffffffffff'::uuid", "018b0000-0000-7000-8000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEYS)
def test_before_the_first_cutover_nothing_needs_the_lake(db, archiver, gates, kind):
    """Every row is hot, and no statement asks the engine, whatever its WHERE clause says."""
    key, low, high = KEYS[kind]
    db.execute(f"CREATE TABLE s.t (id bigint NOT NULL, k {kind} NOT NULL, v text) PARTITION BY RANGE (k)")
    db.execute(f"CREATE TABLE s.p PARTITION OF s.t FOR VALUES FROM ('{low}') TO ('{high}')")
    scheme = {"bigint": ("--id-scheme", "snowflake"), "uuid": ("--id-scheme", "uuidv7")}.get(kind, ())
    archiver.call("register", "--table", "s.t", "--hot-period", "1200 months", "--premake", "0", *scheme)
    archiver.run("s.t")
    assert db.execute("SELECT relkind FROM pg_class WHERE oid = 's.t'::regclass").fetchone() == ("v",)
    gates.catalog.close()
    gates.store.close()
    assert db.execute(f"INSERT INTO s.t SELECT g, {key}, 'new' FROM generate_series(1, 3) AS g RETURNING id").fetchall() == [(1,), (2,), (3,)]
    (value,) = db.execute(f"SELECT ({key})::text").fetchone()
    with db.cursor() as cursor, cursor.copy("COPY s.t FROM STDIN") as copy:
        copy.write(f"4\t{value}\tcopied\n")
    assert db.execute("UPDATE s.t SET v = v || '!' WHERE id < 3 RETURNING v").fetchall() == [("new!",), ("new!",)]
    assert db.execute(f"UPDATE s.t SET k = {key} WHERE id = 3").rowcount == 1
    assert db.execute("DELETE FROM s.t WHERE id = %s", [1]).rowcount == 1
    assert db.execute("SELECT count(*), max(v) FROM s.t").fetchone() == (3, "new!")
    assert db.execute("SELECT id FROM s.t ORDER BY id LIMIT 2 FOR UPDATE").fetchall() == [(2,), (3,)]
    db.execute("SET coldfront.allow_mixed_writes = off")
    assert db.execute("DELETE FROM s.t").rowcount == 3


LATEST = [
    "SELECT id, ts, v FROM {t} ORDER BY ts DESC LIMIT 10", "SELECT id FROM {t} WHERE v LIKE 'row%' ORDER BY ts DESC, id LIMIT 7 OFFSET 12",
    "SELECT n, v FROM {t} WHERE id < 15 ORDER BY ts DESC LIMIT 3", "SELECT id FROM (SELECT * FROM {t} ORDER BY ts DESC LIMIT 5) AS q ORDER BY id LIMIT 3",
]  # fmt: skip


@pytest.mark.parametrize("latest", LATEST)
def test_the_latest_rows_need_no_lake_while_the_hot_tier_has_enough(db, events, gates, latest):
    expected = db.execute(latest.format(t="s.twin")).fetchall()
    gates.catalog.close()
    gates.store.close()
    assert db.execute(latest.format(t="s.events")).fetchall() == expected
    for _ in range(7):
        assert db.execute("SELECT id FROM s.events WHERE id > %s ORDER BY ts DESC LIMIT %s", [0, 10], prepare=True).rowcount == 10
    fails(db, "SELECT id FROM s.events ORDER BY ts DESC LIMIT 50", "08001")


def test_the_latest_rows_reach_into_the_cold_tier(db, events):
    """Around the number of rows that are hot, 40, and where a condition leaves fewer; also for every outer row."""
    for limit in (0, 1, 38, 39, 40, 41, 42, 99, 100, 101):
        both(db, f"SELECT id, ts FROM {{t}} ORDER BY ts DESC LIMIT {limit}")
        both(db, f"SELECT id, ts FROM {{t}} WHERE id <= 4 ORDER BY ts DESC, id LIMIT {limit} OFFSET 2")
        both(db, "SELECT id, ts FROM {t} ORDER BY ts DESC, v LIMIT %s", [limit])
    both(db, "SELECT x.id, (SELECT y.ts FROM {t} AS y WHERE y.id = x.id ORDER BY y.ts DESC LIMIT 1 OFFSET 3) FROM {t} AS x ORDER BY x.ts, x.id LIMIT 30")
    both(db, "SELECT x, l.* FROM generate_series(1, 3) AS x, LATERAL (SELECT id, ts FROM {t} WHERE id = x ORDER BY ts DESC LIMIT 4) AS l")
    both(db, "SELECT id, ts FROM {t} ORDER BY ts LIMIT 3")
    # NULL is no limit, and no offset.
    for limit, offset in ((None, None), (None, 3), (50, None), (5, None)):
        both(db, "SELECT id, ts FROM {t} ORDER BY ts DESC, v LIMIT %s OFFSET %s", [limit, offset])
    db.execute("PREPARE latest AS SELECT id, ts FROM s.events ORDER BY ts DESC LIMIT $1; SET plan_cache_mode = force_generic_plan")
    for limit in (10, 41, 39, 100, "NULL"):
        assert db.execute(f"EXECUTE latest({limit})").fetchall() == db.execute(f"SELECT id, ts FROM s.twin ORDER BY ts DESC LIMIT {limit}").fetchall()


def test_a_cold_statement_leaves_the_heap_alone(db, events):
    for statement in ("SELECT * FROM s.events WHERE ts < %s", "UPDATE s.events SET v = '' WHERE ts < %s", "DELETE FROM s.events WHERE ts < %s"):
        assert "_events" not in plan(db, statement, [cutoff(db)]).replace('"s.events"', "")


def test_mixed_writes_may_be_refused(db, events):
    db.execute("SET coldfront.allow_mixed_writes = off")
    for statement in ("UPDATE s.events SET v = 'x'", "DELETE FROM s.events WHERE id = 1", "UPDATE s.events SET v = 'x' WHERE ts > now() - interval '3 months'"):
        error = fails(db, statement, REFUSED)
        assert "s.events" in error.diag.message_primary and "allow_mixed_writes" in error.diag.message_hint, describe(error)
    assert db.execute("UPDATE s.events SET v = 'x' WHERE ts > now() - interval '1 day'").rowcount >= 0
    assert db.execute("UPDATE s.events SET v = 'x' WHERE ts < %s", [cutoff(db)]).rowcount == 60
    assert db.execute("INSERT INTO s.events (id, ts) VALUES (1, now()), (2, now() - interval '3 months')").rowcount == 2


@pytest.mark.parametrize("statement", [
    "UPDATE {t} SET ts = ts + interval '1 month' WHERE id <= 10", "UPDATE {t} SET ts = ts - interval '1 month', v = 'moved ' || id WHERE id BETWEEN 5 AND 9",
    "UPDATE {t} SET ts = %(hot)s, id = id + 1000 WHERE id = 3", "UPDATE {t} SET ts = %(cold)s WHERE id = 3 RETURNING id, ts, v, n",
    "UPDATE {t} SET ts = x.at, v = x.k::text FROM (VALUES (1, %(hot)s::timestamptz), (2, %(cold)s::timestamptz)) AS x (k, at) WHERE id = x.k RETURNING id, ts, v, x.k",
    "WITH x AS (SELECT 4 AS k, %(cold)s::timestamptz AS at) UPDATE {t} SET ts = x.at FROM x WHERE id = x.k",
    "WITH m AS (UPDATE {t} SET ts = ts - interval '40 days' WHERE id = 7 AND ts >= %(hot)s::date RETURNING id, ts) SELECT * FROM m",
    "UPDATE {t} SET ts = ts WHERE id < 4", "UPDATE {t} SET n = (SELECT max(id) FROM {t} AS o WHERE o.ts < %(hot)s), ts = ts - interval '1 day' WHERE id = 2",
])  # fmt: skip
def test_rows_move_across_the_cutoff(db, events, statement):
    """Exactly once, in either direction, with other columns and with parameters."""
    params = {"hot": f"{bound(db, 0)} 00:05+00", "cold": f"{bound(db, -3)} 00:05+00"}
    both(db, statement, params if "%(" in statement else None)
    assert db.execute("SELECT count(*) FROM s._events WHERE ts < %s", [cutoff(db)]).fetchone() == (0,)
    assert db.execute('SELECT count(*) FROM coldfront_cold."s.events" WHERE ts >= %s', [cutoff(db)]).fetchone() == (0,)


def test_a_row_without_a_partition(db, events):
    for statement in ("INSERT INTO s.events (id, ts) VALUES (1, '2099-01-01')", "UPDATE s.events SET ts = '2099-01-01' WHERE id = 1", "UPDATE s.events SET ts = NULL WHERE id = 1"):
        error = fails(db, statement, "23514", "23502")
        if error.sqlstate == "23514":
            assert "s.events" in error.diag.message_primary and "premake" in error.diag.message_hint, describe(error)
        same(db)


@pytest.mark.parametrize("statement", [
    "INSERT INTO s.events (id, ts) VALUES (1, now()) ON CONFLICT DO NOTHING",
    "MERGE INTO s.events USING (VALUES (1)) AS x (k) ON id = x.k WHEN MATCHED THEN DELETE",
    "UPDATE s.events SET ts = ts - random() * interval '90 days'",
    "UPDATE s.events SET (ts, v) = (SELECT now(), 'x')",
    "UPDATE s.events SET ts = ts - interval '90 days' RETURNING events",
    "UPDATE s.above SET v = 'x'", "TRUNCATE s.events", "TRUNCATE s._events", "DROP TABLE s._events CASCADE", "DROP VIEW s.events CASCADE", "DROP SCHEMA s CASCADE",
])  # fmt: skip
def test_what_is_refused_writes_nothing(db, events, statement):
    db.execute("CREATE VIEW s.above AS SELECT id, v FROM s.events")
    error = fails(db, statement, REFUSED)
    assert "s.events" in error.diag.message_primary and error.diag.message_hint, describe(error)
    same(db)


def test_copy_goes_to_both_tiers(db, events):
    rows = [f"{number}\t{bound(db, offset)} 10:00+00\tcopied\n" for number, offset in enumerate([-4, -1, -2, 0, -3])]
    for name in ("s.twin", "s.events"):
        with db.cursor() as cursor:
            with cursor.copy(f"COPY {name} (id, ts, v) FROM STDIN WHERE id <> 2") as copy:
                copy.write("".join(rows))
            assert cursor.statusmessage == "COPY 4"
    same(db)
    with db.cursor() as cursor, cursor.copy("COPY s.events (id) TO STDOUT") as copy:
        assert sum(1 for _ in copy.rows()) == 104


def test_defaults_and_identity_come_from_one_place(db, archiver):
    name = make(db, "s", "events", [-3, -2, -1, 0], "id bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY, ts timestamptz NOT NULL DEFAULT now(), v text DEFAULT 'none', d double precision, n numeric(12,3), g bigint GENERATED ALWAYS AS (id * 2) STORED", rows=3)
    archiver.call("register", "--table", name, "--hot-period", "1 month")
    archiver.run(name)
    made = db.execute(f"INSERT INTO s.events (ts) VALUES ({month(-3)}), (now()), ({month(-2)}), (DEFAULT) RETURNING id, v, g").fetchall()
    assert sorted(made) == [(number, "none", 2 * number) for number in (1, 2, 3, 4)]
    assert db.execute("INSERT INTO s.events DEFAULT VALUES RETURNING id, v").fetchall() == [(5, "none")]
    assert db.execute(f"UPDATE s.events SET ts = {month(-3)}, id = 50 WHERE id = 5 RETURNING id, g").fetchall() == [(50, 100)]
    fails(db, f"INSERT INTO s.events (ts, g) VALUES ({month(-3)}, 1)", "428C9")


# --- cutovers


def test_plans_made_before_a_cutover(db, archiver, pg):
    """Prepared statements, also generic ones, and functions are routed by the new cutoff after it."""
    name = make(db, "s", "events", [-3, -2, -1, 0], rows=10)
    archiver.call("register", "--table", name, "--hot-period", "6 months")
    archiver.run(name)
    assert db.execute("SELECT count(*) FROM s._events").fetchone() == (40,)
    day = f"{bound(db, -3)} 00:05+00"
    db.execute("SET plan_cache_mode = force_generic_plan")
    db.execute("PREPARE read AS SELECT count(*) FROM s.events WHERE ts < now()")
    db.execute("PREPARE change (timestamptz, text) AS UPDATE s.events SET v = $2 WHERE ts = $1")
    db.execute(f"PREPARE add (bigint) AS INSERT INTO s.events (id, ts) VALUES ($1, '{day}')")
    db.execute("CREATE FUNCTION s.f(at timestamptz) RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN UPDATE s.events SET v = v || '+' WHERE ts = at; GET DIAGNOSTICS n = ROW_COUNT; RETURN n; END $$")

    def use(expected: int) -> None:
        assert db.execute("EXECUTE read").fetchone()[0] >= expected
        assert db.execute(f"EXECUTE change ('{day}', 'set')").statusmessage == f"UPDATE {expected - 29}"
        assert db.execute("SELECT s.f(%s)", [day]).fetchone() == (expected - 29,)
        assert db.execute(f"EXECUTE add ({expected})").statusmessage == "INSERT 0 1"

    use(30)
    db.execute("UPDATE coldfront.partition_config SET hot_period = '2 months'")
    archiver.run(name)
    assert db.execute("SELECT count(*) FROM s._events WHERE ts < %s", [bound(db, -2)]).fetchone() == (0,)
    use(31)
    db.execute("UPDATE coldfront.partition_config SET hot_period = '1 month'")
    archiver.run(name)
    use(32)
    assert db.execute("SELECT count(*) FROM s.events WHERE ts = %s", [day]).fetchone() == (4,)


def test_a_cutover_waits_for_open_transactions(db, events, archiver, pg):
    db.execute("UPDATE coldfront.partition_config SET hot_period = '0'")
    with pg.connect() as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert reader.execute("SELECT count(*) FROM s.events").fetchone() == (100,)
        archiver.run(events, code=1, COLDFRONT_ARCHIVER_LOCK_WAIT_S="1")
        assert reader.execute("SELECT count(*), count(DISTINCT (id, ts)) FROM s.events").fetchone() == (100, 100)
        reader.execute("COMMIT")
    archiver.run(events)
    same(db)


# --- privileges and columns


def test_the_privileges_of_the_view_count(db, events):
    db.execute("DROP ROLE IF EXISTS tiered_app; CREATE ROLE tiered_app; GRANT USAGE ON SCHEMA s TO tiered_app")
    try:
        db.execute("SET ROLE tiered_app")
        for statement in ("SELECT 1 FROM s.events", "INSERT INTO s.events (id, ts) VALUES (1, now())", "DELETE FROM s.events", "UPDATE s.events SET v = ''", "COPY s.events FROM STDIN"):
            fails(db, statement, "42501")
        db.execute("RESET ROLE; GRANT SELECT, UPDATE (v), INSERT (id, ts) ON s.events TO tiered_app; SET ROLE tiered_app")
        assert db.execute("UPDATE s.events SET v = 'app' WHERE id = 1").rowcount == 5
        assert db.execute("INSERT INTO s.events (id, ts) VALUES (77, now() - interval '3 months')").rowcount == 1
        day = bound(db, -4)
        with db.cursor() as cursor, cursor.copy("COPY s.events (id, ts) FROM STDIN") as copy:
            copy.write(f"78\t{day}\n")
        for statement in ("UPDATE s.events SET id = 1", "INSERT INTO s.events (id, ts, v) VALUES (1, now(), '')", "SELECT 1 FROM s._events", 'SELECT 1 FROM coldfront_cold."s.events"', "DELETE FROM s.events"):
            fails(db, statement, "42501")
    finally:
        db.execute("RESET ROLE; REVOKE ALL ON s.events FROM tiered_app; REVOKE ALL ON SCHEMA s FROM tiered_app; DROP ROLE tiered_app")


def test_columns_change_on_both_sides(db, events):
    db.execute("GRANT SELECT ON s.events TO PUBLIC; COMMENT ON COLUMN s.events.v IS 'words'")
    db.execute("ALTER TABLE s.events ADD COLUMN a int, ADD COLUMN w varchar(4)")
    db.execute("ALTER TABLE s._events ADD COLUMN x numeric(5,1)")
    assert db.execute("UPDATE s.events SET a = id, w = 'abcd', x = 1.5 WHERE id < 3").rowcount == 10
    db.execute("ALTER TABLE s.events ALTER COLUMN a TYPE bigint, ALTER COLUMN w TYPE text, ALTER COLUMN x TYPE numeric(20,1)")
    assert db.execute("UPDATE s.events SET a = 3000000000, x = 123456789012.5 WHERE id = 2").rowcount == 5
    assert db.execute("SELECT count(*), sum(a), sum(x) FROM s.events WHERE a > 2999999999 AND x > 99999").fetchone()[0] == 5
    db.execute('ALTER VIEW s.events RENAME COLUMN a TO "A ""a"')
    db.execute("ALTER TABLE s._events RENAME COLUMN ts TO at")
    assert db.execute('SELECT count(*) FROM s.events WHERE "A ""a" = 1 AND at < now()').fetchone() == (5,)
    assert db.execute("UPDATE s.events SET at = at - interval '1 month' WHERE id = 1").rowcount == 5
    db.execute("ALTER TABLE s.events DROP COLUMN v, DROP COLUMN w")
    assert [c.name for c in db.execute("SELECT * FROM s.events").description] == ["id", "at", "d", "n", 'A "a', "x"]
    assert db.execute("SELECT has_table_privilege('public', 's.events', 'SELECT')").fetchone() == (True,)
    db.execute("ALTER TABLE s.events ADD CONSTRAINT small CHECK (id < 5000)")
    for at in ("now()", "now() - interval '4 months'"):
        fails(db, f"INSERT INTO s.events (id, at) VALUES (6000, {at})", "23514")


@pytest.mark.parametrize(("change", "states"), [
    ("ADD COLUMN z int DEFAULT 1", [REFUSED]), ("ADD COLUMN z int NOT NULL", ["23502"]), ("ADD COLUMN z inet", [REFUSED]), ('ADD COLUMN "ID" int', ["42701"]),
    ("ALTER COLUMN id TYPE int", [REFUSED]), ("DROP COLUMN ts", ["42P16"]), ("ADD CONSTRAINT c CHECK (id > 1)", ["23514"]), ("ALTER COLUMN d SET NOT NULL", ["23502"]),
    ("ADD COLUMN filename text", ["42939"]),
])  # fmt: skip
def test_changes_that_cold_rows_would_not_follow(db, events, change, states):
    fails(db, f"ALTER TABLE s.events {change}", *states)
    same(db)
    assert db.execute("UPDATE s.events SET v = 'still works' WHERE id = 1").rowcount == 5


def test_names_of_the_relation_change(db, events, archiver):
    db.execute('ALTER TABLE s._events RENAME TO "hot part"; CREATE SCHEMA other; ALTER VIEW s.events SET SCHEMA other; ALTER VIEW other.events RENAME TO "New.name"')
    try:
        assert db.execute('UPDATE other."New.name" SET v = $$x$$ WHERE id = 2').rowcount == 5
        assert db.execute("SELECT schema_name, table_name, hot_table FROM coldfront.tiered_views").fetchall() == [("other", "New.name", "hot part")]
        db.execute("UPDATE coldfront.partition_config SET hot_period = '0'")
        archiver.run('other."New.name"')
        assert db.execute('SELECT count(*) FROM other."New.name"').fetchone() == (100,)
        db.execute("SELECT coldfront.drop_iceberg_table('other', 'New.name', true)")
        assert db.execute('SELECT relkind::text FROM pg_class WHERE oid = \'other."New.name"\'::regclass').fetchone() == ("p",)
    finally:
        db.execute("DROP SCHEMA IF EXISTS other CASCADE")


# --- reads that stay where the rows are


READS = [
    "SELECT count(*) FROM {t}", "SELECT count(*), sum(id), avg(id), sum(n), avg(n), min(ts), max(n), min(v) FROM {t} WHERE id > 3", "SELECT count(*), sum(n) FROM {t} WHERE id < 0",
    "SELECT v, count(*), sum(n) / count(*) FROM {t} GROUP BY v HAVING count(*) > 1 ORDER BY v", "SELECT id % 3 AS k, count(*) FILTER (WHERE d IS NULL), bool_or(id > 19) FROM {t} GROUP BY 1 ORDER BY 1",
    "SELECT id FROM {t} GROUP BY id ORDER BY id", "SELECT date_trunc('month', ts), sum(id) FROM {t} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 2", "SELECT (SELECT max(ts) FROM {t} AS o WHERE o.id = x.id) FROM {t} AS x ORDER BY 1 LIMIT 3",
    "SELECT id, ts FROM {t} ORDER BY ts DESC, id LIMIT 7 OFFSET 17", "SELECT id, d FROM {t} ORDER BY d DESC NULLS LAST, id, ts LIMIT 30", "SELECT n FROM {t} ORDER BY n LIMIT NULL", "SELECT count(*) FROM (SELECT 1 FROM {t} LIMIT 55) AS q",
    "SELECT sum(d), avg(d), count(DISTINCT id), string_agg(v, ',' ORDER BY v, ts) FROM {t} WHERE d < 'NaN'", "SELECT x.id, count(*) FROM {t} AS x JOIN {t} AS y USING (id) GROUP BY x.id ORDER BY 1",
    "SELECT grouping(id), id, count(*) FROM {t} GROUP BY ROLLUP (id) ORDER BY 1, 2", "SELECT DISTINCT v FROM {t} ORDER BY v", "SELECT id, row_number() OVER (ORDER BY ts, id) FROM {t} ORDER BY 2 LIMIT 5",
]  # fmt: skip


def test_reads_give_the_heap_s_answer(db, events):
    for read in READS:
        expected, got = (db.execute(read.format(t=name)).fetchall() for name in ("s.twin", "s.events"))
        assert repr(got) == repr(expected), read


def test_aggregates_and_limits_do_not_pull_cold_rows(db, events):
    for read in (READS[0], READS[1], "SELECT id, ts FROM {t} ORDER BY ts LIMIT 3", "SELECT id FROM {t} WHERE id > 2 ORDER BY n, id LIMIT 3"):
        shown = plan(db, read.format(t="s.events").replace("min(v)", "min(id)"), options="ANALYZE, COSTS OFF, TIMING OFF, BUFFERS OFF, SUMMARY OFF")
        rows = [line for line in shown.splitlines() if "Foreign Scan" in line]
        assert len(rows) == 1 and float(rows[0].split("rows=")[1].split()[0].rstrip(")")) <= 20, shown
        assert "LIMIT" in shown or "count(*)" in shown, shown
    beyond = plan(db, "SELECT id, ts FROM s.events ORDER BY ts DESC LIMIT 60", options="ANALYZE, COSTS OFF, TIMING OFF, BUFFERS OFF, SUMMARY OFF")
    assert re.search(r"Foreign Scan.*rows=60", beyond), beyond
    latest = plan(db, "SELECT id, ts FROM s.events ORDER BY ts DESC LIMIT 3", options="ANALYZE, COSTS OFF, TIMING OFF, BUFFERS OFF, SUMMARY OFF")
    assert "One-Time Filter" in latest and "never executed" in latest, latest
