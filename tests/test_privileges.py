"""Who may do what: roles with grants on the relation only, roles with none, administrators; and what nobody may do to a
registered relation, because its rows live elsewhere. A dump holds everything but the secrets."""

from __future__ import annotations

import psycopg
import pytest

from probe import create, describe, fails

pytestmark = pytest.mark.coldfront
REFUSED, DENIED, READ_ONLY = "0A000", "42501", "25006"


@pytest.fixture(scope="module")
def pg(stack):
    with stack.connect() as db:
        db.execute("CREATE ROLE p_app LOGIN; CREATE ROLE p_reader LOGIN; CREATE ROLE p_nobody LOGIN")
        db.execute("CREATE ROLE p_admin LOGIN IN ROLE coldfront_admin; CREATE ROLE p_owner LOGIN IN ROLE coldfront_admin")
        db.execute("CREATE SCHEMA p; GRANT USAGE ON SCHEMA p TO p_app, p_reader; CREATE SCHEMA p_own AUTHORIZATION p_owner")
        create(db, "p", "t", "id bigint, v text")
        db.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON p.t TO p_app; GRANT SELECT (id), INSERT (id) ON p.t TO p_reader")
        db.execute("INSERT INTO p.t VALUES (1, 'one'), (2, 'two')")
    yield stack
    with stack.connect() as db:
        db.execute("SET client_min_messages = warning")
        for schema, table in db.execute("SELECT schema_name, table_name FROM coldfront.tiered_views WHERE schema_name ~ '^p($|_)'").fetchall():
            db.execute("SELECT coldfront.drop_iceberg_table(%s, %s, true)", [schema, table])
        db.execute("DROP SCHEMA p CASCADE; DROP SCHEMA IF EXISTS p_own, p_new, p_gone CASCADE")
        db.execute("DROP OWNED BY p_app, p_reader, p_nobody, p_admin, p_owner CASCADE")
        db.execute("DROP ROLE p_app, p_reader, p_nobody, p_admin, p_owner")


def session_of(role: str):
    @pytest.fixture
    def session(pg):
        with pg.connect(user=role) as db:
            yield db

    return session


app, reader, nobody, admin, owner = map(session_of, ("p_app", "p_reader", "p_nobody", "p_admin", "p_owner"))


@pytest.fixture
def superuser(pg):
    with pg.connect() as db:
        yield db


def rows(db: psycopg.Connection, relation: str = "p.t") -> list[tuple]:
    return db.execute(f"SELECT id, v FROM {relation} ORDER BY id").fetchall()


BEFORE = [(1, "one"), (2, "two")]


# --- grants on the relation are enough, and nothing less is


def test_grants_on_the_relation_are_all_it_takes(app):
    app.execute("BEGIN")
    assert rows(app) == BEFORE
    assert app.execute("INSERT INTO p.t VALUES (3, 'three') RETURNING id").fetchall() == [(3,)]
    assert app.execute("UPDATE p.t SET v = upper(v) WHERE id > 1").rowcount == 2
    assert app.execute("DELETE FROM p.t WHERE id = 1 RETURNING v").fetchall() == [("one",)]
    with app.cursor() as cursor, cursor.copy("COPY p.t FROM STDIN") as copy:
        copy.write("4\tfour\n")
    with app.cursor() as cursor, cursor.copy("COPY p.t (v) TO STDOUT") as copy:
        assert sorted(b"".join(copy).split()) == [b"THREE", b"TWO", b"four"]
    app.execute("PREPARE q (bigint) AS SELECT v FROM p.t WHERE id = $1")
    assert app.execute("EXECUTE q (4)").fetchall() == [("four",)]
    assert app.execute("SELECT count(*) FROM p.t").fetchone() == (3,)
    app.execute("ROLLBACK")
    assert rows(app) == BEFORE


def test_an_autocommitted_write_of_an_application(app, superuser):
    assert app.execute("INSERT INTO p.t VALUES (3, 'three')").rowcount == 1
    assert app.execute("DELETE FROM p.t WHERE id = 3").rowcount == 1
    assert rows(superuser) == BEFORE


@pytest.mark.parametrize("statement", [
    "SELECT * FROM p.t", "SELECT count(*) FROM p.t", "INSERT INTO p.t VALUES (3, '')", "UPDATE p.t SET v = ''", "DELETE FROM p.t",
    "COPY p.t TO STDOUT", "COPY p.t FROM STDIN", "EXPLAIN ANALYZE SELECT * FROM p.t", "TRUNCATE p.t", "DROP VIEW p.t", "ALTER VIEW p.t RENAME TO u",
])  # fmt: skip
def test_no_grants_no_access(nobody, pg, statement):
    with pg.connect() as db:
        db.execute("GRANT USAGE ON SCHEMA p TO p_nobody")
    fails(nobody, statement, REFUSED if statement.startswith("TRUNCATE") else DENIED)


def test_column_grants(reader):
    assert reader.execute("SELECT id FROM p.t ORDER BY id").fetchall() == [(1,), (2,)]
    for statement in ("SELECT v FROM p.t", "SELECT * FROM p.t", "INSERT INTO p.t VALUES (3, 'x')", "UPDATE p.t SET id = 1", "DELETE FROM p.t"):
        fails(reader, statement, DENIED)
    for statement in ("COPY p.t FROM STDIN", "COPY p.t TO STDOUT", "COPY p.t (id, v) TO STDOUT", "COPY p.t (v) FROM STDIN"):
        fails(reader, statement, DENIED)
    reader.execute("BEGIN")
    assert reader.execute("INSERT INTO p.t (id) VALUES (3)").rowcount == 1
    with reader.cursor() as cursor, cursor.copy("COPY p.t (id) FROM STDIN") as copy:
        copy.write("4\n")
    assert reader.execute("SELECT count(id) FROM p.t").fetchone() == (4,)
    reader.execute("ROLLBACK")


def test_a_revoked_grant_counts_at_once(pg, app, superuser):
    assert rows(app) == BEFORE
    superuser.execute("REVOKE INSERT ON p.t FROM p_app")
    fails(app, "INSERT INTO p.t VALUES (3, '')", DENIED)
    superuser.execute("GRANT INSERT ON p.t TO p_app")
    app.execute("BEGIN; INSERT INTO p.t VALUES (3, ''); ROLLBACK")


def test_an_application_cannot_copy_files(app):
    """COPY FROM runs as the owner of the relation, who may read files; the caller may not."""
    fails(app, "COPY p.t FROM '/etc/passwd'", DENIED)
    fails(app, "COPY p.t FROM PROGRAM 'echo 1'", DENIED)
    fails(app, "COPY p.t TO '/tmp/coldfront-p-t'", DENIED)
    fails(app, "COPY p.t TO PROGRAM 'cat'", DENIED)


# --- what lies behind the relation is out of reach


def test_an_application_reaches_nothing_behind_the_relation(app, superuser):
    (foreign,) = superuser.execute("SELECT foreign_table FROM coldfront.tiered_views WHERE schema_name = 'p' AND table_name = 't'").fetchone()
    for statement in (
        "SELECT * FROM coldfront.storage_secret", "DELETE FROM coldfront.storage_secret", f'SELECT * FROM coldfront_cold."{foreign}"',
        f'DELETE FROM coldfront_cold."{foreign}"', "DELETE FROM coldfront.tiered_views", "UPDATE coldfront.tiered_views SET table_name = 'x'",
        "SELECT duckdb.raw_query('SELECT 1')", "SELECT * FROM duckdb.query('SELECT 1')", "SELECT * FROM iceberg_scan('ice.p.t')",
        """SELECT coldfront._exec_iceberg_with_claim('"ice"."p"."t"', 'DELETE FROM ice.p.t')""", "SELECT coldfront.ensure_attached()",
        "SELECT coldfront.set_storage_secret('a', 'b')", "SELECT coldfront._store_secret('storage', '{}')",
        "SELECT coldfront.drop_iceberg_table('p', 't', true)", "SELECT coldfront.grant_app_access('p_app')",
        "SELECT coldfront.create_iceberg_table('p', 'x', '[]')", """SELECT coldfront._claim_iceberg_external('"ice"."p"."t"')""",
        "SET coldfront.warehouse = 'x'", "SHOW coldfront.lakekeeper_endpoint", "SET coldfront.lakekeeper_endpoint = 'http://127.0.0.1:1'",
        "CREATE FOREIGN TABLE pg_temp.f (id bigint) SERVER coldfront OPTIONS (namespace 'p', table_name 't')",
        "DROP VIEW p.t", "ALTER VIEW p.t RENAME TO u", "CREATE TRIGGER x INSTEAD OF INSERT ON p.t FOR EACH ROW EXECUTE FUNCTION tsvector_update_trigger()",
    ):  # fmt: skip
        fails(app, statement, DENIED)


READABLE = ["archive_watermark", "maintenance_config", "partition_config", "tiered_views"]


def test_what_public_may_run_is_a_short_list(superuser):
    """Every function and relation of the extension, whatever is added to it later."""
    superuser.execute("SET search_path = pg_catalog")
    allowed = superuser.execute(
        "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid"
        " JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid"
        " WHERE e.extname = 'coldfront' AND has_function_privilege('p_nobody', p.oid, 'EXECUTE') ORDER BY 1"
    ).fetchall()
    as_caller = [("coldfront._columns(regclass)",), ("coldfront._mirror_constraints(regclass,regclass,text)",)]
    assert allowed == sorted([("coldfront._iceberg_storage_type(text)",), *as_caller])
    readable = superuser.execute(
        "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace IN ('coldfront'::regnamespace, 'coldfront_cold'::regnamespace,"
        " 'duckdb'::regnamespace) AND c.relkind IN ('r', 'v', 'f', 'S', 'm', 'p') AND (has_table_privilege('p_nobody', c.oid, 'SELECT')"
        " OR has_any_column_privilege('p_nobody', c.oid, 'SELECT')) ORDER BY 1"
    ).fetchall()
    assert readable == [(f"coldfront.{name}",) for name in READABLE]


def test_functions_that_run_as_their_definer_pin_their_search_path(superuser):
    loose = superuser.execute(
        "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace IN ('coldfront'::regnamespace, 'duckdb'::regnamespace)"
        " AND p.prosecdef AND NOT coalesce(array_to_string(p.proconfig, ',') ~ 'search_path=pg_catalog, pg_temp', false)"
    ).fetchall()
    assert loose == []


def test_an_administrator_sets_secrets_that_it_cannot_read(admin, pg):
    weed = pg.weed
    admin.execute("SELECT coldfront.set_storage_secret(%s, %s, %s)", [weed.access_key, weed.secret_key, weed.s3_endpoint])
    fails(admin, "SELECT * FROM coldfront.storage_secret", DENIED)
    fails(admin, "COPY coldfront.storage_secret TO STDOUT", DENIED)
    assert admin.execute("SELECT r['n'] FROM duckdb.query('SELECT 1 AS n') AS r").fetchone() == (1,)


def test_an_administrator_s_engine_sql_does_not_show_secrets(admin, pg):
    shown = ""
    for query in ("SELECT * FROM duckdb_secrets(redact = false)", "SELECT * FROM duckdb_secrets()", "FROM duckdb_settings()", "FROM duckdb_databases()"):
        try:
            shown += str(admin.execute(f"SELECT r::text FROM duckdb.query('{query}') AS r").fetchall())
        except psycopg.Error as error:
            shown += describe(error)
    assert pg.weed.secret_key not in shown


def test_an_ordinary_owner(owner, superuser):
    """A member of coldfront_admin makes a table in its own schema, uses it, grants it and drops it."""
    create(owner, "p_own", "mine", "id bigint, v text")
    owner.execute("INSERT INTO p_own.mine VALUES (1, 'one'); GRANT USAGE ON SCHEMA p_own TO p_app; GRANT SELECT, INSERT, DELETE ON p_own.mine TO p_app")
    with psycopg.connect(owner.info.dsn, user="p_app", autocommit=True) as app:
        assert rows(app, "p_own.mine") == [(1, "one")]
        app.execute("INSERT INTO p_own.mine VALUES (2, 'two')")
        fails(app, "UPDATE p_own.mine SET v = ''", DENIED)
        assert app.execute("DELETE FROM p_own.mine WHERE id = 2").rowcount == 1
    for statement in ("DROP VIEW p_own.mine", "DROP OWNED BY p_owner CASCADE"):
        for db in (owner, superuser):
            assert "coldfront.drop_iceberg_table" in fails(db, statement, REFUSED).diag.message_hint
    assert rows(owner, "p_own.mine") == [(1, "one")]
    owner.execute("SET client_min_messages = warning")
    owner.execute("SELECT coldfront.drop_iceberg_table('p_own', 'mine', true)")
    assert superuser.execute("SELECT to_regclass('p_own.mine')").fetchone() == (None,)


def test_grant_app_access(superuser, nobody):
    superuser.execute("REVOKE USAGE ON SCHEMA p FROM p_nobody")
    fails(nobody, "SELECT * FROM p.t", DENIED)
    superuser.execute("SELECT coldfront.grant_app_access('p_nobody')")
    assert rows(nobody) == BEFORE
    nobody.execute("BEGIN; INSERT INTO p.t VALUES (3, ''); UPDATE p.t SET v = ''; DELETE FROM p.t; ROLLBACK")
    superuser.execute("REVOKE ALL ON p.t FROM p_nobody; REVOKE ALL ON SCHEMA p FROM p_nobody")
    fails(superuser, "SELECT coldfront.grant_app_access('no such role')", "42704")


# --- read-only transactions


def test_a_read_only_transaction_reads_and_does_not_write(app, admin):
    for db in (app, admin):
        db.execute("SET default_transaction_read_only = on")
    assert rows(app) == BEFORE
    for statement in ("INSERT INTO p.t VALUES (3, '')", "UPDATE p.t SET v = ''", "DELETE FROM p.t", "COPY p.t FROM STDIN"):
        fails(app, statement, READ_ONLY)
    for statement in (
        """SELECT coldfront._exec_iceberg_with_claim('"ice"."p"."t"', 'DELETE FROM "ice"."p"."t"')""", "SELECT coldfront.drop_iceberg_table('p', 't', true)",
        """SELECT coldfront.create_iceberg_table('p', 'x', '[{"name": "a", "type": "int"}]')""", "SELECT coldfront.set_catalog_token('x')",
    ):  # fmt: skip
        fails(admin, statement, READ_ONLY)
    app.execute("SET default_transaction_read_only = off")
    app.execute("BEGIN READ ONLY")
    fails(app, "DELETE FROM p.t", READ_ONLY)
    app.execute("ROLLBACK")
    assert rows(app) == BEFORE


# --- what would part a relation from its rows is refused


@pytest.fixture
def registered(superuser):
    """A relation, and the proof afterwards that it is as it was."""
    yield "p.t"
    superuser.rollback()
    assert rows(superuser) == BEFORE
    assert superuser.execute("SELECT count(*) FROM coldfront.tiered_views WHERE schema_name = 'p' AND table_name = 't'").fetchone() == (1,)


@pytest.mark.parametrize("statement", [
    "DROP VIEW p.t", "DROP VIEW p.t CASCADE", "DROP VIEW IF EXISTS p.t, p.nosuch", "DROP SCHEMA p CASCADE",
    'DROP FOREIGN TABLE coldfront_cold."p.t" CASCADE', "DROP SERVER coldfront CASCADE", "DROP SCHEMA coldfront_cold CASCADE",
    "DROP EXTENSION coldfront CASCADE", "DROP FOREIGN DATA WRAPPER coldfront CASCADE",
])  # fmt: skip
def test_drops_are_refused(superuser, registered, statement):
    superuser.execute("BEGIN")
    error = fails(superuser, statement, REFUSED, "2BP01")
    if error.sqlstate == REFUSED:
        assert "p.t" in error.diag.message_primary or "p_" in error.diag.message_primary, describe(error)
        assert "coldfront.drop_iceberg_table" in error.diag.message_hint, describe(error)
    else:  # PostgreSQL itself refuses, whatever CASCADE says: a member of the extension
        assert "extension coldfront requires it" in str(error), describe(error)


@pytest.mark.parametrize("statement", ["TRUNCATE p.t", "TRUNCATE p.t CASCADE", 'TRUNCATE coldfront_cold."p.t"'])
def test_truncate_is_refused(superuser, registered, statement):
    error = fails(superuser, statement, REFUSED)
    assert "p.t" in error.diag.message_primary and "DELETE" in error.diag.message_hint, describe(error)


@pytest.mark.parametrize("statement", [
    'ALTER FOREIGN TABLE coldfront_cold."p.t" ADD COLUMN w int', 'ALTER FOREIGN TABLE coldfront_cold."p.t" DROP COLUMN v CASCADE',
    'ALTER FOREIGN TABLE coldfront_cold."p.t" ALTER COLUMN id TYPE int', 'ALTER FOREIGN TABLE coldfront_cold."p.t" RENAME COLUMN v TO w',
    'ALTER FOREIGN TABLE coldfront_cold."p.t" RENAME TO u', 'ALTER FOREIGN TABLE coldfront_cold."p.t" SET SCHEMA p',
    "CREATE OR REPLACE VIEW p.t AS SELECT 1::bigint AS id, 'x'::text AS v",
    "ALTER FOREIGN TABLE coldfront_cold.\"p.t\" OPTIONS (SET table_name 'other')",
])  # fmt: skip
def test_changes_that_the_lake_would_not_follow_are_refused(superuser, registered, statement):
    superuser.execute("BEGIN")
    error = fails(superuser, statement, REFUSED)
    assert error.diag.message_hint, describe(error)


def test_a_schema_goes_once_its_relations_have_gone(superuser):
    superuser.execute("SET client_min_messages = warning")
    superuser.execute("CREATE SCHEMA p_gone")
    create(superuser, "p_gone", "t", "id bigint")
    fails(superuser, "DROP SCHEMA p_gone CASCADE", REFUSED)
    superuser.execute("SELECT coldfront.drop_iceberg_table('p_gone', 't', true)")
    superuser.execute("DROP SCHEMA p_gone")


# --- what may change, the registry follows


@pytest.mark.parametrize(("statement", "now"), [
    ("ALTER VIEW p.moves RENAME TO moved", ("p", "moved")), ("ALTER TABLE p.moves RENAME TO moved", ("p", "moved")),
    ("ALTER VIEW p.moves SET SCHEMA p_new", ("p_new", "moves")), ("ALTER TABLE p.moves SET SCHEMA p_new", ("p_new", "moves")),
    ('ALTER VIEW p.moves RENAME TO "Odd na.me"', ("p", "Odd na.me")), ("DO $$ BEGIN ALTER VIEW p.moves RENAME TO moved; END $$", ("p", "moved")),
])  # fmt: skip
def test_the_registry_follows(superuser, statement, now):
    superuser.execute("CREATE SCHEMA IF NOT EXISTS p_new; SET client_min_messages = warning")
    create(superuser, "p", "moves", "id bigint, v text")
    superuser.execute("INSERT INTO p.moves VALUES (1, 'one')")
    superuser.execute(f"BEGIN; {statement}; ROLLBACK")
    assert registered_names(superuser) == [("p", "moves")]
    superuser.execute(statement)
    assert registered_names(superuser) == [now]
    relation = ".".join(psycopg.sql.Identifier(part).as_string(superuser) for part in now)
    superuser.execute(f"INSERT INTO {relation} VALUES (2, 'two')")
    with superuser.cursor() as cursor, cursor.copy(f"COPY {relation} FROM STDIN") as copy:
        copy.write("3\tthree\n")
    assert rows(superuser, relation) == [(1, "one"), (2, "two"), (3, "three")]
    error = fails(superuser, f"DROP VIEW {relation}", REFUSED)
    assert now[1] in error.diag.message_hint
    superuser.execute("SELECT coldfront.drop_iceberg_table(%s, %s, true)", now)
    assert registered_names(superuser) == []


def registered_names(db: psycopg.Connection) -> list[tuple]:
    where = "schema_name ~ '^p($|_)' AND (schema_name, table_name) <> ('p', 't')"
    return db.execute(f"SELECT schema_name, table_name FROM coldfront.tiered_views WHERE {where}").fetchall()


def test_a_renamed_schema(superuser):
    """The registry follows that too, or it is refused: it may not be left behind."""
    superuser.execute("CREATE SCHEMA p_before; SET client_min_messages = warning")
    create(superuser, "p_before", "t", "id bigint, v text")
    try:
        superuser.execute("ALTER SCHEMA p_before RENAME TO p_after")
        schema = "p_after"
    except psycopg.Error as error:
        assert error.sqlstate == REFUSED and error.diag.message_hint, describe(error)
        schema = "p_before"
    try:
        assert registered_names(superuser) == [(schema, "t")]
        superuser.execute(f"INSERT INTO {schema}.t VALUES (1, 'one')")
        with superuser.cursor() as cursor, cursor.copy(f"COPY {schema}.t FROM STDIN") as copy:
            copy.write("2\ttwo\n")
        fails(superuser, f"DROP VIEW {schema}.t", REFUSED)
    finally:
        superuser.execute(f"UPDATE coldfront.tiered_views SET schema_name = '{schema}' WHERE schema_name IN ('p_before', 'p_after')")
        superuser.execute(f"SELECT coldfront.drop_iceberg_table('{schema}', 't', true)")
        superuser.execute(f"DROP SCHEMA {schema}")


def test_a_new_owner(superuser, owner):
    """The relation works for its new owner."""
    superuser.execute("SET client_min_messages = warning")
    create(superuser, "p", "given", "id bigint, v text")
    superuser.execute("INSERT INTO p.given VALUES (1, 'one'); GRANT USAGE ON SCHEMA p TO p_owner; GRANT SELECT ON p.given TO p_app")
    superuser.execute("ALTER VIEW p.given OWNER TO p_owner")
    try:
        assert rows(owner, "p.given") == [(1, "one")]
    except psycopg.Error as error:  # as with any view whose owner may not read what it reads
        assert error.sqlstate == DENIED, describe(error)
    superuser.execute("SELECT coldfront.drop_iceberg_table('p', 'given', true)")


# --- dump and restore


def test_a_dump_restored_into_another_database(pg, superuser, tmp_path):
    postgres = pg.pg
    superuser.execute("SET client_min_messages = warning")
    odd, odd_quoted = 'Dum.ped "x"', 'p."Dum.ped ""x"""'
    create(superuser, "p", odd, "id bigint, Q int", ["id"])
    superuser.execute(f"INSERT INTO {odd_quoted} VALUES (7, 8)")
    where = ["-h", "127.0.0.1", "-p", str(postgres.port), "-U", postgres.user]
    dump = postgres.tool("pg_dump", *where, "-n", "p", "-n", "coldfront", "-n", "coldfront_cold", "-e", "coldfront", postgres.dbname).stdout
    whole = postgres.tool("pg_dump", *where, postgres.dbname).stdout
    for text in (dump, whole):
        assert pg.weed.secret_key not in text and pg.weed.access_key not in text
        assert "CREATE VIEW p.t" in text and 'CREATE FOREIGN TABLE coldfront_cold."p.t"' in text
    superuser.execute("DROP DATABASE IF EXISTS p_restored")
    superuser.execute("CREATE DATABASE p_restored")
    try:
        restored = postgres.tool("psql", *where, "-v", "ON_ERROR_STOP=1", "-q", "-d", "p_restored", input=whole)
        assert restored.returncode == 0
        with pg.connect(dbname="p_restored") as db:
            mine = "SELECT schema_name, table_name, iceberg_table, foreign_table, is_iceberg_only FROM coldfront.tiered_views ORDER BY 1, 2"
            assert db.execute(mine).fetchall() == superuser.execute(mine).fetchall()
            assert db.execute("SELECT count(*) FROM coldfront.storage_secret").fetchone() == (0,)
            with pytest.raises(psycopg.Error):
                rows(db)
            weed = pg.weed
            db.execute("SELECT coldfront.set_storage_secret(%s, %s, %s)", [weed.access_key, weed.secret_key, weed.s3_endpoint])
            db.execute("SELECT coldfront.set_catalog_secret(%s, %s, %s)", [weed.access_key, weed.secret_key, weed.token_url])
            assert rows(db) == BEFORE
            assert db.execute(f"SELECT * FROM {odd_quoted}").fetchall() == [(7, 8)]
            db.execute("INSERT INTO p.t VALUES (3, 'from the copy')")
            assert db.execute("DELETE FROM p.t WHERE id = 3").rowcount == 1
            fails(db, "DROP VIEW p.t", REFUSED)
            with pg.connect(dbname="p_restored", user="p_app") as app:
                assert rows(app) == BEFORE
    finally:
        superuser.execute("DROP DATABASE p_restored WITH (FORCE)")
        superuser.execute("SELECT coldfront.drop_iceberg_table('p', %s, true)", [odd])


def test_a_backup_of_the_data_leaves_the_lake_alone(pg):
    """pg_dump copies no rows of foreign tables; it contacts nothing for them."""
    dump = pg.pg.tool("pg_dump", "-h", "127.0.0.1", "-p", str(pg.pg.port), "-U", pg.pg.user, "--data-only", "-n", "p", pg.pg.dbname).stdout
    assert "two" not in dump
