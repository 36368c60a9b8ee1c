"""EXPLAIN of every statement in every form. The plain one runs nothing: no row is read, nothing is written, no lock taken,
and it works while the lake cannot be reached. ANALYZE runs the statement and tells what the engine delivered."""

from __future__ import annotations

import json
import xml.etree.ElementTree as xml

import psycopg
import pytest

import lake
from probe import create, kill_engine, left_over, wait_for_engine, within

pytestmark = pytest.mark.coldfront

READS = [
    "SELECT * FROM e.t", "SELECT id FROM e.t WHERE v = 'v7' AND id > 3", "SELECT count(*), sum(id), max(id) FROM e.t", "SELECT id FROM e.t ORDER BY id LIMIT 2",
    "SELECT v, count(*) FROM e.t GROUP BY v", "SELECT * FROM e.t JOIN e.u USING (id)", "SELECT * FROM e.t JOIN e.heap USING (id)",
    "SELECT id FROM e.t WHERE length(v || random()::text) > 3", "SELECT id FROM e.t WHERE id IN (SELECT id FROM e.u)",
    "WITH q AS (SELECT * FROM e.t) SELECT * FROM q UNION ALL SELECT * FROM e.u", "TABLE e.t", "SELECT x.id FROM e.t AS x, LATERAL (SELECT * FROM e.u WHERE u.id = x.id) AS y",
    "SELECT row_number() OVER (ORDER BY id) FROM e.t", "SELECT DISTINCT v FROM e.t", "SELECT id FROM e.t WHERE id = ANY ('{1,2}')",
]  # fmt: skip
WRITES = [
    "INSERT INTO e.t VALUES (1, 'x')", "INSERT INTO e.t SELECT * FROM e.u", "INSERT INTO e.t SELECT * FROM e.heap RETURNING id", "UPDATE e.t SET v = 'x' WHERE id = 1",
    "UPDATE e.t SET v = u.v FROM e.u WHERE u.id = t.id", "DELETE FROM e.t WHERE id = 1 RETURNING *", "DELETE FROM e.t USING e.u WHERE u.id = t.id",
    "WITH gone AS (DELETE FROM e.t RETURNING *) INSERT INTO e.u SELECT * FROM gone", "CREATE TABLE e.made AS SELECT * FROM e.t",
]  # fmt: skip
FORMS = [
    "", "(VERBOSE)", "(COSTS OFF)", "(FORMAT JSON)", "(FORMAT XML)", "(FORMAT YAML)", "(VERBOSE, SETTINGS, SUMMARY, MEMORY, FORMAT JSON)",
]  # fmt: skip


@pytest.fixture(scope="module")
def pg(own_stack, gates):
    with own_stack.connect() as db:
        db.execute("CREATE SCHEMA e")
        create(db, "e", "t", "id bigint, v text")
        create(db, "e", "u", "id bigint, v text")
        db.execute("CREATE TABLE e.heap (id bigint, v text)")
        db.execute("INSERT INTO e.heap SELECT g, 'h' || g FROM generate_series(1, 10) AS g")
        db.execute("INSERT INTO e.t SELECT g, 'v' || g FROM generate_series(1, 1000) AS g")
        db.execute("INSERT INTO e.u SELECT g, 'u' || g FROM generate_series(1, 20) AS g")
    return own_stack


@pytest.fixture
def db(pg, gates):
    with pg.connect() as session:
        yield session
        gates.reset()


def plan(db: psycopg.Connection, statement: str, options: str = "") -> dict:
    """The plan as JSON."""
    ((found,),) = db.execute(f"EXPLAIN ({options}{', ' if options else ''}FORMAT JSON) {statement}").fetchall()
    return found[0]


def nodes(node: dict, key: str) -> list:
    """Every value of this key in the plan, outermost first."""
    found = [node[key]] if key in node else []
    for child in [node.get("Plan"), *node.get("Plans", [])]:
        if isinstance(child, dict):
            found += nodes(child, key)
    return found


# --- plain EXPLAIN


@pytest.mark.parametrize("form", FORMS)
def test_every_statement_in_every_form(db, form):
    for statement in READS + WRITES:
        if "FORMAT" not in form:
            lines = [line for (line,) in db.execute(f"EXPLAIN {form} {statement}")]
            assert any("Engine SQL" in line or "Engine Write" in line for line in lines), lines
            continue
        ((found,),) = db.execute(f"EXPLAIN {form} {statement}").fetchall()
        if "XML" in form:
            tags = {element.tag.split("}")[-1] for element in xml.fromstring(found).iter()}
            assert {"Engine-SQL", "Engine-Write"} & tags, found
        elif "JSON" in form:
            assert nodes(found[0], "Engine SQL") + nodes(found[0], "Engine Write"), json.dumps(found)
        else:
            assert "Engine SQL: " in found or "Engine Write: " in found, found


def test_plain_explain_runs_nothing(pg, gates, db):
    """Nothing is asked of the object store, nothing is in the catalog afterwards, and the writers' lock is not touched."""
    with pg.connect() as holder:
        holder.execute("BEGIN")
        holder.execute("INSERT INTO e.t VALUES (0, 'held')")
        holder.execute("INSERT INTO e.u VALUES (0, 'held')")
        before, asked = lake.objects("", pg.environment()), gates.store.pieces
        db.execute("SET lock_timeout = '100ms'")
        for statement in READS + WRITES:
            db.execute(f"EXPLAIN {statement}")
            db.execute(f"EXPLAIN (VERBOSE) {statement}")
        assert db.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()").fetchone() == (0,)
        assert gates.store.pieces == asked
        db.execute("SELECT v FROM e.u WHERE v > ''")
        assert gates.store.pieces > asked, "running it does ask"
        assert lake.objects("", pg.environment()) == before
        holder.execute("ROLLBACK")
    assert db.execute("SELECT count(*) FROM e.t").fetchone() == (1000,)
    assert left_over(pg) == []


def test_plain_explain_of_a_lake_that_is_away(pg, gates):
    """Estimates are guesses then; the plan is a plan."""
    gates.catalog.close()
    gates.store.close()
    try:
        with pg.connect() as db, within(10, "explaining without a lake"):
            for statement in (READS[0], READS[5], WRITES[0], WRITES[3]):
                found = plan(db, statement)
                assert nodes(found, "Engine SQL") + nodes(found, "Engine Write")
    finally:
        gates.reset()


def test_plain_explain_without_an_engine(pg, db):
    kill_engine(pg)
    db.execute("SET coldfront.engine_wait_ms = 0")
    for statement in (READS[0], WRITES[0], WRITES[3]):
        plan(db, statement)
    db.execute("RESET coldfront.engine_wait_ms")
    wait_for_engine(pg)
    assert db.execute("SELECT count(*) FROM e.t").fetchone() == (1000,)


def test_explain_in_a_transaction_that_wrote(db):
    db.execute("BEGIN")
    db.execute("DELETE FROM e.u")
    for statement in READS + WRITES:
        plan(db, statement)
    assert db.execute("SELECT count(*) FROM e.u").fetchone() == (0,)
    db.execute("ROLLBACK")
    assert db.execute("SELECT count(*) FROM e.u").fetchone() == (20,)


# --- what it says


def test_what_is_shipped_and_what_stays(db):
    (shipped,) = nodes(plan(db, "SELECT id FROM e.t WHERE id > 3"), "Engine SQL")
    assert '"id" > ' in shipped and '"v"' not in shipped, shipped
    found = plan(db, "SELECT id FROM e.t WHERE id > 3 AND length(v || random()::text) > 3")
    (shipped,), (stayed,) = nodes(found, "Engine SQL"), nodes(found, "Filter")
    assert '"id" > ' in shipped and "random" not in shipped and "random" in stayed, (shipped, stayed)
    (counted,) = nodes(plan(db, "SELECT count(*) FROM e.t WHERE id < 10"), "Engine SQL")
    assert "count(" in counted.lower(), counted
    (limited,) = nodes(plan(db, "SELECT id FROM e.t LIMIT 3"), "Engine SQL")
    assert "LIMIT 3" in limited, limited


def test_estimates_come_from_the_lake(db):
    assert plan(db, "SELECT * FROM e.t")["Plan"]["Plan Rows"] == 1000
    assert plan(db, "SELECT * FROM e.u")["Plan"]["Plan Rows"] == 20
    assert plan(db, "SELECT * FROM e.t WHERE id = 1")["Plan"]["Plan Rows"] < 1000


def test_writes_are_named(db):
    assert nodes(plan(db, "INSERT INTO e.t SELECT * FROM e.u"), "Engine Write") == ['INSERT INTO "ice"."e"."t"']
    assert nodes(plan(db, "UPDATE e.t SET v = ''"), "Engine Write") == ['UPDATE "ice"."e"."t"']
    assert nodes(plan(db, "DELETE FROM e.t"), "Engine Write") == ['DELETE FROM "ice"."e"."t"']


def test_parameters(db):
    generic = plan(db, "SELECT v FROM e.t WHERE id = $1", "GENERIC_PLAN")
    assert "$1" in nodes(generic, "Engine SQL")[0]
    db.execute("SET plan_cache_mode = force_generic_plan")
    db.execute("PREPARE q (bigint) AS SELECT v FROM e.t WHERE id = $1")
    assert "$1" in nodes(plan(db, "EXECUTE q (7)"), "Engine SQL")[0]
    assert nodes(plan(db, "EXECUTE q (7)", "ANALYZE"), "Engine Rows") == [1]
    db.execute("SET plan_cache_mode = force_custom_plan")
    assert "$1" not in nodes(plan(db, "EXECUTE q (7)"), "Engine SQL")[0]
    db.execute("DEALLOCATE q")


# --- ANALYZE


def test_analyze_tells_what_was_delivered(db):
    found = plan(db, "SELECT * FROM e.t WHERE id <= 100", "ANALYZE, VERBOSE, BUFFERS")
    assert found["Plan"]["Actual Rows"] == 100
    assert nodes(found, "Engine Rows") == [100] and nodes(found, "Engine Bytes")[0] > 100
    found = plan(db, "SELECT count(*) FROM e.t", "ANALYZE")
    assert nodes(found, "Engine Rows") == [1], "the aggregate is the engine's"
    found = plan(db, "SELECT id FROM e.t WHERE length(v || random()::text) < 0", "ANALYZE")
    assert nodes(found, "Engine Rows") == [1000] and nodes(found, "Rows Removed by Filter") == [1000]


@pytest.mark.parametrize("form", ["ANALYZE", "ANALYZE, TIMING OFF, SUMMARY OFF", "ANALYZE, VERBOSE, BUFFERS, WAL, SERIALIZE, SETTINGS"])
def test_analyze_of_every_statement(db, form):
    """Reads as they are; writes in a transaction that is rolled back, and they have really happened in it."""
    for statement in READS:
        assert nodes(plan(db, statement, form), "Engine Rows"), statement
        db.execute(f"EXPLAIN ({form}) {statement}")
    for statement in WRITES:
        db.execute("BEGIN")
        try:
            plan(db, statement, form.replace(", SERIALIZE", ""))
        finally:
            db.execute("ROLLBACK")
    assert db.execute("SELECT count(*) FROM e.t").fetchone() == (1000,)


def test_analyze_writes(db):
    plan(db, "INSERT INTO e.u VALUES (99, 'explained')", "ANALYZE")
    assert db.execute("SELECT v FROM e.u WHERE id = 99").fetchall() == [("explained",)]
    found = plan(db, "UPDATE e.u SET v = v || '!' WHERE id >= 99", "ANALYZE")
    assert nodes(found, "Engine Rows") == [1]
    assert db.execute("SELECT v FROM e.u WHERE id = 99").fetchall() == [("explained!",)]
    plan(db, "DELETE FROM e.u WHERE id = 99", "ANALYZE")
    assert db.execute("SELECT count(*) FROM e.u").fetchone() == (20,)


def test_analyze_of_a_scan_that_is_not_needed_asks_nothing(db):
    found = plan(db, "SELECT * FROM e.t WHERE false", "ANALYZE")
    assert nodes(found, "Engine Rows") == []
    found = plan(db, "SELECT * FROM e.heap AS h JOIN e.t USING (id) WHERE h.id < 0", "ANALYZE")
    assert sum(nodes(found, "Engine Rows")) in (0, 1000)


def test_auto_explain(pg, db):
    """The same through a hook, for statements that did run, also nested ones."""
    db.execute("LOAD 'auto_explain'")
    db.execute("SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on; SET auto_explain.log_nested_statements = on")
    assert db.execute("SELECT max(id) FROM e.t WHERE id < 500").fetchone() == (499,)
    db.execute("DO $$ BEGIN PERFORM count(*) FROM e.u; END $$")
    log = pg.pg.log.read_text(errors="replace")
    assert "Engine SQL" in log and "Engine Rows" in log
