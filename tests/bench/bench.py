"""Side-by-side measurements of decoupled tables: every number is a ratio of two runs in one process on one machine.

    bench.py [writes|scan|point|all]      rows and seconds by BENCH_ROWS, BENCH_SCAN_ROWS, BENCH_SECONDS

Pairs alternate, and the median of the rounds counts, so that a busy machine hits both sides alike.
Prints a table and writes JSON under .local/bench/.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from stack import LOCAL, PG_HOME, Stack  # noqa: E402

ROWS = int(os.environ.get("BENCH_ROWS", 1_000_000))
SCAN_ROWS = int(os.environ.get("BENCH_SCAN_ROWS", 5_000_000))
SECONDS = int(os.environ.get("BENCH_SECONDS", 8))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", 3))
COLUMNS = [("id", "bigint"), ("ts", "timestamptz"), ("v", "double precision"), ("s", "text")]
SOURCE = "SELECT g, timestamptz '2025-01-01' + g * interval '1 second', g * 0.5, 'row ' || g % 1000 FROM generate_series(1, {n}) g"


def timed(connection, statement: str) -> float:
    began = time.perf_counter()
    connection.execute(statement)
    return time.perf_counter() - began


def alternate(first, second) -> tuple[float, float]:
    """Medians of two measurements taken in turns, each as often before the other as after it."""
    taken: tuple[list[float], list[float]] = ([], [])
    for at in range(ROUNDS):
        for which in (0, 1) if at % 2 == 0 else (1, 0):
            taken[which].append((first, second)[which]())
    return statistics.median(taken[0]), statistics.median(taken[1])


def report(results: list[dict], name: str) -> None:
    """Prints the results, and writes them under .local/bench/."""
    print(f"{'what':55} {'against':32} {'ratio':>7} {'goal':>6}")
    for result in results:
        goal = "–" if result["goal"] is None else f"{result['goal']:.2f}"
        print(f"{result['what']:55} {result['against']:32} {result['ratio']:7.2f} {goal:>6}")
    path = LOCAL / "bench" / f"{name}.json"
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written to {path}")


def create_cold(connection, name: str) -> None:
    columns = json.dumps([{"name": n, "type": t} for n, t in COLUMNS])
    connection.execute("SELECT coldfront.create_iceberg_table('public', %s, %s::jsonb)", (name, columns))


def create_heap(connection, name: str) -> None:
    connection.execute(f"CREATE TABLE {name} ({', '.join(f'{n} {t}' for n, t in COLUMNS)})")


def writes(stack: Stack) -> dict:
    """INSERT … SELECT of the same rows from a heap table into a heap and into a decoupled table."""
    with stack.connect(autocommit=True) as connection:
        create_heap(connection, "source")
        connection.execute("INSERT INTO source " + SOURCE.format(n=ROWS))
        connection.execute("VACUUM ANALYZE source")
        create_heap(connection, "heap_target")
        create_cold(connection, "cold_target")

        def into(table: str) -> float:
            return timed(connection, f"INSERT INTO {table} SELECT * FROM source")

        heap, cold = alternate(lambda: into("heap_target"), lambda: into("cold_target"))
        expected = ROWS * ROUNDS
        for table in ("heap_target", "cold_target"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (expected,)
    return {"what": f"INSERT … SELECT of {ROWS:,} rows", "against": "heap", "ratio": heap / cold, "goal": 1.0,
            "other_s": heap, "ours_s": cold}


def scan(stack: Stack) -> dict:
    """All rows to PostgreSQL's executor, against postgres_fdw over loopback from a heap table."""
    # A function that PostgreSQL evaluates for each row keeps both sides from aggregating remotely.
    with stack.connect(autocommit=True) as connection:
        create_heap(connection, "far")
        connection.execute("INSERT INTO far " + SOURCE.format(n=SCAN_ROWS))
        connection.execute("VACUUM ANALYZE far")
        create_cold(connection, "cold_far")
        connection.execute("INSERT INTO cold_far SELECT * FROM far")
        port = connection.info.port
        connection.execute("CREATE EXTENSION postgres_fdw")
        connection.execute(
            "CREATE SERVER loopback FOREIGN DATA WRAPPER postgres_fdw OPTIONS"
            f" (host '127.0.0.1', port '{port}', dbname '{connection.info.dbname}', fetch_size '10000')"
        )
        connection.execute("CREATE USER MAPPING FOR CURRENT_USER SERVER loopback OPTIONS (user 'coldfront')")
        columns = ", ".join(f"{n} {t}" for n, t in COLUMNS)
        connection.execute(f"CREATE FOREIGN TABLE remote_far ({columns}) SERVER loopback OPTIONS (table_name 'far')")

        def pull(table: str) -> float:
            # OFFSET 0 keeps the aggregate above the rows.
            query = f"SELECT count(id), count(ts), count(v), count(s) FROM (SELECT * FROM {table} OFFSET 0) q"
            began = time.perf_counter()
            assert connection.execute(query).fetchone() == (SCAN_ROWS,) * 4
            return time.perf_counter() - began

        other, ours = alternate(lambda: pull("remote_far"), lambda: pull("cold_far"))
    return {"what": f"pulling {SCAN_ROWS:,} rows × {len(COLUMNS)} columns", "against": "postgres_fdw, loopback",
            "ratio": other / ours, "goal": 5.0, "other_s": other, "ours_s": ours}


def point(stack: Stack, directory: Path) -> dict:
    """pgbench -S on the server with the library loaded against a server without it."""
    plain = Stack(directory / "plain", settings={"shared_preload_libraries": ""})
    plain.pg.start()
    plain.pg.ensure_database()

    def pgbench(postgres, *argv: str) -> str:
        with postgres.connect() as probe:
            host, port, user, database = probe.info.host, probe.info.port, probe.info.user, probe.info.dbname
        command = [PG_HOME / "bin" / "pgbench", "-h", host, "-p", str(port), "-U", user, *argv, database]
        env = {**os.environ, "LD_LIBRARY_PATH": str(PG_HOME / "lib")}
        return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, env=env).stdout

    def rate(postgres) -> float:
        output = pgbench(postgres, "-S", "-n", "-c", "1", "-T", str(SECONDS), "-M", "prepared")
        return float(re.search(r"tps = ([\d.]+)", output)[1])

    try:
        for postgres in (stack.pg, plain.pg):
            pgbench(postgres, "-i", "-q", "-s", "5")
            rate(postgres)
        without, loaded = alternate(lambda: rate(plain.pg), lambda: rate(stack.pg))
    finally:
        plain.pg.stop()
    return {"what": "pgbench -S, transactions per second", "against": "server without the library",
            "ratio": loaded / without, "goal": 0.99, "other_tps": without, "ours_tps": loaded}


def main(what: str) -> int:
    directory = LOCAL / "bench" / f"run-{os.getpid()}"
    results = []
    with Stack(directory / "stack") as stack:
        if what in ("writes", "all"):
            results.append(writes(stack))
        if what in ("scan", "all"):
            results.append(scan(stack))
        if what in ("point", "all"):
            results.append(point(stack, directory))
    report(results, "decoupled")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "all"))
