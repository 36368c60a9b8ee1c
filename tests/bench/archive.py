"""Measurements of tiered tables: every number beside the one it is measured against, in one run on one machine.

    archive.py [export|writers|reads|all]    BENCH_ARCHIVE_ROWS, BENCH_SECONDS, BENCH_ROUNDS

export   seconds up to the committed snapshot, once, against DuckDB's postgres extension writing Parquet with the same zstd level from
         the same partitions, to the same store and to a local file, and against COPY (FORMAT binary) to /dev/null, which only reads;
         beside it the whole pass, with the comparison of every row and the cutover
writers  p99 and worst latency of statements through the view during a pass, against the same without one
reads    a hot query through the view against the hot table; aggregates over 90 % cold rows against a heap table
Prints a table and writes JSON under .local/bench/.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import lake  # noqa: E402
from archive import Archiver, bound, cutoff, month  # noqa: E402
from bench import alternate, report, timed  # noqa: E402
from probe import create  # noqa: E402
from stack import LOCAL, Stack  # noqa: E402

ROWS = int(os.environ.get("BENCH_ARCHIVE_ROWS", 10_000_000))
SECONDS = int(os.environ.get("BENCH_SECONDS", 10))
WRITERS = 2
COLUMNS = (
    "id bigint NOT NULL, ts timestamptz NOT NULL, device int NOT NULL, status smallint, ok boolean, day date,"
    " value double precision, price numeric(12,2), kind text, note text"
)
MONTHS = 4  # the last of them is hot
HOT = 0.1  # of the rows
PERCENT = 0.99
HOT_ROWS = int(ROWS * HOT)
COLD_ROWS = (ROWS - HOT_ROWS) // (MONTHS - 1)  # of each month
FIRST_HOT = COLD_ROWS * (MONTHS - 1)


def rows_of(offset: int, first: int, count: int) -> str:
    """One month's rows, in the order of time."""
    return (
        f"SELECT {first} + i, {month(offset)} + i * (interval '28 days' / {count}), i % 5000, i % 5, i % 3 = 0, date '2026-01-01' + i % 300,"
        f" i * 0.5, (i % 100000) / 100.0, 'kind ' || i % 20, 'a note of some length for row ' || {first} + i FROM generate_series(0, {count} - 1) AS i"
    )


def make(db, name: str) -> list[str]:
    """A table of MONTHS partitions, the last of this month; returns the partitions, oldest first."""
    db.execute("CREATE SCHEMA IF NOT EXISTS b")
    db.execute(f"CREATE TABLE b.{name} ({COLUMNS}) PARTITION BY RANGE (ts)")
    leaves, first = [], 0
    for at in range(MONTHS):
        offset = at - MONTHS + 1
        leaves.append(f"{name}_{at}")
        db.execute(f"CREATE TABLE b.{leaves[-1]} PARTITION OF b.{name} FOR VALUES FROM ('{bound(db, offset)}') TO ('{bound(db, offset + 1)}')")
        count = HOT_ROWS if offset == 0 else COLD_ROWS
        db.execute(f"INSERT INTO b.{name} {rows_of(offset, first, count)}")
        first += count
    db.execute(f"CREATE INDEX ON b.{name} (id)")
    db.execute(f"VACUUM ANALYZE b.{name}")
    return leaves


def settle(db) -> None:
    """Lets the server and the kernel write what was made, so that it is not written while something is measured."""
    db.execute("CHECKPOINT")
    os.sync()


def register(archiver: Archiver, name: str) -> None:
    archiver.call("register", "--table", f"b.{name}", "--period", "monthly", "--hot-period", "1 second")


def logged(text: str, message: str) -> list[dict]:
    """Fields of the log lines with a message."""
    lines = [json.loads(line)["fields"] for line in text.splitlines() if line.startswith("{")]
    return [fields for fields in lines if fields.get("message") == message]


def run(archiver: Archiver, name: str) -> str:
    done = subprocess.run(archiver.command("run", "--table", f"b.{name}"), capture_output=True, text=True, env=archiver.environment())
    assert done.returncode == 0, done.stderr
    return done.stderr


def duckdb_export(stack: Stack, leaves: list[str], directory: str) -> float:
    """Seconds that DuckDB takes to write each partition as a Parquet file."""
    rival = duckdb.connect(config={"extension_directory": str(LOCAL / "duckdb/extensions")})
    rival.execute("LOAD postgres_scanner")
    rival.execute("LOAD httpfs")
    pg, env = stack.pg, stack.environment()
    rival.execute(f"ATTACH 'host=127.0.0.1 port={pg.port} user={pg.user} dbname={pg.dbname}' AS pg (TYPE postgres, READ_ONLY)")
    rival.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{env['S3_ACCESS_KEY']}', SECRET '{env['S3_SECRET_KEY']}', REGION '{env['S3_REGION']}',"
        f" ENDPOINT '{env['S3_ENDPOINT'].removeprefix('http://')}', USE_SSL false, URL_STYLE 'path')"
    )
    began = time.perf_counter()
    for leaf in leaves:
        rival.execute(f"COPY (FROM pg.b.{leaf}) TO '{directory}/{leaf}.parquet' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)")
    return time.perf_counter() - began


def export(stack: Stack, archiver: Archiver) -> list[dict]:
    with stack.connect() as db, tempfile.TemporaryDirectory() as directory:
        leaves = make(db, "exported")[:-1]
        settle(db)
        total = FIRST_HOT

        def copy() -> float:
            return sum(timed(db, f"COPY b.{leaf} TO '/dev/null' (FORMAT binary)") for leaf in leaves)

        # The store lets nobody write but below a table.
        create(db, "b", "rival", "id bigint")
        store = lake.catalog(stack.environment()).load_table(("b", "rival")).location() + "/data"
        store_s, disk_s = alternate(lambda: duckdb_export(stack, leaves, store), lambda: duckdb_export(stack, leaves, directory))
        binary_s, _ = alternate(copy, lambda: 0.0)
        size = sum(path.stat().st_size for path in Path(directory).iterdir())
        register(archiver, "exported")
        began = time.perf_counter()
        said = logged(run(archiver, "exported"), "exported")
        passed = time.perf_counter() - began
        assert sum(fields["rows"] for fields in said) == total, said
        assert db.execute("SELECT count(*) FROM b.exported").fetchone() == (FIRST_HOT + HOT_ROWS,)
        ours = sum(fields["seconds"] for fields in said)
        files = lake.catalog(stack.environment()).load_table(("b", "exported")).inspect.files().to_pylist()
    bytes_of = {"ours_bytes": sum(file["file_size_in_bytes"] for file in files), "other_bytes": size}
    what, duckdb_postgres = f"export of {total:,} rows to the snapshot", "DuckDB postgres → zstd Parquet"
    return [
        {"what": what, "against": f"{duckdb_postgres}, same store", "ratio": store_s / ours, "goal": 2.0, "ours_s": ours, "other_s": store_s,
         **bytes_of},
        {"what": "the same", "against": f"{duckdb_postgres}, local file", "ratio": disk_s / ours, "goal": 2.0, "ours_s": ours, "other_s": disk_s,
         **bytes_of},
        {"what": "the same", "against": "COPY BINARY to /dev/null", "ratio": binary_s / ours, "goal": None, "ours_s": ours, "other_s": binary_s},
        {"what": f"whole pass, {passed:.1f} s", "against": f"{duckdb_postgres}, same store", "ratio": store_s / passed, "goal": None, "ours_s": passed,
         "other_s": store_s},
    ]  # fmt: skip


class Writers:
    """Sessions that insert and update hot rows through the view, and their latencies in seconds."""

    def __init__(self, stack: Stack, name: str):
        self.stack, self.name, self.stop, self.taken = stack, name, threading.Event(), []
        self.errors: list[Exception] = []
        self.threads = [threading.Thread(target=self._work, args=(number,)) for number in range(WRITERS)]

    def _work(self, number: int) -> None:
        chance, taken = random.Random(number), []
        try:
            with self.stack.connect() as db:
                while not self.stop.is_set():
                    target = FIRST_HOT + chance.randrange(HOT_ROWS)
                    began = time.perf_counter()
                    if chance.random() < 0.5:
                        db.execute(f"INSERT INTO b.{self.name} (id, ts, device, value, kind) VALUES (-1, now(), 1, 1, 'kind')")
                    else:
                        db.execute(f"UPDATE b.{self.name} SET value = value + 1 WHERE id = {target} AND ts >= {month(0)}")
                    taken.append(time.perf_counter() - began)
                    time.sleep(0.002)
        except Exception as error:  # told by the measurement
            self.errors.append(error)
        self.taken.extend(taken)

    def during(self, work) -> tuple[float, float, int]:
        """p99, maximum and number of statements while `work` runs."""
        for thread in self.threads:
            thread.start()
        work()
        self.stop.set()
        for thread in self.threads:
            thread.join()
        assert not self.errors, self.errors
        taken = sorted(self.taken)
        return taken[int(len(taken) * PERCENT)], taken[-1], len(taken)


def writers(stack: Stack, archiver: Archiver) -> list[dict]:
    with stack.connect() as db:
        make(db, "written")
        # The first pass puts the view in place.
        archiver.call("register", "--table", "b.written", "--period", "monthly", "--hot-period", f"{MONTHS} months")
        run(archiver, "written")
        settle(db)
        without = Writers(stack, "written").during(lambda: time.sleep(SECONDS))
        archiver.call("set", "--table", "b.written", "--hot-period", "1 second")
        during = Writers(stack, "written").during(lambda: run(archiver, "written"))
        assert cutoff(db, "b", "written") is not None
    return [
        {"what": f"p99 of {WRITERS} writers during a pass, ms {during[0] * 1e3:.2f}", "against": f"without, ms {without[0] * 1e3:.2f}",
         "ratio": during[0] / without[0], "goal": 2.0, "ours_s": during[0], "other_s": without[0], "statements": during[2]},
        {"what": f"longest stall, ms {during[1] * 1e3:.1f}", "against": "200 ms", "ratio": during[1] / 0.2, "goal": 1.0,
         "ours_s": during[1], "other_s": without[1]},
    ]  # fmt: skip


def again(db, statement: str, times: int = 1):
    """Measures a statement run so often."""
    return lambda: sum(timed(db, statement) for _ in range(times))


def reads(stack: Stack, archiver: Archiver) -> list[dict]:
    results = []
    with stack.connect() as db:
        make(db, "read")
        db.execute(f"CREATE TABLE b.original ({COLUMNS})")
        db.execute("INSERT INTO b.original SELECT * FROM b.read")
        db.execute("VACUUM ANALYZE b.original")
        register(archiver, "read")
        run(archiver, "read")
        db.execute("VACUUM ANALYZE b._read")
        settle(db)
        hot = f"ts >= '{bound(db, 0)} 00:00+00'"
        one = FIRST_HOT + 17
        for what, query, repeat in (
            ("hot aggregate", f"SELECT count(*), sum(value) FROM b.{{}} WHERE {hot}", 10),
            ("hot row by id", f"SELECT * FROM b.{{}} WHERE id = {one} AND {hot}", 500),
        ):
            ours, other = alternate(again(db, query.format("read"), repeat), again(db, query.format("_read"), repeat))
            results.append({"what": f"{what} through the view", "against": "the hot table", "ratio": other / ours, "goal": 0.95, "ours_s": ours, "other_s": other})
        cold = f"WHERE ts < '{bound(db, 0)} 00:00+00'"
        for what, query in (
            ("count(*)", "SELECT count(*) FROM b.{} {}"),
            ("sum(price), min(ts), max(ts)", "SELECT sum(price), min(ts), max(ts) FROM b.{} {}"),
            ("GROUP BY kind", "SELECT kind, count(*), avg(price) FROM b.{} {} GROUP BY kind ORDER BY kind"),
            # Its value depends on the order of rows, so PostgreSQL adds them up itself.
            ("sum of floats", "SELECT round(sum(value)::numeric, 0) FROM b.{} {}"),
        ):
            for which, condition in (("90 % cold", ""), ("cold rows", cold)):
                ours_sql, other_sql = query.format("read", condition), query.format("original", condition)
                assert db.execute(ours_sql).fetchall() == db.execute(other_sql).fetchall(), what
                ours, other = alternate(again(db, ours_sql), again(db, other_sql))
                results.append({"what": f"{what}, {which}", "against": "heap", "ratio": other / ours, "goal": None if "floats" in what else 10.0, "ours_s": ours, "other_s": other})
    return results


PARTS = {"export": export, "writers": writers, "reads": reads}


def main(what: str) -> int:
    directory = LOCAL / "bench" / f"archive-{os.getpid()}"
    results = []
    with Stack(directory, settings={"shared_buffers": "2GB", "max_wal_size": "8GB"}) as stack:
        archiver = Archiver(stack, directory)
        for name, part in PARTS.items():
            if what in (name, "all"):
                results.extend(part(stack, archiver))
    report(results, "archive")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "all"))
