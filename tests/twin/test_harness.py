"""The twin harness has to be able to fail: each kind of difference is put in on purpose and must be reported."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from script import Column, ScriptError, columns, parse  # noqa: E402


@pytest.fixture
def twin(stack, tmp_path):
    """Run the harness on a script; gives exit status, output and its last line."""

    def run(text: str, *options: str):
        path = tmp_path / "case.sql"
        path.write_text(textwrap.dedent(text))
        done = subprocess.run(
            [sys.executable, str(HERE / "run.py"), *(options or ("--mode", "heap")), str(path)],
            capture_output=True, text=True, timeout=120,
            env={**os.environ, "TWIN_DSN": f"host=127.0.0.1 port={stack.pg.port} user={stack.pg.user} dbname={stack.pg.dbname}"},
        )  # fmt: skip
        assert not done.stderr, done.stderr
        return done.returncode, done.stdout, done.stdout.splitlines()[-1]

    return run


CASE = """\
    -- columns: id bigint, ts timestamptz, v text
    -- load: INSERT INTO t VALUES (1, '2025-01-01', 'a'), (2, '2026-01-01', NULL)
    SELECT id, v FROM t ORDER BY id;
    UPDATE t SET v = 'b' WHERE v = 'a';
    SELECT v FROM t WHERE v <> 'zz' GROUP BY v;
"""


def test_equal_sides_pass(twin):
    status, output, last = twin(CASE)
    assert (status, last) == (0, "1 passed, 0 failed, 0 skipped"), output


@pytest.mark.parametrize(
    "flaw, where",
    [
        ("UPDATE t SET v = 'A' WHERE id = 1", ":3:"),  # a value
        ("UPDATE t SET v = '' WHERE id = 2", ":3:"),  # NULL against the empty string
        ("DELETE FROM t WHERE id = 2", ":3:"),  # a row missing
        ("INSERT INTO t SELECT * FROM t WHERE id = 1", ":3:"),  # a row twice
        ("ALTER TABLE t RENAME v TO w", ":3:"),  # a column name, seen as an error
        ("ALTER TABLE t ALTER v TYPE char(3)", ":3:"),  # padding
        ("CREATE RULE r AS ON UPDATE TO t DO INSTEAD NOTHING", ":4:"),  # the count in the tag
        ("ALTER TABLE t ADD CHECK (v <> 'b')", ":4:"),  # an error where there is none
        ("CREATE FUNCTION u() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.id = 9; RETURN NEW; END';"
         "CREATE TRIGGER u BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION u()", ":end:"),  # seen only at the end
    ],
)  # fmt: skip
def test_a_difference_fails(twin, flaw, where):
    status, output, last = twin(CASE, "--sabotage", flaw)
    assert (status, last) == (1, "0 passed, 1 failed, 0 skipped"), output
    assert f"case.sql{where}" in output, output


def test_the_report_shows_statement_and_both_results(twin):
    _, output, _ = twin(CASE, "--sabotage", "UPDATE t SET v = 'A' WHERE id = 1")
    assert "SELECT id, v FROM t ORDER BY id" in output
    assert "1 | a" in output and "1 | A" in output


def test_error_codes_are_compared(twin):
    case = """\
        -- columns: id bigint, ts timestamptz, v text
        -- load: INSERT INTO t VALUES (1, '2025-01-01', 'a')
        SELECT v::int FROM t;
        """
    assert twin(case)[0] == 0  # 22P02 on both
    status, output, _ = twin(case, "--sabotage", "ALTER TABLE t RENAME v TO w")  # 42703 on one
    assert status == 1 and "22P02" in output and "42703" in output


def test_row_order_counts_unless_said_otherwise(twin):
    case = "-- columns: id bigint, ts timestamptz\n-- load: INSERT INTO t VALUES (1), (2)\n{}SELECT id FROM t;\n"
    flaw = "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1)"
    assert twin(case.format(""), "--sabotage", flaw)[0] == 1
    assert twin(case.format("-- unordered\n"), "--sabotage", flaw)[0] == 0
    assert twin(case.format("-- unordered\n"), "--sabotage", flaw.replace("VALUES (1)", "VALUES (3)"))[0] == 1


REFUSAL = (
    "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS"
    " $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '0A000'; END$$;"
    "CREATE TRIGGER no BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION no()"
)


def test_a_refusal_needs_permission(twin):
    status, output, _ = twin(CASE, "--sabotage", REFUSAL)
    assert status == 1 and "0A000" in output


def test_after_an_allowed_refusal_both_sides_are_in_the_same_state(twin):
    case = """\
        -- columns: id bigint, ts timestamptz, v text
        -- load: INSERT INTO t VALUES (1, '2025-01-01', 'a')
        -- refuse-ok: 0A000
        UPDATE t SET v = 'b';
        SELECT v FROM t;
        BEGIN;
        INSERT INTO t VALUES (2, NULL, 'x');
        -- refuse-ok: 22003 0A000
        UPDATE t SET v = 'b';
        SELECT v FROM t;
        COMMIT;
        SELECT v FROM t;
        """
    status, output, _ = twin(case, "--sabotage", REFUSAL)
    assert status == 0 and "2 statements were refused" in output, output
    assert twin(case)[0] == 0


def test_a_refusal_that_changes_rows_fails(twin):
    """Only a sequence survives an error, so the relation is a view that shows one."""
    flaw = (
        "DROP TABLE t; CREATE SEQUENCE s; CREATE VIEW t AS SELECT last_value AS id, NULL::timestamptz AS ts, 'a' AS v"
        " FROM pg_sequence_last_value('s'::regclass) AS q(last_value);"
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN PERFORM nextval('s'), nextval('s'); RAISE EXCEPTION 'no' USING ERRCODE = '0A000'; END$$;"
        "CREATE TRIGGER no INSTEAD OF UPDATE ON t FOR EACH ROW EXECUTE FUNCTION no()"
    )
    case = """\
        -- columns: id bigint, ts timestamptz, v text
        -- load: INSERT INTO t VALUES (1, NULL, 'a')
        -- refuse-ok: 0A000
        UPDATE t SET v = 'b';
        """
    status, output, _ = twin(case, "--sabotage", flaw)
    assert status == 1 and "refused, yet the relation changed" in output, output


def test_a_waiting_session_fails_in_bounded_time(twin):
    case = """\
        -- columns: id bigint, ts timestamptz, v text
        -- load: INSERT INTO t VALUES (1, '2025-01-01', 'a')
        BEGIN;
        UPDATE t SET v = 'b';
        -- session: 2
        UPDATE t SET v = 'c';
        """
    status, output, _ = twin(case, "--mode", "heap", "--timeout", "1")
    assert status == 1 and "timeout" in output


def test_sessions_copy_and_prepared_statements(twin):
    case = """\
        -- columns: id bigint, ts timestamptz, v text
        COPY t FROM STDIN;
        1\t2025-01-01\ta;b
        2\t2026-01-01\t\\N
        \\.
        COPY (SELECT * FROM t ORDER BY id) TO STDOUT;
        PREPARE p(text) AS SELECT count(*) FROM t WHERE v = $1;
        EXECUTE p('a;b');
        BEGIN; DELETE FROM t;
        -- session: 2
        SELECT count(*) FROM t;
        -- session: 1
        ROLLBACK;
        SELECT 1/0;
        """
    assert twin(case)[0] == 0
    status, output, _ = twin(case, "--sabotage", "INSERT INTO t VALUES (3)")
    assert status == 1 and "case.sql:6:" in output, output


def test_a_type_refused_at_creation_is_skipped_and_said(monkeypatch, capsys, stack, tmp_path):
    import modes
    import run

    class Picky(modes.SecondHeap):
        name = "decoupled"

        def create_table(self, admin, table):
            raise modes.Refused("column v: type text is not supported")

    monkeypatch.setenv("TWIN_DSN", f"host=127.0.0.1 port={stack.pg.port} user={stack.pg.user} dbname={stack.pg.dbname}")
    monkeypatch.setitem(modes.MODES, "decoupled", Picky)
    path = tmp_path / "case.sql"
    path.write_text(textwrap.dedent(CASE))
    assert run.main(["--mode", "decoupled", str(path)]) == 0
    output = capsys.readouterr().out
    assert "column v: type text is not supported" in output
    assert output.splitlines()[-1] == "0 passed, 0 failed, 1 skipped"


def statements(tmp_path, text: str) -> list[str]:
    path = tmp_path / "s.sql"
    path.write_text("-- columns: id bigint\n" + text)
    return [s.text for s in parse(path).body]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ';', 'it''s;', E'\\';', \";\", $$;$$, $q$ ; $$ ; $q$ -- ; not yet\n, /* ; /* ; */ ; */ 1",
        "SELECT U&'\\003b;', a$b$c -- '\n, 1",
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 2 END; END",
        "DO $$ BEGIN PERFORM 1; END $$",
        "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)",
        "SELECT 'back\\', ';'",
    ],
)
def test_statements_are_cut_at_the_right_semicolon(tmp_path, text):
    assert statements(tmp_path, f"{text};\nSELECT 2;\n") == [text, "SELECT 2"]


def test_lines_and_directives(tmp_path):
    path = tmp_path / "s.sql"
    path.write_text("-- columns: id bigint\n\n-- a remark\n-- unordered\n-- refuse-ok: 0A000\nSELECT\n1;\nSELECT 2; SELECT 3;\n")
    first, second, third = parse(path).body
    assert (first.line, first.unordered, first.refuse_ok) == (6, True, ("0A000",))
    assert (second.line, second.unordered, second.refuse_ok) == (8, False, ())
    assert third.line == 8


def test_columns():
    assert columns('id bigint, "a, ""b" numeric(12,4), Ts timestamp(3) with time zone, c text[]') == [
        Column("id", "bigint"), Column('a, "b', "numeric(12,4)"), Column("ts", "timestamp(3) with time zone"), Column("c", "text[]"),
    ]  # fmt: skip
    assert columns("a int NOT NULL, b varchar(5) DEFAULT 'x, y' NOT NULL, c int GENERATED ALWAYS AS (a * (1 + a)) STORED") == [
        Column("a", "int", not_null=True),
        Column("b", "varchar(5)", default="'x, y'", not_null=True),
        Column("c", "int", generated="a * (1 + a)"),
    ]


@pytest.mark.parametrize("text", ["SELECT 1;", "-- columns: id\n", "-- columns: id bigint\n-- session: x\nSELECT 1;",
                                  "-- columns: id bigint\n-- refuse-ok: soon\nSELECT 1;"])  # fmt: skip
def test_a_malformed_script_is_an_error(tmp_path, text):
    path = tmp_path / "s.sql"
    path.write_text(text)
    with pytest.raises(ScriptError):
        parse(path)
