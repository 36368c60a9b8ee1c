"""Kills something at a random moment of an archive pass, again and again, while writers and readers are at work.

    torture.py [--rounds N] [--seed S] [--verbose]

A round makes a table of two months and starts writers, which replace, change and move rows of the month that is being
archived in transactions that keep the number of rows and the sum of their amounts, and a reader, which checks both all
the time. Then the archiver runs, and after a random delay one of archiver, its backend, engine, postmaster, object store
is killed. Passes are repeated until one succeeds; then every row has to be there exactly once and nothing may be left over.
The last line says how many rounds failed; the exit code is 1 if any did. The seed replays the delays and the victims.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from archive import Archiver, bound, cutoff, left_overs, month, partitions  # noqa: E402
from probe import engine  # noqa: E402
from stack import LOCAL, Stack, StackError, wait_until  # noqa: E402

VICTIMS = ["archiver", "backend", "engine", "postmaster", "store", "nobody"]
ROWS = 400  # in each month
WRITERS = 2


class Violation(AssertionError):
    """What must never be seen."""


class Table:
    """The table of one round, and what has to hold for it at all times."""

    def __init__(self, stack: Stack, number: int):
        self.stack, self.schema = stack, f"torture_{number}"
        self.name = f"{self.schema}.events"
        self.months = [-2, 0]
        self.rows = ROWS * len(self.months)
        self.sum = sum(range(1, self.rows + 1))

    def make(self) -> None:
        with self.stack.connect() as db:
            db.execute(f"CREATE SCHEMA {self.schema}")
            db.execute(f"CREATE TABLE {self.name} (id bigint NOT NULL, ts timestamptz NOT NULL, amount bigint, note text) PARTITION BY RANGE (ts)")
            for at, offset in enumerate(self.months):
                low, high = bound(db, offset), bound(db, offset + 1)
                db.execute(f"CREATE TABLE {self.schema}.m{9 - at} PARTITION OF {self.name} FOR VALUES FROM ('{low}') TO ('{high}')")
                db.execute(
                    f"INSERT INTO {self.name} SELECT i, {month(offset)} + random() * interval '27 days', i, 'first'"
                    f" FROM generate_series({at * ROWS + 1}, {(at + 1) * ROWS}) AS i"
                )

    def check(self, db: psycopg.Connection) -> None:
        count, total, distinct = db.execute(f"SELECT count(*), sum(amount), count(DISTINCT amount) FROM {self.name}").fetchone()
        if (count, total, distinct) != (self.rows, self.sum, self.rows):
            raise Violation(f"{count} rows, {distinct} of them different, sum {total}; there have to be {self.rows} and {self.sum}")

    def drop(self) -> None:
        with self.stack.connect() as db:
            db.execute("SET client_min_messages = warning")
            db.execute("SELECT coldfront.drop_iceberg_table(%s, 'events', true)", [self.schema])
            db.execute(f"DROP SCHEMA {self.schema} CASCADE")


class Worker(threading.Thread):
    """Does one thing over and over; an error ends its connection and nothing else, a violation ends the round."""

    def __init__(self, table: Table, work):
        super().__init__(daemon=True)
        self.table, self.work = table, work
        self.stopping = threading.Event()
        self.violation: Exception | None = None
        self.done = 0

    def run(self) -> None:
        db = None
        while not self.stopping.is_set():
            try:
                db = db or self.table.stack.connect(options="-c statement_timeout=30s")
                self.work(db)
                self.done += 1
            except Violation as violation:
                self.violation = violation
                return
            except (psycopg.Error, OSError):
                if db is not None:
                    db.close()
                db = None
                time.sleep(0.05)

    def stop(self) -> None:
        self.stopping.set()
        self.join(60)


def writer(table: Table, dice: random.Random):
    """Statements on the month that is archived; each transaction keeps count and sum."""
    month_of = f"{month(-2)}::timestamptz + {{}} * interval '27 days'"

    def work(db: psycopg.Connection) -> None:
        amount = dice.randint(1, ROWS)
        narrow = f"amount = {amount} AND ts >= {month(-2)}::timestamptz AND ts < {month(-1)}::timestamptz"
        what = dice.choice(["note", "move", "replace", "twice"])
        with db.transaction():
            if what == "note":
                db.execute(f"UPDATE {table.name} SET note = note || '.' WHERE {narrow}")
            elif what == "move":
                db.execute(f"UPDATE {table.name} SET ts = {month_of.format(dice.random())} WHERE {narrow}")
            else:
                for _ in range(2 if what == "twice" else 1):
                    found = db.execute(f"DELETE FROM {table.name} WHERE {narrow} RETURNING id").fetchall()
                    for (row,) in found:
                        stamp = month_of.format(dice.random())
                        db.execute(f"INSERT INTO {table.name} VALUES ({row}, {stamp}, {amount}, 'again')")
        time.sleep(dice.random() * 0.1)

    return work


def kill(stack: Stack, victim: str, archiver: subprocess.Popen) -> None:
    """kill -9 of the victim; what does not come back by itself is started again."""
    try:
        if victim == "archiver":
            archiver.kill()
        elif victim == "backend":
            with stack.connect() as db:
                found = db.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'coldfront-archiver'").fetchall()
            for (pid,) in found:
                psutil.Process(pid).kill()
        elif victim == "engine":
            process = engine(stack)
            process and process.kill()
        elif victim == "postmaster":
            stack.pg.stop(signal.SIGQUIT)
            stack.pg.start()
        elif victim == "store":
            stack.weed.kill()
            time.sleep(0.3)
            stack.weed.start()
    except (psutil.NoSuchProcess, psycopg.Error):
        pass  # it was gone already, or the server is on its way down


def finish(archiver: Archiver, table: Table) -> None:
    """Passes until one succeeds."""
    said = ""

    def succeeds() -> bool:
        nonlocal said
        done = archiver.run(table.name, code=None)
        said = done.stderr
        # The session of an archiver that was killed may still be at work.
        return done.returncode == 0 and "another archiver" not in said

    try:
        wait_until("a pass to succeed", succeeds, 120)
    except StackError:
        raise Violation(f"no pass succeeds: {said[-2000:]}") from None


def play(stack: Stack, number: int, dice: random.Random, verbose: bool) -> None:
    table = Table(stack, number)
    table.make()
    archiver = Archiver(stack, Path(tempfile.gettempdir()))
    archiver.call("register", "--table", table.name, "--hot-period", "1 month", "--premake", "1")
    delay, victim = dice.uniform(0, 1.6), dice.choice(VICTIMS)
    workers = [Worker(table, writer(table, random.Random(dice.random()))) for _ in range(WRITERS)]
    workers.append(Worker(table, table.check))
    for worker in workers:
        worker.start()
    log = open(Path(tempfile.gettempdir()) / f"coldfront-torture-{os.getpid()}.log", "w")
    try:
        process = subprocess.Popen(archiver.command("run", "--table", table.name), env=archiver.environment(), stderr=log, stdout=log)
        time.sleep(delay)
        kill(stack, victim, process)
        process.wait(120)  # a pass that lost its database or its engine ends by itself
        finish(archiver, table)
    finally:
        for worker in workers:
            worker.stop()
        log.close()
    for worker in workers:
        if worker.violation:
            raise worker.violation
    with stack.connect() as db:
        table.check(db)
        problems = left_overs(db, table.schema)
        hot = partitions(db, f"{table.schema}._events")
        if problems or len(hot) != 2 or not (cutoff(db, table.schema, "events") or "").startswith(bound(db, -1)):
            raise Violation(f"left over: {problems}; partitions {hot}; cutoff {cutoff(db, table.schema, 'events')}")
    if verbose or number % 10 == 9:
        print(f"round {number}: {victim} after {delay:.2f} s; {[w.done for w in workers]} statements", flush=True)
    table.drop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randint(0, 2**31))
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    os.umask(0o022)  # PostgreSQL's user has to pass through our directories
    print(f"torture: seed {arguments.seed}", flush=True)
    failed = 0
    with Stack(LOCAL / "tests" / f"torture-{os.getpid()}", settings={"fsync": "off"}) as stack:
        for number in range(arguments.rounds):
            try:
                play(stack, number, random.Random(f"{arguments.seed}/{number}"), arguments.verbose)
            except Exception as error:  # whatever it is, the round failed and the next one is of interest
                failed += 1
                stack.keep = True
                print(f"round {number} failed: {type(error).__name__}: {error}", flush=True)
                with stack.connect() as db:
                    db.execute("DELETE FROM coldfront.partition_config")
    print(f"torture: {arguments.rounds} rounds, seed {arguments.seed}, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
