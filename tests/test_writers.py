"""Writers of one table at the same time: each acknowledged row is there once, nothing else is, nobody sees a conflict."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter

import psycopg
import pytest

pytestmark = pytest.mark.coldfront

WRITERS = 8
SECONDS = float(os.environ.get("WRITERS_SECONDS", 12))


@pytest.fixture
def table(stack):
    """A fresh decoupled table; its qualified name."""
    with stack.connect() as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS writers")
        connection.execute(
            "SELECT coldfront.create_iceberg_table('writers', 't',"
            """ '[{"name": "id", "type": "bigint"}, {"name": "w", "type": "integer"}, {"name": "n", "type": "integer"}]')"""
        )
        yield "writers.t"
        connection.execute("SELECT coldfront.drop_iceberg_table('writers', 't', true)")


def run_writers(stack, body) -> list[Exception]:
    """Runs body(connection, number, stop) in one thread for each writer; returns what went wrong."""
    stop, errors = threading.Event(), []

    def writer(number: int) -> None:
        try:
            with stack.connect() as connection:
                body(connection, number, stop)
        except Exception as error:  # noqa: BLE001 - collected for the assertion
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=writer, args=(n,)) for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    stop.wait(SECONDS)
    stop.set()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "a writer hangs"
    return errors


def test_every_acknowledged_insert_is_there_once(stack, table):
    acknowledged: list[int] = []

    def body(connection, number, stop):
        row = number
        while not stop.is_set():
            connection.execute(f"INSERT INTO {table} VALUES (%s, %s, 0)", (row, number))
            acknowledged.append(row)
            row += WRITERS

    assert run_writers(stack, body) == []
    with stack.connect() as connection:
        stored = Counter(row for (row,) in connection.execute(f"SELECT id FROM {table}"))
    assert len(acknowledged) > WRITERS
    assert stored == Counter(acknowledged)


def test_updates_of_one_row_add_up(stack, table):
    counts = [0] * WRITERS
    with stack.connect() as connection:
        connection.execute(f"INSERT INTO {table} VALUES (1, 0, 0), (2, 0, 0)")

    def body(connection, number, stop):
        while not stop.is_set():
            tag = connection.execute(f"UPDATE {table} SET n = n + 1 WHERE id = 1").statusmessage
            assert tag == "UPDATE 1"
            counts[number] += 1

    assert run_writers(stack, body) == []
    with stack.connect() as connection:
        rows = connection.execute(f"SELECT id, n FROM {table} ORDER BY id").fetchall()
    assert rows == [(1, sum(counts)), (2, 0)]
    assert sum(counts) > WRITERS


def test_a_second_writer_waits_and_lock_timeout_applies(stack, table):
    with stack.connect(autocommit=False) as first, stack.connect() as second:
        first.execute(f"INSERT INTO {table} VALUES (1, 0, 0)")
        second.execute("SET lock_timeout = '200ms'")
        began = time.monotonic()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            second.execute(f"INSERT INTO {table} VALUES (2, 0, 0)")
        assert time.monotonic() - began < 2
        assert second.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
        first.commit()
        second.execute(f"INSERT INTO {table} VALUES (2, 0, 0)")
        assert second.execute(f"SELECT count(*) FROM {table}").fetchone() == (2,)


def test_tables_in_opposite_order_are_a_deadlock(stack, table):
    with stack.connect() as connection:
        connection.execute("SELECT coldfront.create_iceberg_table('writers', 'u', '[{\"name\": \"id\", \"type\": \"bigint\"}]')")
    with stack.connect(autocommit=False) as first, stack.connect(autocommit=False) as second:
        first.execute(f"INSERT INTO {table} VALUES (1, 0, 0)")
        second.execute("INSERT INTO writers.u VALUES (1)")
        outcome = []

        def cross() -> None:
            try:
                second.execute(f"INSERT INTO {table} VALUES (2, 0, 0)")
                second.commit()
            except psycopg.Error as error:
                outcome.append(error.sqlstate)
                second.rollback()

        thread = threading.Thread(target=cross)
        thread.start()
        try:
            first.execute("INSERT INTO writers.u VALUES (2)")
            first.commit()
        except psycopg.Error as error:
            outcome.append(error.sqlstate)
            first.rollback()
        thread.join(60)
    assert outcome == ["40P01"]
    with stack.connect() as connection:
        assert connection.execute("SELECT count(*) FROM writers.u").fetchone() == (1,)
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)
        connection.execute("SELECT coldfront.drop_iceberg_table('writers', 'u', true)")
