#!/usr/bin/env python3
"""Runs twin scripts: every statement must do on a ColdFront relation what it does on a heap table.

    run.py [--mode decoupled|heap|all] [--dir DIR] [--show] [FILE …]

The connection comes from PGHOST, PGPORT, PGUSER and PGDATABASE. The last line is `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from psycopg.conninfo import make_conninfo

import modes
from script import Script, ScriptError, Statement, parse
from session import Outcome, Session

HERE = Path(__file__).resolve().parent
RUN_LOCK = 0x7477696E  # one run at a time per database


class Mismatch(Exception):
    pass


@dataclass
class Totals:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    statements: int = 0
    refused: int = 0
    show: bool = False
    failures: list[str] = field(default_factory=list)


class Side:
    """A mode's relation and the sessions a script has opened on it."""

    def __init__(self, mode: modes.Heap, timeout_s: float):
        self.mode, self.timeout_s = mode, timeout_s
        self.admin = Session(conninfo("twin admin"), timeout_s)
        self.sessions: dict[int, Session] = {}

    def set_up(self, script: Script) -> None:
        self.mode.drop(self.admin, script)
        self.mode.create(self.admin, script)
        for statement in script.load:
            outcome = self.session(1).run(statement)
            if outcome.error:
                raise Mismatch(f"{script.path}:{statement.line}: load fails on {self.mode.name}: {outcome.describe()}")
        self.mode.loaded(self.admin, script)

    def session(self, number: int) -> Session:
        if number not in self.sessions:
            options = f"-c search_path={self.mode.schema},public -c TimeZone=UTC"
            self.sessions[number] = Session(conninfo("twin", options=options), self.timeout_s)
        return self.sessions[number]

    def contents(self, script: Script) -> list[list]:
        """What is committed, as seen by nobody in particular."""
        tables = [self.admin.run(f"SELECT * FROM {self.mode.schema}.{table.name}") for table in script.tables]
        return [sorted(map(repr, outcome.rows or [])) + [outcome.error] for outcome in tables]

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()
        self.admin.close()

    def tear_down(self, script: Script) -> None:
        for session in self.sessions.values():
            session.close()
        self.sessions.clear()
        self.mode.drop(self.admin, script)


def conninfo(name: str, **options) -> str:
    return make_conninfo(os.environ.get("TWIN_DSN", ""), application_name=name, **options)


def run_script(script: Script, mode: modes.Heap, timeout_s: float, keep: bool, totals: Totals) -> None:
    heap, other = Side(modes.Heap(), timeout_s), Side(mode, timeout_s)
    try:
        heap.set_up(script)
        other.set_up(script)
        for statement in script.body:
            step(script, statement, heap, other, totals)
        final_state(script, heap, other)
        if not keep:
            heap.tear_down(script)
            other.tear_down(script)
    finally:
        heap.close()
        other.close()


def step(script: Script, statement: Statement, heap: Side, other: Side, totals: Totals) -> None:
    totals.statements += 1
    mine, theirs = heap.session(statement.session), other.session(statement.session)
    if not statement.refuse_ok:
        expected, got = mine.run(statement), theirs.run(statement)
    else:
        before = other.contents(script)
        got = theirs.run(statement)
        if got.error in statement.refuse_ok:
            totals.refused += 1
            if other.contents(script) != before:
                raise Mismatch(report(script, statement, "refused, yet the relation changed", None, got, other))
            expected = mine.run(stand_in(got.error))  # the heap skips it too, in the same transaction state
            if expected.error == "25P02":  # an aborted transaction stays one
                return
        else:
            expected = mine.run(statement)
    if totals.show:
        print(f"{script.path.name}:{statement.line}: {statement.text}\n    " + got.describe().replace("\n", "\n    "))
    if not expected.same_as(got, statement.unordered):
        raise Mismatch(report(script, statement, "differs", expected, got, other))


def stand_in(code: str) -> str:
    return f"DO $$BEGIN RAISE EXCEPTION 'refused in the other mode' USING ERRCODE = '{code}'; END$$"


def final_state(script: Script, heap: Side, other: Side) -> None:
    """Whatever the script looked at, the committed rows have to be the same at its end."""
    for table in script.tables:
        statement = Statement(f"SELECT * FROM {table.name}", 0, session=0, unordered=True)
        expected, got = heap.session(0).run(statement), other.session(0).run(statement)
        if not expected.same_as(got, unordered=True):
            raise Mismatch(report(script, statement, "differs at the end of the file", expected, got, other))


def report(script: Script, statement: Statement, what: str, expected: Outcome | None, got: Outcome, other: Side) -> str:
    lines = [f"{script.path}:{statement.line or 'end'}: {what}", f"    {statement.text}"]
    if expected is not None:
        lines += ["  heap:", *("    " + line for line in expected.describe().splitlines())]
    lines += [f"  {other.mode.name}:", *("    " + line for line in got.describe().splitlines())]
    return "\n".join(lines)


def run_file(path: Path, mode: modes.Heap, arguments: argparse.Namespace, totals: Totals) -> None:
    started = time.monotonic()
    name = f"{path.name} [{mode.name}]"
    try:
        script = parse(path)
        if not mode.runs(script):
            print(f"----    {name}: not for this mode")
            return
        run_script(script, mode, arguments.timeout, arguments.keep, totals)
    except modes.Refused as refused:
        totals.skipped += 1
        print(f"skipped {name}: {refused}")
    except (Mismatch, ScriptError, modes.SetUpError, ConnectionError) as error:
        totals.failed += 1
        totals.failures.append(name)
        print(f"FAILED  {name}\n{error}")
    else:
        totals.passed += 1
        print(f"ok      {name} {time.monotonic() - started:.1f} s")


def arguments_of(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", default="all", choices=["all", *modes.MODES])
    parser.add_argument("--dir", type=Path, default=HERE)
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds a statement may take (default 30)")
    parser.add_argument("--keep", action="store_true", help="leave the relations of the last file behind")
    parser.add_argument("--show", action="store_true", help="print what each statement gave")
    parser.add_argument("--sabotage", help="heap against a heap changed by this SQL; has to fail")
    parser.add_argument("files", nargs="*", type=Path)
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    arguments = arguments_of(argv)
    files = arguments.files or sorted(arguments.dir.rglob("*.sql"))
    if not files:
        print(f"no *.sql in {arguments.dir}", file=sys.stderr)
        return 2
    if arguments.sabotage:
        chosen = [modes.Sabotaged(arguments.sabotage)]
    elif arguments.mode == "all":
        chosen = [make() for name, make in modes.MODES.items() if name != "heap"]
    else:
        chosen = [modes.MODES[arguments.mode]()]
    totals = Totals(show=arguments.show)
    try:
        lock = Session(conninfo("twin run"), 600)
    except ConnectionError as error:
        sys.exit(f"{error}\nIs the stack up, and are its addresses set (. .local/env)?")
    lock.run(f"SELECT pg_advisory_lock({RUN_LOCK})")
    for path in files:
        for mode in chosen:
            run_file(path, mode, arguments, totals)
    lock.close()
    if totals.refused:
        print(f"{totals.refused} statements were refused where a script allows it")
    if totals.failures:
        print("failed: " + ", ".join(totals.failures))
    print(f"{totals.statements} statements compared")
    print(f"{totals.passed} passed, {totals.failed} failed, {totals.skipped} skipped")
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
