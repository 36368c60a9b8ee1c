"""Writers at work while the compactor loops with tiny targets, and kill -9 of the compactor at random moments of every task.

    torture.py [--rounds N] [--seed S] [--inserts N] [--writers N] [--verbose]

First, writers make N single-row inserts and a tenth as many updates and deletes, of a cold table and of its heap twin in
the same transactions, while compactors run task after task. At every check both tables are equal, and so is what pyiceberg
and DuckDB read from the catalog; no writer may meet an error. Then, in N rounds, a compactor with a random task is killed
after a random delay while writers are at work; every retained snapshot has to be readable in full, the rows have to be the
twin's, and after an orphan pass no object may be left that nothing refers to.
The last line says how many rounds failed; the exit code is 1 if any did. The seed replays choices and delays.
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

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import lake  # noqa: E402
from compact import Compactor, Retained, Shape  # noqa: E402
from probe import create  # noqa: E402
from stack import LOCAL, Stack, wait_until  # noqa: E402

TINY = ["--target-file-bytes", "60000", "--min-input-files", "3", "--delete-files", "2"]
TASKS = {
    "compact": TINY,
    "rewrite-manifests": ["--manifests-max", "3"],
    # Readers of this machine are done within the age; a shorter one would take files from under them.
    "expire": ["--older-than-hours", "0.005", "--retain-last", "2"],
    "orphans": ["--orphan-age-hours", "0", "--i-know"],
    "metadata": [],
}


class Violation(AssertionError):
    """What must never be seen."""


class Twins:
    """A cold table and a heap table that are written in the same transactions."""

    def __init__(self, stack: Stack, name: str):
        self.stack, self.name, self.env = stack, name, stack.environment()
        self.retained = Retained(self.env)
        self.reference = f'"ice"."tc"."{name}"'
        with stack.connect() as db:
            db.execute("SET client_min_messages = warning")
            db.execute("CREATE SCHEMA IF NOT EXISTS tc")
            create(db, "tc", name, "id bigint, v text, n int")
            db.execute(f"CREATE TABLE tc.heap_{name} (id bigint, v text, n int)")

    def both(self, db: psycopg.Connection, sql: str) -> None:
        with db.transaction():
            for table in (f"tc.{self.name}", f"tc.heap_{self.name}"):
                db.execute(sql.replace("{}", table))

    def check(self, db: psycopg.Connection, foreign: bool = False) -> int:
        """Compares while nobody can write; returns the number of rows."""
        with db.transaction():
            db.execute("SELECT coldfront._claim_iceberg_external(%s)", [self.reference])
            cold, heap = (db.execute(f"SELECT id, v, n FROM tc.{t} ORDER BY 1, 2, 3").fetchall() for t in (self.name, f"heap_{self.name}"))
            if cold != heap:
                raise Violation(f"the table has {len(cold)} rows and its twin {len(heap)}: {sorted(set(cold) ^ set(heap))[:5]}")
            if foreign:
                if Shape(self.env, "tc", self.name).rows() != sorted(heap, key=repr):
                    raise Violation("pyiceberg reads something else")
                query = f"SELECT r['n'], r['s'] FROM duckdb.query($q$SELECT count(*) AS n, coalesce(sum(id), 0)::bigint AS s FROM {self.reference}$q$) AS r"
                count, total = map(int, db.execute(query).fetchone())
                if (count, total) != (len(heap), sum(row[0] for row in heap)):
                    raise Violation("DuckDB reads something else")
            return len(heap)

    def garbage(self) -> set[str]:
        found = {key for key in lake.objects(f"tc/{self.name}/", self.env) if not key.endswith(".metadata.json")}
        return found - lake.referenced(lake.catalog(self.env).load_table(("tc", self.name)), self.retained.manifests)

    def drop(self) -> None:
        with self.stack.connect() as db:
            db.execute("SET client_min_messages = warning")
            db.execute("SELECT coldfront.drop_iceberg_table('tc', %s, true)", [self.name])
            db.execute(f"DROP TABLE tc.heap_{self.name}")


class Writers:
    """Sessions that insert, update and delete single rows until told to stop, or until their work is done."""

    def __init__(self, twins: Twins, rng: random.Random, count: int, work: list[str]):
        self.twins, self.errors, self.stop = twins, [], threading.Event()
        self.lock, self.work = threading.Lock(), work
        self.threads = [threading.Thread(target=self._write, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _write(self) -> None:
        try:
            with self.twins.stack.connect() as db:
                while not self.stop.is_set():
                    with self.lock:
                        if not self.work:
                            return
                        sql = self.work.pop()
                    self.twins.both(db, sql)
        except Exception as error:  # noqa: BLE001 - reported by whoever started the writers
            self.errors.append(error)

    def busy(self) -> bool:
        return any(thread.is_alive() for thread in self.threads)

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(120)
        if self.errors:
            raise Violation(f"a writer met {self.errors[0]!r}")


def statements(rng: random.Random, inserts: int) -> list[str]:
    """Inserts of single rows, a tenth as many updates and deletes between them."""
    out = [f"INSERT INTO {{}} VALUES ({n}, 'v{n}', 0)" for n in range(inserts)]
    for _ in range(inserts // 10):
        out.insert(rng.randrange(len(out)), f"UPDATE {{}} SET v = 'u' || v, n = n + 1 WHERE id = {rng.randrange(inserts)}")
        out.insert(rng.randrange(len(out)), f"DELETE FROM {{}} WHERE id = {rng.randrange(inserts)}")
    return out


def mixed(stack: Stack, compactor: Compactor, rng: random.Random, inserts: int, writers: int, verbose: bool) -> None:
    twins = Twins(stack, "mixed")
    at_work = Writers(twins, rng, writers, statements(rng, inserts))
    began, checks, runs = time.monotonic(), 0, 0
    with stack.connect() as db:
        while at_work.busy():
            task = rng.choice(["compact", "compact", "compact", *TASKS])
            compactor.run("tc.mixed", task, *TASKS[task])
            runs += 1
            if runs % 3 == 0:
                twins.check(db, foreign=runs % 9 == 0)
                checks += 1
            if verbose and runs % 10 == 0:
                shape = Shape(twins.env, "tc", "mixed")
                print(f"{len(at_work.work)} statements to go, {shape.data_files} + {shape.delete_files} files, {runs} runs", flush=True)
        at_work.end()
        for task in ("compact", "rewrite-manifests", "compact"):
            compactor.run("tc.mixed", task, *TASKS[task])
        rows = twins.check(db, foreign=True)
    twins.retained.check("tc", "mixed")
    shape = Shape(twins.env, "tc", "mixed")
    files = shape.data_files + shape.delete_files
    print(f"mixed: {inserts} inserts, {inserts // 10} updates, {inserts // 10} deletes by {writers} writers in {time.monotonic() - began:.0f} s,"
          f" {runs} compactor runs, {checks + 1} checks equal, {rows} rows in {files} files", flush=True)  # fmt: skip
    if files >= 20:
        raise Violation(f"{files} files are left")
    twins.drop()


def killed(twins: Twins, compactor: Compactor, rng: random.Random, number: int) -> str:
    task, delay = rng.choice(["compact", "compact", *TASKS]), rng.uniform(0, 0.35)
    first = 1_000_000 + number * 1000
    work = [f"INSERT INTO {{}} SELECT g, 'k' || g, 0 FROM generate_series({first + at * 20}, {first + at * 20 + 19}) g" for at in range(6)]
    work.insert(3, f"DELETE FROM {{}} WHERE id % 50 = {rng.randrange(50)}")
    work.insert(1, f"UPDATE {{}} SET n = n + 1 WHERE id % 50 = {rng.randrange(50)}")
    at_work = Writers(twins, rng, 2, list(reversed(work)))
    if rng.random() < 0.5:
        at_work_first = time.monotonic() + 0.3
        while at_work.busy() and time.monotonic() < at_work_first:
            time.sleep(0.02)
    process = subprocess.Popen(
        compactor.command("run", "--table", f"tc.{twins.name}", "--task", task, *TASKS[task]),
        env=compactor.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    ended = process.wait(30)
    while at_work.busy() and not at_work.errors:
        time.sleep(0.02)
    at_work.end()
    with twins.stack.connect() as db:
        twins.check(db, foreign=number % 5 == 0)
    # Every file of every retained snapshot has to be there, and is read in full once; now and then all snapshots are scanned.
    twins.retained.check("tc", twins.name, scan=number % 10 == 9)
    wait_until("the lock of the killed one to go", lambda: "works on it" not in compactor.orphans_now(f"tc.{twins.name}").stderr)
    left = twins.garbage()
    if left:
        raise Violation(f"left over: {sorted(left)[:5]}")
    if number % 5 == 4:
        # Otherwise each round would leave more files than the one before.
        for task in ("compact", "expire"):
            compactor.run(f"tc.{twins.name}", task, *TASKS[task])
    return f"{task} {'killed' if ended == -signal.SIGKILL else 'ended before'} after {delay:.3f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--inserts", type=int, default=5000)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    rng, failed = random.Random(args.seed), 0
    directory = LOCAL / "torture_compactor" / str(os.getpid())
    with Stack(directory, settings={"fsync": "off"}) as stack, tempfile.TemporaryDirectory() as scratch:
        compactor = Compactor(stack, Path(scratch))
        if args.inserts:
            try:
                mixed(stack, compactor, rng, args.inserts, args.writers, args.verbose)
            except AssertionError as violation:
                failed += 1
                print(f"mixed: {violation}", flush=True)
        twins, kills = Twins(stack, "killed"), 0
        for number in range(args.rounds):
            try:
                said = killed(twins, compactor, rng, number)
                kills += "killed" in said
                if args.verbose or number % 10 == 9:
                    print(f"round {number}: {said}", flush=True)
            except AssertionError as violation:
                failed += 1
                print(f"round {number}: {violation}", flush=True)
        try:
            twins.retained.check("tc", twins.name)
            if args.rounds >= 10 and kills < args.rounds / 4:
                raise Violation(f"only {kills} compactors were still at work when they were killed")
        except AssertionError as violation:
            failed += 1
            print(f"in the end: {violation}", flush=True)
        stack.keep = failed > 0
    print(f"{args.rounds} rounds, {kills} killed at work, {failed} failed (seed {args.seed})")
    return 1 if failed else 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
