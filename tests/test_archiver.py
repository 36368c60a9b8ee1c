"""The archiver's pass: partitions move to Iceberg, the view shows every row exactly once, and what cannot be right is
refused by name."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from contextlib import contextmanager

import pytest
from archive import COLUMNS, Archiver, bound, content, cutoff, fill, left_overs, make, month, partitions
from probe import fails
from stack import free_port, wait_until

pytestmark = pytest.mark.coldfront


def register(archiver: Archiver, name: str, *more: str, code: int = 0):
    options = more or ("--hot-period", "1 month", "--premake", "1")
    return archiver.call("register", "--table", name, *options, code=code)


def test_months_move_and_nothing_changes_for_readers(db, schema, archiver):
    name = make(db, schema, "events", [-4, -3, -2, -1, 0])
    before = content(db, name)
    register(archiver, name)
    archiver.run(name)
    assert content(db, name) == before
    assert cutoff(db, schema, "events").startswith(bound(db, -1))
    hot = f'"{schema}"."_events"'
    assert len(partitions(db, hot)) == 3, "last month, this one, and the one made ahead"
    assert db.execute(f"SELECT count(*) FROM {hot}").fetchone() == (400,)
    assert left_overs(db, schema) == []
    again = archiver.run(name)
    assert "exported" not in again.stderr
    assert content(db, name) == before
    fill(db, hot, 1, 5)
    assert len(content(db, name)) == len(before) + 5


@pytest.mark.parametrize("table", ["Quoted Name", "dotted.name", "x" * 63, "select", 'qu"ote', "año"])
def test_names(db, schema, archiver, table):
    if '"' in table:
        name = f'"{schema}"."{table.replace(chr(34), chr(34) * 2)}"'
        db.execute(f"CREATE TABLE {name} ({COLUMNS}) PARTITION BY RANGE (ts)")
        db.execute(f"CREATE TABLE {schema}.p PARTITION OF {name} FOR VALUES FROM ('{bound(db, -3)}') TO ('{bound(db, -2)}')")
        fill(db, name, -3, 50)
    else:
        name = make(db, schema, table, [-3], rows=50)
    before = content(db, name)
    register(archiver, name)
    archiver.run(name)
    assert content(db, name) == before
    assert cutoff(db, schema, table).startswith(bound(db, -2))
    archiver.run(name)
    db.execute("SET client_min_messages = warning")
    db.execute("SELECT coldfront.drop_iceberg_table(%s, %s, true)", [schema, table])
    assert db.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,), "the hot table has its name back"


def test_an_empty_partition(db, schema, archiver):
    name = make(db, schema, "t", [-3, -2], rows=0)
    register(archiver, name)
    archiver.run(name)
    assert cutoff(db, schema, "t").startswith(bound(db, -1))
    assert content(db, name) == []


REFUSED = {
    "a DEFAULT partition": ("CREATE TABLE {s}.rest PARTITION OF {t} DEFAULT", ["rest", "DEFAULT"]),
    "an unlogged partition": ("ALTER TABLE {s}.p99_t SET UNLOGGED", ["p99_t", "unlogged"]),
    "a foreign key to it": (
        "ALTER TABLE {t} ADD PRIMARY KEY (id, ts); CREATE TABLE {s}.child (id bigint, ts timestamptz,"
        " CONSTRAINT child_fk FOREIGN KEY (id, ts) REFERENCES {t})",
        ["child_fk"],
    ),
    "a foreign key of it": (
        "CREATE TABLE {s}.parent (id bigint PRIMARY KEY); INSERT INTO {s}.parent SELECT DISTINCT id FROM {t};"
        " ALTER TABLE {t} ADD CONSTRAINT its_fk FOREIGN KEY (id) REFERENCES {s}.parent",
        ["its_fk"],
    ),
    "a policy": ("CREATE POLICY only_mine ON {t} USING (true)", ["only_mine"]),
    "row security": ("ALTER TABLE {t} ENABLE ROW LEVEL SECURITY", ["security"]),
    "a rule": ("CREATE RULE no_way AS ON DELETE TO {t} DO INSTEAD NOTHING", ["no_way"]),
    "a trigger": (
        "CREATE FUNCTION {s}.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
        " CREATE TRIGGER my_trigger BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION {s}.f()",
        ["my_trigger"],
    ),
    "a materialized view": ("CREATE MATERIALIZED VIEW {s}.mv AS SELECT count(*) FROM {t}", ["mv"]),
    "its row type in use": ("CREATE TABLE {s}.holder (r {t})", ["row type", "holder"]),
    "an unsupported type": ("ALTER TABLE {t} ADD COLUMN a inet", ['"a"', "inet"]),
    "a domain": ("CREATE DOMAIN {s}.dom AS text; ALTER TABLE {t} ADD COLUMN a {s}.dom", ['"a"']),
    "an unbounded numeric": ("ALTER TABLE {t} ADD COLUMN a numeric", ['"a"', "numeric"]),
    "a virtual column": ("ALTER TABLE {t} ADD COLUMN g bigint GENERATED ALWAYS AS (id + 1) VIRTUAL", ["g", "virtual"]),
    "a reserved column name": ("ALTER TABLE {t} ADD COLUMN filename text", ["filename"]),
    "columns that differ in case": ('ALTER TABLE {t} ADD COLUMN "V" text', ["case"]),
    "a unique index beside the key": ("CREATE UNIQUE INDEX only_id ON {s}.p99_t (id)", ["only_id", "ts"]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_registration_refuses_by_name(db, schema, archiver, what):
    name = make(db, schema, "t", [-3], rows=3)
    sql, words = REFUSED[what]
    db.execute(sql.format(s=schema, t=name))
    done = register(archiver, name, code=1)
    for word in words:
        assert word in done.stderr, done.stderr
    assert db.execute("SELECT count(*) FROM coldfront.partition_config WHERE schema_name = %s", [schema]).fetchone() == (0,)


def test_registration_refuses_lifecycles_that_do_not_fit(db, schema, archiver):
    name = make(db, schema, "t", [-3], rows=3)
    for options, word in [
        (("--hot-period", "2 months", "--retention-period", "2 months"), "not longer"),
        (("--hot-period", "2 months", "--expiration", "detach"), "detach"),
        (("--hot-period", "2 months", "--id-scheme", "snowflake"), "bigint"),
        (("--hot-period", "2 months", "--sub-partition-source", f"{schema}.t.id"), "LIST"),
    ]:
        assert word in register(archiver, name, *options, code=1).stderr
    db.execute(f"CREATE TABLE {schema}.plain (id int); CREATE TABLE {schema}.h (id int) PARTITION BY HASH (id)")
    assert "not a partitioned table" in register(archiver, f"{schema}.plain", code=1).stderr
    assert "RANGE" in register(archiver, f"{schema}.h", code=1).stderr
    assert "does not exist" in register(archiver, f"{schema}.nosuch", code=1).stderr
    register(archiver, name)
    assert "already" in register(archiver, name, code=2).stderr
    other = make(db, schema, "T", [-3], rows=3)
    assert "only in case" in register(archiver, other, code=1).stderr


def test_what_depends_on_the_table_comes_along(db, schema, archiver):
    name = make(db, schema, "t", [-3, 0], "id bigint NOT NULL, ts timestamptz NOT NULL, v text DEFAULT 'none', d float8, n numeric(12,3), s serial", rows=20)
    role = f"{schema}_reader"
    db.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT (id), UPDATE (v) ON {name} TO {role}")
    db.execute(f"CREATE ROLE {role}_owner; GRANT CREATE ON SCHEMA {schema} TO {role}_owner; ALTER TABLE {name} OWNER TO {role}_owner")
    db.execute(f"COMMENT ON TABLE {name} IS 'all of it'; COMMENT ON COLUMN {name}.v IS 'a word'")
    db.execute(f"CREATE VIEW {schema}.counts WITH (security_barrier) AS SELECT count(*) AS n, max(ts) AS m FROM {name}")
    db.execute(f"CREATE FUNCTION {schema}.total() RETURNS bigint STABLE BEGIN ATOMIC SELECT count(*) FROM {name}; END")
    before = db.execute(f"SELECT * FROM {schema}.counts").fetchone()
    register(archiver, name)
    archiver.run(name)
    assert db.execute(f"SELECT * FROM {schema}.counts").fetchone() == before
    assert db.execute(f"SELECT {schema}.total()").fetchone() == (40,)
    assert db.execute("SELECT reloptions FROM pg_class WHERE oid = %s::regclass", [f"{schema}.counts"]).fetchone()[0]
    oid = db.execute("SELECT %s::regclass::oid", [name]).fetchone()[0]
    assert db.execute("SELECT obj_description(%s, 'pg_class'), col_description(%s, 3)", [oid, oid]).fetchone() == ("all of it", "a word")
    assert db.execute("SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = %s", [oid]).fetchone() == (f"{role}_owner",)
    db.execute(f"SET ROLE {role}")
    assert db.execute(f"SELECT count(id) FROM {name}").fetchone() == (40,)
    fails(db, f"SELECT n FROM {name}", "42501")
    db.execute("RESET ROLE")
    db.execute(f"INSERT INTO {name} (id, ts) VALUES (1000, now())")
    assert db.execute(f"SELECT v, s FROM {name} WHERE id = 1000").fetchone() == ("none", 41)


def test_a_dependent_view_that_needs_the_key_is_refused_by_name(db, schema, archiver):
    name = make(db, schema, "t", [-3], rows=3)
    db.execute(f"ALTER TABLE {name} ADD PRIMARY KEY (id, ts)")
    db.execute(f"CREATE VIEW {schema}.by_key AS SELECT id, ts, v FROM {name} GROUP BY id, ts")
    register(archiver, name)
    done = archiver.run(name, code=1)
    assert "by_key" in done.stderr
    assert db.execute("SELECT relkind FROM pg_class WHERE oid = %s::regclass", [name]).fetchone() == ("p",)
    db.execute(f"DROP VIEW {schema}.by_key")
    archiver.run(name)
    assert len(content(db, name)) == 3


def test_generated_and_identity_columns(db, schema, archiver):
    columns = "id bigint GENERATED ALWAYS AS IDENTITY, ts timestamptz NOT NULL, v text, d float8, n numeric(12,3), g text GENERATED ALWAYS AS (upper(v)) STORED"
    name = f"{schema}.t"
    db.execute(f"CREATE TABLE {name} ({columns}, CHECK (n > -1)) PARTITION BY RANGE (ts)")
    db.execute(f"CREATE TABLE {schema}.p PARTITION OF {name} FOR VALUES FROM ('{bound(db, -3)}') TO ('{bound(db, -2)}')")
    db.execute(f"INSERT INTO {name} (ts, v, n) SELECT {month(-3)}, 'v' || i, i FROM generate_series(1, 30) AS i")
    sql = f"SELECT id, g, n FROM {name} ORDER BY id"
    before = db.execute(sql).fetchall()
    register(archiver, name)
    archiver.run(name)
    assert db.execute(sql).fetchall() == before
    db.execute(f"INSERT INTO {name} (ts, v, n) VALUES (now(), 'new', 1)")
    assert db.execute(f"SELECT id, g FROM {name} WHERE v = 'new'").fetchone() == (31, "NEW")


def test_keys_of_other_types_and_odd_bounds(db, schema, archiver):
    for key in ("timestamp", "date"):
        name = f"{schema}.t_{key}"
        db.execute(f"CREATE TABLE {name} (id bigint, ts {key} NOT NULL, v text, d float8, n numeric(12,3)) PARTITION BY RANGE (ts)")
        db.execute(f"CREATE TABLE {name}_old PARTITION OF {name} FOR VALUES FROM (MINVALUE) TO ('0044-03-15 BC')")
        db.execute(f"CREATE TABLE {name}_1 PARTITION OF {name} FOR VALUES FROM ('0044-03-15 BC') TO ('{bound(db, -2)}')")
        db.execute(f"CREATE TABLE {name}_9 PARTITION OF {name} FOR VALUES FROM ('{bound(db, 5)}') TO ('infinity')")
        fill(db, name, -3, 40)
        before = content(db, name)
        register(archiver, name)
        archiver.run(name)
        assert content(db, name) == before
        assert cutoff(db, schema, f"t_{key}").startswith(bound(db, -2))


def test_rows_that_iceberg_cannot_hold_stay_and_are_named(db, schema, archiver):
    name = f"{schema}.t"
    db.execute(f"CREATE TABLE {name} ({COLUMNS}) PARTITION BY RANGE (ts)")
    db.execute(f"CREATE TABLE {name}_old PARTITION OF {name} FOR VALUES FROM (MINVALUE) TO ('{bound(db, -2)}')")
    db.execute(f"INSERT INTO {name} VALUES (1, '-infinity', 'always'), (2, '2020-01-01', 'once')")
    good = make(db, schema, "good", [-3], rows=10)
    register(archiver, name)
    register(archiver, good)
    done = archiver.call("run", code=None)
    assert done.returncode == 1 and "infinite" in done.stderr and '"ts"' in done.stderr, done.stderr
    assert [row[0] for row in db.execute(f"SELECT id FROM {name} ORDER BY id").fetchall()] == [1, 2]
    assert cutoff(db, schema, "good").startswith(bound(db, -2)), "the other table had its turn"
    db.execute(f"DELETE FROM {schema}._t WHERE id = 1")
    archiver.run(name)
    assert [row[0] for row in db.execute(f"SELECT id FROM {name}").fetchall()] == [2]


def test_changes_during_an_export_are_replayed(db, schema, archiver):
    """Rows without a key, equal rows, rows that move in and out, NULLs, a TRUNCATE."""
    name = make(db, schema, "t", [-3, -2, 0], rows=300)
    hot = f"{schema}._t"
    register(archiver, name)
    for point in ("exported", "verified", "locked"):
        register_again = content(db, name)
        assert register_again
        paused = archiver.pause_at(point, "run", "--table", name)
        if point != "locked":
            db.execute(f"INSERT INTO {hot} SELECT * FROM {hot} WHERE id < 20 AND ts < {month(-1)}")
            db.execute(f"DELETE FROM {hot} WHERE ctid IN (SELECT ctid FROM {hot} WHERE id < 10 LIMIT 5)")
            db.execute(f"UPDATE {hot} SET d = NULL, v = 'changed' WHERE id BETWEEN 30 AND 50")
            db.execute(f"UPDATE {hot} SET ts = ts + ({month(0)} - {month(-3)}) WHERE id = 60 AND ts < {month(-1)}")
        before = content(db, name) if point != "locked" else None
        paused.kill()
        if before is not None:
            assert content(db, name) == before
    before = content(db, name)
    archiver.run(name)
    assert content(db, name) == before
    assert left_overs(db, schema) == []


@contextmanager
def held_before_its_commit(db, stack, schema, archiver, name):
    """A pass over an already tiered table that has taken its snapshot and waits for the claim, which goes in the end."""
    register(archiver, name, "--hot-period", "3 months")
    archiver.run(name)
    archiver.call("set", "--table", name, "--hot-period", "1 month")
    with stack.connect() as holder:
        holder.execute("BEGIN")
        holder.execute("SELECT coldfront._claim_iceberg_external(iceberg_table) FROM coldfront.tiered_views WHERE schema_name = %s", [schema])
        run = subprocess.Popen(archiver.command("run", "--table", name), stderr=subprocess.PIPE, text=True, env=archiver.environment())
        wait_until("the export to wait for the claim", lambda: waiting_for_claims(db), 60)
        yield run
        holder.execute("ROLLBACK")


def waiting_for_claims(db) -> int:
    return db.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone()[0]


def test_changes_after_the_snapshot_of_an_export_are_replayed(db, stack, schema, archiver):
    """What the lake stores in another form than the heap has to be found again: zeros, padding, JSON."""
    columns = f"{COLUMNS}, c char(5) DEFAULT 'c', j jsonb DEFAULT '{{\"b\":[1.0],\"a\":null}}', f real DEFAULT '-0'"
    name = make(db, schema, "t", [-4, -3, 0], columns, rows=100)
    whole = f"SELECT id, ts, v, (d + 0)::text, n, c, j, f FROM {name} ORDER BY 1, 2"
    with held_before_its_commit(db, stack, schema, archiver, name) as run:
        month_3 = f"ts < {month(-2)} AND ts >= {month(-3)}"
        assert db.execute(f"DELETE FROM {schema}._t WHERE id BETWEEN 10 AND 19 AND {month_3}").rowcount == 10
        assert db.execute(f"UPDATE {schema}._t SET v = 'changed' WHERE id BETWEEN 20 AND 29 AND {month_3}").rowcount == 10
        db.execute(f"INSERT INTO {schema}._t (id, ts, c, j, f) VALUES (1000, {month(-3)}, '', 'null', '-0')")
        before = db.execute(whole).fetchall()
    said = run.communicate(timeout=120)[1]
    assert run.returncode == 0 and '"changes":31' in said, said
    assert db.execute(whole).fetchall() == before and left_overs(db, schema) == []


def test_what_a_killed_archiver_waits_for_in_the_server_ends(db, stack, schema, archiver):
    name = make(db, schema, "t", [-4, -3], rows=10)
    with held_before_its_commit(db, stack, schema, archiver, name) as run:
        run.kill()
        run.communicate()
        wait_until("its session to end", lambda: not waiting_for_claims(db), 30)
    archiver.run(name)
    assert len(content(db, name)) == 20


def test_a_truncate_during_an_export(db, schema, archiver):
    name = make(db, schema, "t", [-3], rows=300)
    register(archiver, name)
    paused = archiver.pause_at("exported", "run", "--table", name)
    db.execute(f"TRUNCATE {schema}.p99_t")
    paused.kill()
    archiver.run(name)
    assert content(db, name) == []


def test_two_archivers_do_no_harm(db, schema, archiver):
    name = make(db, schema, "t", [-3], rows=50)
    before = content(db, name)
    register(archiver, name)
    paused = archiver.pause_at("exported", "run", "--table", name)
    done = archiver.run(name)
    assert "another archiver works on it" in done.stderr
    paused.kill()
    archiver.run(name)
    assert content(db, name) == before


@pytest.mark.parametrize("expiration", ["drop", "detach"])
def test_partitions_only_with_no_engine_and_no_catalog(db, stack, schema, tmp_path, expiration):
    nothing = "-c%20coldfront.lakekeeper_endpoint=%20-c%20coldfront.warehouse="
    archiver = Archiver(stack, tmp_path, nothing)
    name = make(db, schema, "t", [-5, -4, -1], rows=5)
    register(archiver, name, "--retention-period", "2 months", "--premake", "2", "--expiration", expiration)
    archiver.run(name)
    left = db.execute("SELECT relname FROM pg_class WHERE relname IN ('p99_t', 'p98_t') AND relnamespace = %s::regnamespace", [schema]).fetchall()
    assert len(left) == (2 if expiration == "detach" else 0)
    assert len(partitions(db, name)) == 4, "last month, this one, two ahead"
    assert len(content(db, name)) == 5


def test_premake_goes_by_range_and_heals(db, schema, archiver):
    name = make(db, schema, "t", [-1], rows=0)
    # Takes a name that premake would use, and half of the present month.
    half = f"({month(0)} + interval '10 days')"
    taken = db.execute(f"SELECT 't_p' || to_char({month(0)}, 'YYYYMM')").fetchone()[0]
    low, high = db.execute(f"SELECT {month(0)}::text, {half}::text").fetchone()
    db.execute(f"CREATE TABLE {schema}.{taken} (id int)")
    db.execute(f"CREATE TABLE {schema}.first_days PARTITION OF {name} FOR VALUES FROM ('{low}') TO ('{high}')")
    register(archiver, name, "--premake", "3")
    archiver.run(name)
    assert len(partitions(db, name)) == 2 + 1 + 3
    db.execute(f"INSERT INTO {name} (id, ts) SELECT 1, {month(0)} + i * interval '1 day' FROM generate_series(0, 100) AS i")
    assert "made" not in archiver.run(name).stderr


@pytest.mark.parametrize("period, unit", [("weekly", "week"), ("daily", "day"), ("hourly", "hour")])
def test_other_periods(db, schema, archiver, period, unit):
    name = f"{schema}.t"
    db.execute(f"CREATE TABLE {name} ({COLUMNS}) PARTITION BY RANGE (ts)")
    register(archiver, name, "--period", period, "--hot-period", f"2 {unit}s", "--premake", "2")
    for back in (4, 3, 2):
        begin = f"date_trunc('{unit}', now()) - {back} * interval '1 {unit}'"
        low, high = db.execute(f"SELECT ({begin})::text, ({begin} + interval '1 {unit}')::text").fetchone()
        db.execute(f"CREATE TABLE {schema}.b{back} PARTITION OF {name} FOR VALUES FROM ('{low}') TO ('{high}')")
        db.execute(f"INSERT INTO {name} SELECT i, {begin} + i * interval '1 second', 'x' FROM generate_series(1, 20) AS i")
    before = content(db, name)
    archiver.run(name)
    assert content(db, name) == before
    assert db.execute(f"SELECT count(*) FROM {schema}._t").fetchone()[0] in (0, 20)
    assert len(partitions(db, f"{schema}._t")) in (3, 4)


@pytest.mark.parametrize("scheme, kind", [("snowflake", "bigint"), ("uuidv7", "uuid")])
def test_time_ordered_ids(db, schema, archiver, scheme, kind):
    name = f"{schema}.t"
    db.execute(f"CREATE TABLE {name} (id {kind} PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    key = f"coldfront._time_to_key({{}}, '{kind}', '2023-01-01 00:00:00+00')"
    for back in (3, 2, 0):
        low, high = (db.execute(f"SELECT {key.format(month(-back + add) + '::timestamptz')}").fetchone()[0] for add in (0, 1))
        db.execute(f"CREATE TABLE {schema}.p{back} PARTITION OF {name} FOR VALUES FROM ('{low}') TO ('{high}')")
        stamp = f"({month(-back)} + i * interval '1 hour')::timestamptz"
        db.execute(f"INSERT INTO {name} SELECT {key.format(stamp)}::{kind}, 'v' || i FROM generate_series(1, 100) AS i")
    before = db.execute(f"SELECT * FROM {name} ORDER BY id").fetchall()
    assert "scheme" in register(archiver, name, "--hot-period", "1 month", code=1).stderr
    register(archiver, name, "--hot-period", "1 month", "--id-scheme", scheme, "--premake", "1")
    archiver.run(name)
    assert db.execute(f"SELECT * FROM {name} ORDER BY id").fetchall() == before
    assert db.execute(f"SELECT count(*) FROM {schema}._t").fetchone() == (100,)
    assert bound(db, -1) in archiver.call("status").stdout or True
    db.execute(f"INSERT INTO {schema}._t SELECT {key.format('now()')}::{kind}, 'now'")


def test_a_two_level_tree(db, schema, archiver):
    name = f"{schema}.t"
    db.execute(f"CREATE TABLE {schema}.regions (code text); INSERT INTO {schema}.regions VALUES ('eu'), ('us'), ('a, b')")
    db.execute(f"CREATE TABLE {name} (region text NOT NULL, {COLUMNS}) PARTITION BY LIST (region)")
    db.execute(f"CREATE TABLE {schema}.eu PARTITION OF {name} FOR VALUES IN ('eu') PARTITION BY RANGE (ts)")
    db.execute(f"CREATE TABLE {schema}.us PARTITION OF {name} FOR VALUES IN ('us') PARTITION BY RANGE (ts)")
    # One value in months, the other with a partition of two months: the cutoff passes where both have a bound.
    for child, low, high in [("eu", -4, -3), ("eu", -3, -2), ("eu", -2, -1), ("us", -4, -2), ("us", -2, 0)]:
        db.execute(f"CREATE TABLE {schema}.{child}{-low} PARTITION OF {schema}.{child} FOR VALUES FROM ('{bound(db, low)}') TO ('{bound(db, high)}')")
        db.execute(f"INSERT INTO {name} SELECT '{child}', i, {month(low)} + i * interval '1 hour', 'x' FROM generate_series(1, 50) AS i")
    sql = f"SELECT * FROM {name} ORDER BY region, ts"
    before = db.execute(sql).fetchall()
    register(archiver, name, "--hot-period", "1 month", "--premake", "1", "--sub-partition-source", f"{schema}.regions.code")
    archiver.run(name)
    assert db.execute(sql).fetchall() == before
    assert cutoff(db, schema, "t").startswith(bound(db, -2))
    assert db.execute(f"SELECT count(*) FROM {schema}._t").fetchone() == (100,)
    db.execute(f"INSERT INTO {schema}._t (region, id, ts) VALUES ('a, b', 1, now())")
    archiver.call("restore", "--table", name, "--from", bound(db, -3))
    assert db.execute(f"SELECT * FROM {name} WHERE region <> 'a, b' ORDER BY region, ts").fetchall() == before
    assert cutoff(db, schema, "t").startswith(bound(db, -3))


def test_retention_deletes_cold_rows(db, schema, archiver):
    name = make(db, schema, "t", [-6, -5, -3, -2, 0], rows=20)
    register(archiver, name, "--hot-period", "1 month")
    archiver.run(name)
    assert len(content(db, name)) == 100
    archiver.call("set", "--table", name, "--retention-period", "4 months")
    archiver.run(name)
    assert len(content(db, name)) == 60
    assert db.execute(f"SELECT min(ts) >= {month(-4)} FROM {name}").fetchone() == (True,)


def test_restore(db, schema, archiver):
    name = make(db, schema, "t", [-5, -4, -3, 0], rows=50)
    before = content(db, name)
    register(archiver, name)
    archiver.run(name)
    early = archiver.call("restore", "--table", name, "--from", bound(db, -4), "--to", bound(db, -3), code=2)
    assert "no gap" in early.stderr and bound(db, -2) in early.stderr
    archiver.call("restore", "--table", name, "--from", bound(db, -4))
    assert content(db, name) == before
    assert cutoff(db, schema, "t").startswith(bound(db, -4))
    assert db.execute(f"SELECT count(*) FROM {schema}._t").fetchone() == (150,)
    foreign = db.execute("SELECT foreign_table FROM coldfront.tiered_views WHERE schema_name = %s", [schema]).fetchone()[0]
    assert db.execute(f'SELECT count(*) FROM coldfront_cold."{foreign}"').fetchone() == (50,)
    archiver.run(name)
    assert content(db, name) == before
    assert cutoff(db, schema, "t").startswith(bound(db, -2))


def test_rows_where_nobody_reads_them_are_kept_and_told(db, schema, archiver):
    name = make(db, schema, "t", [-3, 0], rows=20)
    register(archiver, name)
    paused = archiver.pause_at("cut_over", "run", "--table", name)
    db.execute(f"INSERT INTO {schema}.p99_t (id, ts) VALUES (777, {month(-3)})")
    paused.kill()
    assert len(content(db, name)) == 40
    done = archiver.run(name, code=1)
    assert "p99_t" in done.stderr and "kept" in done.stderr
    assert db.execute(f"SELECT count(*) FROM {schema}.p99_t").fetchone() == (21,)
    capture = re.search(r"coldfront_archive\.capture_\d+", done.stderr).group(0)
    db.execute(f"DELETE FROM {capture}")
    archiver.run(name)
    assert db.execute(f"SELECT to_regclass('{schema}.p99_t')").fetchone() == (None,)
    # Below the cutoff, attached by hand.
    db.execute(f"CREATE TABLE {schema}.late PARTITION OF {schema}._t FOR VALUES FROM ('{bound(db, -3)}') TO ('{bound(db, -2)}')")
    db.execute(f"INSERT INTO {schema}._t (id, ts) VALUES (778, {month(-3)})")
    done = archiver.run(name, code=1)
    assert "late" in done.stderr and "below the cutoff" in done.stderr
    assert db.execute(f"SELECT count(*) FROM {schema}.late").fetchone() == (1,)


def test_dropping_the_cold_tier_gives_the_name_back(db, schema, archiver):
    name = make(db, schema, "t", [-3, 0], rows=20)
    db.execute(f"CREATE VIEW {schema}.counts AS SELECT count(*) AS n FROM {name}")
    register(archiver, name)
    archiver.run(name)
    role = f"{schema}_late"
    db.execute(f"CREATE ROLE {role}; GRANT SELECT ON {name} TO {role}; COMMENT ON VIEW {name} IS 'later'")
    db.execute("SELECT coldfront.drop_iceberg_table(%s, 't', true)", [schema])
    assert db.execute("SELECT relkind FROM pg_class WHERE oid = %s::regclass", [name]).fetchone() == ("p",)
    assert db.execute(f"SELECT n FROM {schema}.counts").fetchone() == (20,)
    assert db.execute("SELECT has_table_privilege(%s, %s, 'SELECT'), obj_description(%s::regclass)", [role, name, name]).fetchone() == (True, "later")
    assert db.execute("SELECT count(*) FROM coldfront.archive_watermark WHERE schema_name = %s", [schema]).fetchone() == (0,)
    register(archiver, name)
    archiver.run(name)
    assert db.execute(f"SELECT n FROM {schema}.counts").fetchone() == (20,)


def test_a_long_reader_delays_the_cutover_and_writers_do_not_queue(db, stack, schema, archiver):
    name = make(db, schema, "t", [-3, 0], rows=20)
    register(archiver, name)
    reader = stack.connect(autocommit=False)
    reader.execute(f"SELECT count(*) FROM {name}")
    env = archiver.environment()
    process = subprocess.Popen(archiver.command("run", "--table", name), env=env, stderr=subprocess.PIPE, text=True)
    try:
        process.wait(2)
        raise AssertionError(process.stderr.read())
    except subprocess.TimeoutExpired:
        pass
    db.execute("SET statement_timeout = '1s'")
    db.execute(f"INSERT INTO {name} (id, ts) VALUES (500, now())")
    db.execute(f"SELECT count(*) FROM {name}")
    reader.commit()
    assert process.wait(60) == 0, process.stderr.read()
    assert len(content(db, name)) == 41


def test_the_command_line(db, schema, archiver, tmp_path):
    name = make(db, schema, "t", [-3, 0], rows=5)
    printed = archiver.call("register", "--table", name, "--hot-period", "3 months", "--print-sql").stdout
    assert printed.startswith("INSERT INTO coldfront.partition_config")
    db.execute(printed)
    listed = archiver.call("list").stdout
    assert f"{schema}.t" in listed and "3 mons" in listed
    assert "UPDATE" in archiver.call("set", "--table", name, "--premake", "2", "--print-sql").stdout
    archiver.call("set", "--table", name, "--premake", "2")
    yaml = archiver.call("export").stdout
    assert "premake: 2" in yaml
    assert "ON CONFLICT" in archiver.call("export", "--format", "sql").stdout
    archiver.call("remove", "--table", name)
    file = tmp_path / "lifecycles.yaml"
    file.write_text(yaml)
    assert "INSERT" in archiver.call("import", str(file), "--print-sql").stdout
    archiver.call("import", str(file))
    assert "premake: 2" in archiver.call("export").stdout
    archiver.call("set", "--table", name, "--hot-period", "1 month")
    plan = archiver.call("run", "--table", name, "--dry-run").stdout
    assert "would archive up to " + bound(db, -2) in plan and "would make" in plan
    assert db.execute("SELECT relkind FROM pg_class WHERE oid = %s::regclass", [name]).fetchone() == ("p",)
    printed = archiver.call("run", "--table", name, "--print-sql").stdout
    assert "_attempt_pieces" in printed and "_attempt_verify" in printed
    assert "_restore" in archiver.call("restore", "--table", name, "--from", "2020-01-01", "--print-sql").stdout
    assert "1" in archiver.call("status").stdout
    assert "not registered" in archiver.call("remove", "--table", f"{schema}.nosuch", code=2).stderr
    assert "not a table name" in archiver.call("run", "--table", "nodots", code=2).stderr
    nowhere = {"COLDFRONT_ARCHIVER_DSN": "postgres://nobody@127.0.0.1:1/x"}
    assert "cannot connect" in archiver.call("list", code=3, **nowhere).stderr
    config = tmp_path / "coldfront.toml"
    config.write_text(f'[archiver]\ndsn = "{archiver.dsn}"\n')
    environment = {key: value for key, value in archiver.environment().items() if key != "COLDFRONT_ARCHIVER_DSN"}
    done = subprocess.run(archiver.command("--config", str(config), "list"), capture_output=True, text=True, env=environment)
    assert f"{schema}.t" in done.stdout
    archiver.call("remove", "--table", name)


def test_serve(db, schema, archiver, tmp_path):
    name = make(db, schema, "t", [-3], rows=5)
    for argv, word in [(("--schedule", "never"), "cron"), (("--schedule", "* * * * * *", "--time-zone", "Mars"), "time zone"), ((), "schedule")]:
        assert word in archiver.call("serve", *argv, code=2).stderr
    register(archiver, name)
    port = free_port()
    log = open(tmp_path / "serve.log", "w")
    argv = ["--schedule", "* * * * * *", "--time-zone", "Europe/Prague", "--metrics-listen", f"127.0.0.1:{port}", "serve"]
    process = subprocess.Popen(archiver.command(*argv), env=archiver.environment(), stderr=log)
    try:
        wait_until("the table to be archived", lambda: (cutoff(db, schema, "t") or "").startswith(bound(db, -2)), 60)

        def counted() -> bool:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
            wanted = ["rows_total", "bytes_total", "phase_seconds", "lag_seconds", "last_success_timestamp_seconds"]
            return all(f"coldfront_archiver_{one}" in text and f'table="{schema}.t"' in text for one in wanted)

        wait_until("the metrics", counted, 30)
    finally:
        process.terminate()
    assert process.wait(30) == 0
    lines = [json.loads(line) for line in (tmp_path / "serve.log").read_text().splitlines()]
    assert lines[-1]["fields"]["message"] == "stopping"
    archiver.call("remove", "--table", name)
