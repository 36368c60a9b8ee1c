"""What tests of running statements need: statements in the background, the engine's process, what is left in the lake."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from typing import Iterator

import psutil
import psycopg

import lake
from stack import Stack, StackError, wait_until

ENGINE = "coldfront-engine"


def columns(definition: str) -> list[dict]:
    """`"id bigint, v text"` as create_iceberg_table wants it."""
    return [dict(zip(("name", "type"), part.strip().split(" ", 1))) for part in definition.split(",")]


def create(db: psycopg.Connection, schema: str, table: str, definition: str, partition: list[str] | None = None) -> None:
    described = psycopg.types.json.Json(columns(definition))
    db.execute("SELECT coldfront.create_iceberg_table(%s, %s, %s::jsonb, %s)", [schema, table, described, partition])


def drop(stack: Stack, schema: str, table: str) -> None:
    """On a connection of its own, for tests that may have broken theirs."""
    with stack.connect() as db:
        db.execute("SET client_min_messages = warning")
        db.execute("SELECT coldfront.drop_iceberg_table(%s, %s, true)", [schema, table])


def insert_in_engine(schema: str, table: str, select: str) -> str:
    """SQL that inserts rows made inside the engine, quicker than sending them; `select` is the engine's SQL."""
    ref = f'"ice"."{schema}"."{table}"'
    return f"SELECT coldfront._exec_iceberg_with_claim('{ref}', $engine$INSERT INTO {ref} {select}$engine$)"


def fill(db: psycopg.Connection, schema: str, table: str, select: str) -> None:
    db.execute(insert_in_engine(schema, table, select))


class Running:
    """A statement on a connection of its own, running in the background."""

    def __init__(self, connection: psycopg.Connection, sql: str, run=None):
        self.connection, self.sql = connection, sql
        self.pid = connection.info.backend_pid
        self.began = time.monotonic()
        self.ended: float | None = None
        self.error: psycopg.Error | None = None
        self.value = None
        self._thread = threading.Thread(target=self._work, args=(run or _execute,), daemon=True)
        self._thread.start()

    def _work(self, run) -> None:
        try:
            self.value = run(self.connection, self.sql)
        except psycopg.Error as error:
            self.error = error
        self.ended = time.monotonic()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_s: float = 30.0) -> "Running":
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), f"still running after {timeout_s:g} s: {self.sql}"
        return self

    def fails(self, *states: str, timeout_s: float = 30.0) -> psycopg.Error:
        """The error it ends with, which has one of these SQLSTATEs."""
        self.join(timeout_s)
        assert self.error is not None, f"it worked: {self.sql}"
        assert self.error.sqlstate in states, f"{self.error.sqlstate} is not in {states}: {describe(self.error)}"
        return self.error

    def works(self, timeout_s: float = 60.0):
        self.join(timeout_s)
        assert self.error is None, describe(self.error)
        return self.value


def _execute(connection: psycopg.Connection, sql: str) -> psycopg.Cursor:
    return connection.execute(sql)


def describe(error: psycopg.Error) -> str:
    found = error.diag
    return f"{error.sqlstate}: {found.message_primary or error} / {found.message_detail} / {found.message_hint}"


def fails(db: psycopg.Connection, sql: str, *states: str, params=None) -> psycopg.Error:
    """Runs a statement that has to fail with one of these SQLSTATEs."""
    try:
        db.execute(sql, params)
    except psycopg.Error as error:
        assert error.sqlstate in states, f"{error.sqlstate} is not in {states}: {describe(error)}"
        return error
    raise AssertionError(f"it worked: {sql}")


def waits_for(watcher: psycopg.Connection, pid: int, kind: str | tuple[str, ...] = "Extension", timeout_s: float = 30.0) -> None:
    """Wait until a backend waits for the engine (or, with "Lock", for a lock)."""
    kinds = [kind] if isinstance(kind, str) else list(kind)
    sql = "SELECT state = 'active' AND wait_event_type = ANY(%s) FROM pg_stat_activity WHERE pid = %s"
    wait_until(f"backend {pid} to wait for {kind}", lambda: (watcher.execute(sql, [kinds, pid]).fetchone() or [None])[0], timeout_s)


def meets_waiting(watcher: psycopg.Connection, pid: int, timeout_s: float = 30.0) -> None:
    """[`waits_for`] the engine where the waits are short and other work lies between them: looks without a pause."""
    sql = "SELECT state = 'active' AND wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = %s"
    deadline = time.monotonic() + timeout_s
    while not (watcher.execute(sql, [pid]).fetchone() or [None])[0]:
        assert time.monotonic() < deadline, f"backend {pid} was not met waiting for the engine"


def limit(seconds: float) -> float:
    """A time limit that is meant for a machine with nothing else to do, longer where others have its cores."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert took < limit(seconds), f"{what} took {took:.2f} s, more than {seconds:g} s (load {os.getloadavg()[0]:.1f})"


def postmaster(stack: Stack) -> psutil.Process:
    process = stack.pg.daemon.process()
    assert process is not None, "PostgreSQL does not run"
    return process


def engine(stack: Stack) -> psutil.Process | None:
    """The engine of this stack, if it runs."""
    for child in postmaster(stack).children(recursive=True):
        try:
            if child.name() == ENGINE and child.status() != psutil.STATUS_ZOMBIE:
                return child
        except psutil.NoSuchProcess:
            continue
    return None


def is_gone(process: psutil.Process, parent: int | None = None) -> bool:
    """It has ended. A zombie counts as ended unless it is left to `parent`, who should have reaped it."""
    try:
        return not process.is_running() or (process.status() == psutil.STATUS_ZOMBIE and process.ppid() != parent)
    except psutil.NoSuchProcess:
        return True


def engines_of(stack: Stack) -> list[psutil.Process]:
    """Every engine that works in this stack's data directory, also orphans and zombies of its server."""
    found = []
    for process in psutil.process_iter(["name"]):
        try:
            if process.info["name"] == ENGINE and process.cwd() == str(stack.pg.data):
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_for_engine(stack: Stack, timeout_s: float = 15.0) -> psutil.Process:
    return wait_until("the engine to run", lambda: engine(stack), timeout_s, stack.pg.log)


def kill_engine(stack: Stack) -> float:
    """kill -9; returns when the process has ended."""
    process = wait_for_engine(stack)
    process.kill()
    at = time.monotonic()
    wait_until(f"engine {process.pid} to end", lambda: is_gone(process))
    return at


def left_over(stack: Stack) -> list[str]:
    """Objects and begun uploads that no table refers to."""
    env = stack.environment()
    return sorted(lake.orphans(env)) + [f"upload {key}" for key in lake.uploads(env)]


def nothing_staged(stack: Stack, known: list[str] | tuple = (), timeout_s: float = 10.0) -> None:
    """Nothing lies in the lake that no table refers to, but for what was `known` to; clearing away may take a moment."""
    left: set[str] = set()

    def gone() -> bool:
        nonlocal left
        left = set(left_over(stack)) - set(known)
        return not left

    try:
        wait_until("staged objects to go", gone, limit(timeout_s))
    except StackError:
        raise AssertionError(f"{len(left)} staged objects stay: {sorted(left)[:10]}") from None


def new_objects(stack: Stack, known: dict[str, int], suffix: str = ".parquet") -> list[str]:
    """Objects that came since the listing `known`."""
    return [key for key in lake.objects("", stack.environment()) if key not in known and key.endswith(suffix)]
