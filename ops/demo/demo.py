"""All flights out of New York in 2013, in a table that PostgreSQL serves and Iceberg stores, then in a tiered one.

demo.py DIRECTORY, which holds flights.csv and airlines.csv. Connects by PGHOST, PGPORT, PGUSER and PGDATABASE.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/lib"))

import lake  # noqa: E402
import tiered  # noqa: E402

COLUMNS = [
    ("year", "smallint"), ("month", "smallint"), ("day", "smallint"),
    ("dep_time", "smallint"), ("sched_dep_time", "smallint"), ("dep_delay", "smallint"),
    ("arr_time", "smallint"), ("sched_arr_time", "smallint"), ("arr_delay", "smallint"),
    ("carrier", "char(2)"), ("flight", "integer"), ("tailnum", "varchar(6)"),
    ("origin", "char(3)"), ("dest", "char(3)"), ("air_time", "smallint"), ("distance", "integer"),
    ("hour", "smallint"), ("minute", "smallint"), ("time_hour", "timestamp"),
]  # fmt: skip


class Demo:
    def __init__(self, db: psycopg.Connection):
        self.db = db

    def say(self, text: str) -> None:
        print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n# {text}")

    def run(self, sql: str) -> psycopg.Cursor:
        """Show a statement, run it, and show what it gave and how long that took."""
        print("  " + sql.replace("\n", "\n  ") + ";")
        started = time.monotonic()
        cursor = self.db.execute(sql)
        elapsed_ms = (time.monotonic() - started) * 1000
        if cursor.description:
            self.table([column.name for column in cursor.description], cursor.fetchall())
        print(f"    -> {cursor.statusmessage}, {elapsed_ms:,.0f} ms")
        return cursor

    def value(self, sql: str):
        return self.db.execute(sql).fetchone()[0]

    def table(self, names: list[str], rows: list[tuple]) -> None:
        cells = [names, *(["" if value is None else str(value) for value in row] for row in rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
        for row in cells:
            print("    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())

    def copy(self, table: str, path: Path, options: str) -> None:
        sql = f"COPY {table} FROM STDIN WITH ({options})"
        print(f"  {sql};   -- {path.name}, {path.stat().st_size / 1e6:.0f} MB")
        started = time.monotonic()
        with self.db.cursor() as cursor, open(path, "rb") as data:
            with cursor.copy(sql) as copy:
                while block := data.read(1 << 16):
                    copy.write(block)
            print(f"    -> {cursor.statusmessage}, {(time.monotonic() - started) * 1000:,.0f} ms")


def start_afresh(demo: Demo) -> None:
    """An earlier run may have left its tables."""
    left = "SELECT count(*) FROM pg_class WHERE oid = to_regclass('public.flights')"
    if demo.value(left):
        demo.db.execute("SELECT coldfront.drop_iceberg_table('public', 'flights', true)")
    demo.db.execute("DROP TABLE IF EXISTS public.airlines")


def create_and_load(demo: Demo, data: Path) -> None:
    demo.say("A table that lives in Iceberg, partitioned by month; and an ordinary one beside it")
    columns = json.dumps([{"name": name, "type": kind} for name, kind in COLUMNS]).replace("}, {", "},\n    {")
    demo.run(f"SELECT coldfront.create_iceberg_table('public', 'flights', '{columns}', array['month(time_hour)'])")
    demo.run("CREATE TABLE airlines (carrier char(2) PRIMARY KEY, name text NOT NULL)")
    demo.say("Loading both with COPY, as any PostgreSQL tool would")
    demo.copy("flights", data / "flights.csv", "FORMAT csv, HEADER, NULL 'NA'")
    demo.copy("airlines", data / "airlines.csv", "FORMAT csv, HEADER")


def read(demo: Demo) -> None:
    demo.say("Plain SQL over it")
    demo.run("SELECT count(*), min(time_hour), max(time_hour), count(DISTINCT dest) FROM flights")
    demo.run(
        "SELECT date_trunc('month', time_hour) AS month, count(*) AS flights, round(avg(dep_delay), 1) AS mean_delay_min\n"
        "FROM flights GROUP BY 1 ORDER BY 1"
    )
    demo.say("Joined with the heap table")
    demo.run(
        "SELECT a.name, count(*) AS flights, round(avg(f.arr_delay), 1) AS mean_delay_min\n"
        "FROM flights f JOIN airlines a USING (carrier) WHERE f.dest = 'LAX' AND f.time_hour >= '2013-06-01'\n"
        "GROUP BY a.name ORDER BY flights DESC LIMIT 5"
    )
    demo.say("What is left to the engine, and what PostgreSQL does itself")
    demo.run("EXPLAIN (COSTS OFF) SELECT dest, max(distance) FROM flights WHERE month = 7 AND dep_delay > 60 GROUP BY dest")


def write(demo: Demo) -> None:
    demo.say("UPDATE and DELETE: exact counts, one Iceberg snapshot each")
    demo.run("UPDATE flights SET dep_delay = 0 WHERE dep_delay < 0 AND month = 1")
    demo.run("DELETE FROM flights WHERE dep_time IS NULL")
    demo.run("INSERT INTO flights (year, month, day, carrier, flight, origin, dest, time_hour)\n"
             "VALUES (2013, 12, 31, 'ZZ', 1, 'JFK', 'SFO', '2013-12-31 23:00') RETURNING carrier, flight, time_hour")  # fmt: skip
    demo.say("A transaction that is rolled back leaves nothing behind")
    demo.run("BEGIN")
    demo.run("DELETE FROM flights WHERE time_hour >= '2013-07-01'")
    demo.run("SELECT count(*) FROM flights")
    demo.run("ROLLBACK")
    demo.run("SELECT count(*) FROM flights")


def read_elsewhere(demo: Demo) -> None:
    demo.say("The same table read by pyiceberg, which has never heard of PostgreSQL")
    reference = demo.value("SELECT iceberg_table FROM coldfront.tiered_views WHERE schema_name = 'public' AND table_name = 'flights'")
    table = lake.load(lake.catalog(), reference)
    rows = table.scan(selected_fields=("distance", "dep_delay")).to_arrow()
    there = (rows.num_rows, sum(d for d in rows["distance"].to_pylist() if d is not None))
    here = demo.db.execute("SELECT count(*), sum(distance) FROM flights").fetchone()
    demo.table(["", "rows", "sum of distance"], [("PostgreSQL", *here), ("pyiceberg", *there)])
    if tuple(here) != there:
        raise SystemExit("the two do not agree")
    demo.say("What it cost")
    snapshots = table.inspect.snapshots().to_pylist()
    demo.table(
        ["snapshot", "operation", "rows added", "rows deleted"],
        [
            (s["snapshot_id"], s["operation"], changed(s, "added-records"), changed(s, "added-position-deletes"))
            for s in snapshots
        ],
    )
    prefix = table.location().removeprefix(f"s3://{os.environ['WAREHOUSE']}/") + "/"
    found = lake.objects(prefix)
    data = {name: size for name, size in found.items() if name.startswith(prefix + "data/")}
    demo.table(
        ["", "files", "bytes"],
        [("data", len(data), f"{sum(data.values()):,}"), ("metadata", len(found) - len(data), f"{sum(found.values()) - sum(data.values()):,}")],
    )


def changed(snapshot: dict, key: str) -> str:
    return dict(snapshot["summary"]).get(key, "")


def main(data: Path) -> None:
    with psycopg.connect(autocommit=True) as db:
        demo = Demo(db)
        start_afresh(demo)
        create_and_load(demo, data)
        read(demo)
        write(demo)
        read_elsewhere(demo)
        tiered.start_afresh(demo)
        tiered.create_and_load(demo, COLUMNS, data)
        tiered.archive(demo)
        tiered.write(demo)
        tiered.expire(demo)
    psql = f"{os.environ['PG_BIN']}/psql -h {os.environ['PGHOST']} -p {os.environ['PGPORT']} -U {os.environ['PGUSER']} {os.environ['PGDATABASE']}"
    demo.say("The stack is up. To look around:")
    print(f"  {psql}\n  make down stops it.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
