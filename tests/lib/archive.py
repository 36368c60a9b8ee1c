"""What tests of the archiver need: its program, tables with partitions of past months, a pause at a failpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import psycopg

from stack import PG_HOME, Stack, wait_until


class Archiver:
    """`coldfront-archiver` against the database of a stack."""

    def __init__(self, stack: Stack, directory: Path, options: str = ""):
        self.stack, self.directory = stack, directory
        query = f"?options={options}" if options else ""
        self.dsn = f"postgres://{stack.pg.user}@127.0.0.1:{stack.pg.port}/{stack.pg.dbname}{query}"

    def command(self, *argv: str) -> list[str]:
        return [str(PG_HOME / "bin/coldfront-archiver"), *argv]

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "COLDFRONT_ARCHIVER_DSN": self.dsn, "COLDFRONT_ARCHIVER_LOCK_WAIT_S": "30", **more}

    def call(self, *argv: str, code: int | None = 0, **env: str) -> subprocess.CompletedProcess:
        """Run it; its exit code has to be `code`, unless that is None."""
        done = subprocess.run(self.command(*argv), capture_output=True, text=True, env=self.environment(**env), timeout=180)
        done.stderr = done.stderr.replace('\\"', '"')  # the log lines are JSON
        if code is not None:
            assert done.returncode == code, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def run(self, table: str, code: int | None = 0, **env: str) -> subprocess.CompletedProcess:
        return self.call("run", "--table", table, code=code, **env)

    def pause_at(self, point: str, *argv: str) -> "Paused":
        return Paused(self, point, argv)


class Paused:
    """An archiver that runs up to a failpoint and waits there."""

    def __init__(self, archiver: Archiver, point: str, argv: tuple[str, ...]):
        self.log = archiver.directory / f"{point}-{time.monotonic_ns()}.log"
        with open(self.log, "w") as out:
            env = archiver.environment(COLDFRONT_ARCHIVER_PAUSE_AT=point)
            self.process = subprocess.Popen(archiver.command(*argv), stdout=out, stderr=out, env=env)
        wait_until(f"the archiver to pause at {point}", self._paused, 60, self.log)

    def _paused(self) -> bool:
        if '"paused"' in self.log.read_text():
            return True
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.log.read_text()}"
        return False

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)


def month(offset: int) -> str:
    """SQL: the beginning of the month that lies `offset` months from this one."""
    return f"(date_trunc('month', now() AT TIME ZONE 'UTC') + {offset} * interval '1 month')"


def bound(db: psycopg.Connection, offset: int) -> str:
    return db.execute(f"SELECT {month(offset)}::date::text").fetchone()[0]


COLUMNS = "id bigint NOT NULL, ts timestamptz NOT NULL, v text, d double precision, n numeric(12,3)"


def make(db: psycopg.Connection, schema: str, table: str, months: list[int], columns: str = COLUMNS, rows: int = 200) -> str:
    """A table with a partition for each of the months, named against the calendar, and rows in each; returns schema.table."""
    name = f'"{schema}"."{table}"'
    db.execute(f"CREATE TABLE {name} ({columns}) PARTITION BY RANGE (ts)")
    for at, offset in enumerate(months):
        part = f'"{schema}"."p{99 - at}_{table[:40]}"'
        db.execute(f"CREATE TABLE {part} PARTITION OF {name} FOR VALUES FROM ('{bound(db, offset)}') TO ('{bound(db, offset + 1)}')")
        if rows:
            fill(db, name, offset, rows)
    return name


def fill(db: psycopg.Connection, name: str, offset: int, rows: int) -> None:
    db.execute(
        f"INSERT INTO {name} (id, ts, v, d, n) SELECT i, {month(offset)} + i * interval '1 minute', 'row ' || i,"
        f" CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN '-0'::float8 WHEN 2 THEN 'NaN' ELSE sqrt(i) END, i / 7.0 FROM generate_series(1, {rows}) AS i"
    )


def content(db: psycopg.Connection, name: str) -> list[tuple]:
    """All rows, as they compare."""
    return db.execute(f"SELECT id, ts, v, (d + 0)::text, n FROM {name} ORDER BY 1, 2, 3, 4, 5").fetchall()


def cutoff(db: psycopg.Connection, schema: str, table: str) -> str | None:
    sql = "SELECT cutoff FROM coldfront.archive_watermark WHERE schema_name = %s AND table_name = %s"
    return (db.execute(sql, [schema, table]).fetchone() or [None])[0]


def partitions(db: psycopg.Connection, name: str) -> list[str]:
    sql = "SELECT c.relname FROM pg_partition_tree(%s) t JOIN pg_class c ON c.oid = t.relid WHERE t.isleaf ORDER BY 1"
    return [row[0] for row in db.execute(sql, [name]).fetchall()]


def left_overs(db: psycopg.Connection, schema: str) -> list[str]:
    """Attempts of a schema, and capture tables of no attempt: a finished pass leaves none."""
    sql = (
        "SELECT attempt_id::text FROM coldfront.archive_attempt WHERE schema_name = %s"
        " UNION ALL SELECT relname::text FROM pg_class c WHERE relnamespace = 'coldfront_archive'::regnamespace AND relkind = 'r'"
        "  AND NOT EXISTS (SELECT FROM coldfront.archive_attempt WHERE c.relname = 'capture_' || attempt_id)"
    )
    return [row[0] for row in db.execute(sql, [schema]).fetchall()]
