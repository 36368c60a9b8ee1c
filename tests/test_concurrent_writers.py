"""Many sessions write at once, in every manner: what was acknowledged is there once, nothing else is, and no client sees a
conflict that waiting could have avoided. SECONDS makes the runs longer, SEED repeats the choices of one.

A heap table that is changed in the same transactions is the oracle: the cold write lock gives both one order.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter

import psycopg
import pytest

import lake
from probe import create, left_over, nothing_staged

pytestmark = pytest.mark.coldfront
SECONDS = float(os.environ.get("SECONDS", 8))
SEED = int(os.environ.get("SEED", random.randrange(1 << 30)))
WRITERS = 8


@pytest.fixture
def db(stack):
    with stack.connect() as session:
        session.execute("SET client_min_messages = warning")
        session.execute("CREATE SCHEMA w")
        create(session, "w", "a", "id bigint, writer int, n int")
        create(session, "w", "b", "id bigint, writer int, n int")
        session.execute("CREATE TABLE w.heap_a (id bigint, writer int, n int); CREATE TABLE w.heap_b (LIKE w.heap_a)")
        left = left_over(stack)
        yield session
        nothing_staged(stack, left)
        for name in "ab":
            session.execute("SELECT coldfront.drop_iceberg_table('w', %s, true)", [name])
        session.execute("DROP SCHEMA w CASCADE")


class Crowd:
    """Writers in threads, each with its session, until the time is up; an error that the body lets through ends all."""

    def __init__(self, stack, body):
        self.stack, self.body = stack, body
        self.stop, self.errors, self.pids = threading.Event(), [], []

    def _work(self, number: int) -> None:
        try:
            with self.stack.connect() as db:
                self.pids.append(db.info.backend_pid)
                rng = random.Random(f"{SEED}/{number}")
                while not self.stop.is_set():
                    self.body(db, number, rng)
        except Exception as error:  # noqa: BLE001 - collected for the assertion
            self.errors.append(error)
            self.stop.set()

    def run(self, meanwhile=None) -> None:
        print(f"SEED={SEED}")
        threads = [threading.Thread(target=self._work, args=(n,)) for n in range(WRITERS)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + SECONDS
        while not self.stop.wait(0.1) and time.monotonic() < until:
            if meanwhile:
                meanwhile(self.pids)
        self.stop.set()
        for thread in threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in threads), "a writer hangs"
        assert self.errors == [], f"SEED={SEED}"


def test_inserts_of_every_manner(stack, db):
    """Single rows, many rows, COPY, SELECT, and transactions over two tables and a heap. No error of any kind is allowed."""
    acknowledged: dict[str, Counter] = {"a": Counter(), "b": Counter(), "heap_a": Counter()}
    numbers = [iter(range(n, 1 << 40, WRITERS)) for n in range(WRITERS)]

    def body(session: psycopg.Connection, writer: int, rng: random.Random) -> None:
        ids = [next(numbers[writer]) for _ in range(rng.choice([1, 1, 1, 5, 50]))]
        values = ", ".join(f"({i}, {writer}, 0)" for i in ids)
        manner = writer % 4
        if manner == 0:
            assert session.execute(f"INSERT INTO w.a VALUES {values}").rowcount == len(ids)
            acknowledged["a"].update(ids)
        elif manner == 1:
            with session.cursor() as cursor, cursor.copy("COPY w.b FROM STDIN") as copy:
                for i in ids:
                    copy.write_row((i, writer, 0))
            acknowledged["b"].update(ids)
        elif manner == 2:
            found = session.execute("INSERT INTO w.a SELECT i, %s, 0 FROM unnest(%s::bigint[]) AS i RETURNING id", [writer, ids]).fetchall()
            acknowledged["a"].update(i for (i,) in found)
            assert [i for (i,) in found] == ids
        else:
            keep = rng.random() < 0.7
            session.execute("BEGIN")
            for table in ("w.a", "w.heap_a", "w.b"):
                session.execute(f"INSERT INTO {table} VALUES {values}")
            assert session.execute("SELECT count(*) FROM w.b WHERE id = ANY (%s)", [ids]).fetchone() == (len(ids),)
            session.execute("COMMIT" if keep else "ROLLBACK")
            if keep:
                for counter in acknowledged.values():
                    counter.update(ids)

    Crowd(stack, body).run()
    catalog = lake.catalog(stack.environment())
    for table, expected in acknowledged.items():
        assert Counter(i for (i,) in db.execute(f"SELECT id FROM w.{table}")) == expected, table
        assert sum(expected.values()) > 0
        if not table.startswith("heap"):
            (ref,) = db.execute("SELECT iceberg_table FROM coldfront.tiered_views WHERE schema_name = 'w' AND table_name = %s", [table]).fetchone()
            assert Counter(lake.load(catalog, ref).scan().to_arrow()["id"].to_pylist()) == expected, f"{table} for another reader"


STATEMENTS = [
    "INSERT INTO {t} VALUES ({id}, {writer}, 0)",
    "INSERT INTO {t} SELECT id + 100000, {writer}, n FROM {t} WHERE id % 7 = {id} % 7 AND id < 50",
    "UPDATE {t} SET n = n + 1 WHERE id % 5 = {id} % 5",
    "UPDATE {t} SET writer = {writer}, n = n + {id} % 3 WHERE n % 2 = 0",
    "DELETE FROM {t} WHERE id % 11 = {id} % 11 AND n > 3",
    "DELETE FROM {t} WHERE id >= 100000",
]


def test_changes_against_a_heap(stack, db):
    """Each transaction does the same to a cold table and to a heap, in any order of tables, and others are cancelled at
    random. Only what a heap shows too may go wrong: a deadlock, or the cancel."""
    for table in ("a", "heap_a", "b", "heap_b"):
        db.execute(f"INSERT INTO w.{table} SELECT g, 0, 0 FROM generate_series(1, 200) AS g")
    done = Counter()

    def body(session: psycopg.Connection, writer: int, rng: random.Random) -> None:
        try:
            session.execute("BEGIN")
            for table in rng.sample(["a", "b"], rng.choice([1, 1, 2])):
                statement = rng.choice(STATEMENTS)
                more = {"id": rng.randrange(1, 200), "writer": writer}
                cold = session.execute(statement.format(t=f"w.{table}", **more))
                heap = session.execute(statement.format(t=f"w.heap_{table}", **more))
                assert cold.statusmessage == heap.statusmessage, statement
            session.execute("COMMIT" if rng.random() < 0.8 else "ROLLBACK")
            done["finished"] += 1
        except (psycopg.errors.DeadlockDetected, psycopg.errors.QueryCanceled) as error:
            done[error.sqlstate] += 1
            session.rollback()

    canceller = random.Random(SEED)

    def cancel_one(pids: list[int]) -> None:
        if pids and canceller.random() < 0.2:
            db.execute("SELECT pg_cancel_backend(%s)", [canceller.choice(pids)])

    Crowd(stack, body).run(cancel_one)
    print(dict(done))
    assert done["finished"] > WRITERS
    for table in "ab":
        cold, heap = (Counter(db.execute(f"SELECT id, writer, n FROM w.{t}").fetchall()) for t in (table, f"heap_{table}"))
        assert cold == heap, f"SEED={SEED} {table}: only cold {list((cold - heap).items())[:5]}, only heap {list((heap - cold).items())[:5]}"


def test_readers_see_whole_commits_only(stack, db):
    """Updates keep a sum: every statement sees it whole, and under REPEATABLE READ two statements see the same rows."""
    db.execute("INSERT INTO w.a SELECT g, 0, 10 FROM generate_series(1, 20) AS g")
    reads = Counter()

    def body(session: psycopg.Connection, number: int, rng: random.Random) -> None:
        if number < 2:
            i, j = rng.sample(range(1, 21), 2)
            session.execute("UPDATE w.a SET n = n + CASE id WHEN %s THEN 1 ELSE -1 END WHERE id IN (%s, %s)", [i, i, j])
            reads["writes"] += 1
        else:
            assert session.execute("SELECT count(*), sum(n) FROM w.a").fetchone() == (20, 200)
            session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            first = session.execute("SELECT id, n FROM w.a ORDER BY id").fetchall()
            assert session.execute("SELECT id, n FROM w.a ORDER BY id").fetchall() == first
            session.execute("COMMIT")
            reads["reads"] += 1

    Crowd(stack, body).run()
    print(dict(reads))
    assert reads["writes"] > 2 and reads["reads"] > WRITERS
