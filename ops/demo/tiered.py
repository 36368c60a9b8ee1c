"""The same flights in a tiered table: recent months in the heap, older ones in Iceberg, one relation."""

from __future__ import annotations

import os
import subprocess
import time
from datetime import date
from itertools import pairwise
from pathlib import Path

QUERIES = [
    "SELECT count(*), sum(distance), min(time_hour), max(time_hour) FROM trips",
    "SELECT date_trunc('month', time_hour) AS month, count(*), round(avg(dep_delay), 2) AS mean_delay_min\nFROM trips GROUP BY 1 ORDER BY 1",
    "SELECT origin, dest, time_hour FROM trips WHERE carrier = 'HA' ORDER BY time_hour DESC, flight LIMIT 3",
]


def archiver(demo, *arguments: str) -> None:
    """Run coldfront-archiver and show what it did."""
    print("  $ coldfront-archiver " + " ".join(f"'{a}'" if " " in a else a for a in arguments))
    started = time.monotonic()
    done = subprocess.run([Path(os.environ["PG_BIN"]) / "coldfront-archiver", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    for line in done.stdout.splitlines():
        print(f"    {line}")
    print(f"    -> {(time.monotonic() - started) * 1000:,.0f} ms")


def days_since(day: date) -> str:
    return f"{(date.today() - day).days} days"


def start_afresh(demo) -> None:
    """An earlier run may have left its table."""
    if demo.value("SELECT count(*) FROM coldfront.tiered_views WHERE schema_name = 'public' AND table_name = 'trips'"):
        demo.db.execute("SELECT coldfront.drop_iceberg_table('public', 'trips', true)")
    demo.db.execute("DELETE FROM coldfront.partition_config WHERE table_name = 'trips'; DROP TABLE IF EXISTS public.trips")


def create_and_load(demo, columns: list[tuple[str, str]], data: Path) -> None:
    demo.say("Tiering: an ordinary partitioned table, a month in each partition")
    defined = ", ".join(f"{name} {kind}{' NOT NULL' if name == 'time_hour' else ''}" for name, kind in columns)
    demo.run(f"CREATE TABLE trips ({defined})\nPARTITION BY RANGE (time_hour)")
    # Times are UTC, so the last evening of the year is in the next one.
    months = [f"2013-{month:02}-01" for month in range(1, 13)] + ["2014-01-01", "2014-02-01"]
    for first, end in pairwise(months):
        demo.db.execute(f"CREATE TABLE trips_{first[:4]}_{first[5:7]} PARTITION OF trips FOR VALUES FROM ('{first}') TO ('{end}')")
    demo.copy("trips", data / "flights.csv", "FORMAT csv, HEADER, NULL 'NA'")


def answers(demo) -> list[list[tuple]]:
    for query in QUERIES:
        demo.run(query)
    return [demo.db.execute(query).fetchall() for query in QUERIES]


def archive(demo) -> None:
    before = answers(demo)
    demo.say("The archiver moves what is older than the hot period to Iceberg")
    archiver(demo, "register", "--table", "public.trips", "--period", "monthly", "--hot-period", days_since(date(2013, 10, 1)), "--premake", "1")
    archiver(demo, "run", "--table", "public.trips")
    archiver(demo, "status")
    demo.run("SELECT (SELECT count(*) FROM _trips) AS hot, (SELECT count(*) FROM coldfront_cold.\"public.trips\") AS cold")
    demo.say("The same queries on the same name give the same answers")
    if answers(demo) != before:
        raise SystemExit("the answers differ")
    demo.say("A query on recent rows reads the heap only; an aggregate over all of them is computed in each tier")
    demo.run("EXPLAIN (COSTS OFF) SELECT count(*) FROM trips WHERE time_hour >= '2013-12-24'")
    demo.run("EXPLAIN (COSTS OFF) SELECT dest, sum(distance) FROM trips GROUP BY dest")


def write(demo) -> None:
    demo.say("Writes find their tier: a cold row is changed, another one moves back to the heap, new rows go to both")
    demo.run("UPDATE trips SET dep_delay = 0 WHERE time_hour = '2013-06-14 12:00' AND dep_delay < 0")
    demo.run("UPDATE trips SET time_hour = '2013-12-24 18:00', month = 12, day = 24\nWHERE time_hour = '2013-06-14 12:00' AND flight = 25 RETURNING carrier, flight, time_hour")
    demo.run("INSERT INTO trips (carrier, flight, time_hour) VALUES ('ZZ', 1, '2013-03-01 12:00'), ('ZZ', 2, '2013-11-01 12:00') RETURNING flight, time_hour")
    demo.run("DELETE FROM trips WHERE carrier = 'ZZ'")


def expire(demo) -> None:
    demo.say("Retention: the first quarter is deleted")
    archiver(demo, "set", "--table", "public.trips", "--retention-period", days_since(date(2013, 4, 1)))
    archiver(demo, "run", "--table", "public.trips")
    demo.run("SELECT min(time_hour), count(*) FROM trips")
