"""How each mode makes the relations of a twin script. Adding a mode is adding a class to MODES."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path

from script import Column, Script, Table
from session import Outcome, Session

# A mode says no to a type or to a name at creation with one of these.
REFUSALS = {"0A000", "42701", "42622", "42939"}


class Refused(Exception):
    """The mode refuses a column at creation: the file is skipped for it."""


class SetUpError(Exception):
    """The relations could not be made, for a reason that is a failure."""


def literal(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Heap:
    """Plain tables: the oracle."""

    name = "heap"

    def __init__(self):
        self.schema = f"twin_{self.name}"

    def runs(self, script: Script) -> bool:
        return True

    def must(self, admin: Session, sql: str) -> Outcome:
        outcome = admin.run(sql)
        if outcome.error:
            raise SetUpError(f"{sql}: {outcome.describe()}")
        return outcome

    def create(self, admin: Session, script: Script) -> None:
        self.must(admin, f"CREATE SCHEMA {self.schema}")
        for table in script.tables:
            self.create_table(admin, table)

    def create_table(self, admin: Session, table: Table) -> None:
        columns = ", ".join(self.column(column) for column in table.columns)
        self.must(admin, f"CREATE TABLE {self.schema}.{table.name} ({columns})")

    @staticmethod
    def column(column: Column) -> str:
        parts = [identifier(column.name), column.kind]
        if column.generated is not None:
            parts.append(f"GENERATED ALWAYS AS ({column.generated}) STORED")
        if column.default is not None:
            parts.append(f"DEFAULT {column.default}")
        return " ".join([*parts, "NOT NULL"] if column.not_null else parts)

    def loaded(self, admin: Session, script: Script) -> None:
        """After the load statements: a mode that moves rows does it here."""

    def drop(self, admin: Session, script: Script) -> None:
        self.must(admin, "SET client_min_messages = warning")
        self.must(admin, f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")


class SecondHeap(Heap):
    """Heap against heap with its rows in another order: a script may not depend on what PostgreSQL does not promise."""

    name = "heap2"

    def loaded(self, admin: Session, script: Script) -> None:
        for table in script.tables:
            name = f"{self.schema}.{table.name}"
            stored = ", ".join(identifier(column.name) for column in table.columns if column.generated is None)
            self.must(admin, f"CREATE TEMP TABLE shuffle AS SELECT {stored} FROM {name} AS r ORDER BY md5(r::text)")
            self.must(admin, f"TRUNCATE {name}; INSERT INTO {name} ({stored}) TABLE shuffle; DROP TABLE shuffle")


class Sabotaged(SecondHeap):
    """A heap with a flaw put in on purpose: the harness's own tests need something that has to fail."""

    def __init__(self, sql: str):
        super().__init__()
        self.sql = sql

    def loaded(self, admin: Session, script: Script) -> None:
        """No shuffling: the flaw has to be the only difference."""
        self.must(admin, f"SET search_path = {self.schema}, public")
        self.must(admin, self.sql)


class Decoupled(Heap):
    """All rows in Iceberg."""

    name = "decoupled"

    def runs(self, script: Script) -> bool:
        return self.name in script.modes

    def create_table(self, admin: Session, table: Table) -> None:
        columns = json.dumps([self.description(column) for column in table.columns])
        arguments = [literal(self.schema), literal(table.name), literal(columns) + "::jsonb"]
        if table.partition:
            arguments.append("array[" + ", ".join(map(literal, table.partition)) + "]")
        made = admin.run(f"SELECT coldfront.create_iceberg_table({', '.join(arguments)})")
        if made.error in REFUSALS:
            raise Refused(made.message)
        if made.error:
            raise SetUpError(f"create_iceberg_table: {made.describe()}")

    @staticmethod
    def description(column: Column) -> dict:
        entry = {"name": column.name, "type": column.kind}
        optional = {"generated": column.generated, "default": column.default, "not_null": column.not_null or None}
        return entry | {key: value for key, value in optional.items() if value is not None}

    def drop(self, admin: Session, script: Script) -> None:
        # Whatever is registered in the schema, also by a script that failed before.
        left = admin.run(f"SELECT table_name FROM coldfront.tiered_views WHERE schema_name = {literal(self.schema)}")
        # What a script left on top of its relations goes first: DROP SCHEMA CASCADE may not take the relations along.
        on_top = admin.run(
            "SELECT format('DROP ROUTINE IF EXISTS %s CASCADE', p.oid::regprocedure) FROM pg_proc p"
            f" WHERE p.pronamespace = to_regnamespace({literal(self.schema)})"
            " UNION ALL SELECT format('DROP %s IF EXISTS %s CASCADE', CASE c.relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE"
            f" 'VIEW' END, c.oid::regclass) FROM pg_class c WHERE c.relnamespace = to_regnamespace({literal(self.schema)})"
            " AND c.relkind IN ('v', 'm') AND c.relname NOT IN"
            f" (SELECT table_name FROM coldfront.tiered_views WHERE schema_name = {literal(self.schema)})"
        )
        for (statement,) in on_top.rows or []:
            self.must(admin, statement)
        for (name,) in left.rows or []:
            self.must(admin, f"SELECT coldfront.drop_iceberg_table({literal(self.schema)}, {literal(name)}, true)")
        super().drop(admin, script)


class Tiered(Decoupled):
    """Monthly partitions, of which the archiver moves those before 2026 to Iceberg."""

    name = "tiered"
    MONTHS = [f"{year}-{month:02}-01 00:00:00+00" for year in (2025, 2026) for month in range(1, 13)] + ["2027-01-01 00:00:00+00"]
    CUTOFF = datetime(2026, 1, 1, tzinfo=timezone.utc)

    @staticmethod
    def is_tiered(table: Table) -> bool:
        return any(column.name == "ts" for column in table.columns)

    def create_table(self, admin: Session, table: Table) -> None:
        if not self.is_tiered(table):
            if table.name == "t":
                raise Refused("the table has no column ts")
            Heap.create_table(self, admin, table)
            return
        columns, name = ", ".join(self.column(column) for column in table.columns), f"{self.schema}.{table.name}"
        self.must(admin, f"CREATE TABLE {name} ({columns}) PARTITION BY RANGE (ts)")
        for number, (first, end) in enumerate(pairwise(self.MONTHS)):
            self.must(admin, f"CREATE TABLE {name}_p{number:02} PARTITION OF {name} FOR VALUES FROM ('{first}') TO ('{end}')")

    def loaded(self, admin: Session, script: Script) -> None:
        for table in filter(self.is_tiered, script.tables):
            hot_days = (datetime.now(timezone.utc) - self.CUTOFF).days
            name = f"{self.schema}.{table.name}"
            self.archiver("register", "--table", name, "--period", "monthly", "--hot-period", f"{hot_days} days")
            self.archiver("run", "--table", name)

    @staticmethod
    def archiver(*arguments: str) -> None:
        program = Path(os.environ["PG_BIN"]) / "coldfront-archiver"
        done = subprocess.run([program, *arguments], capture_output=True, text=True)
        if done.returncode == 0:
            return
        if any(f"[{state}]" in done.stderr for state in REFUSALS):
            raise Refused(done.stderr.strip())
        raise SetUpError(f"coldfront-archiver {' '.join(arguments)}: {done.stderr.strip()}")

    def drop(self, admin: Session, script: Script) -> None:
        super().drop(admin, script)
        self.must(admin, f"DELETE FROM coldfront.partition_config WHERE schema_name = {literal(self.schema)}")


MODES = {"heap": SecondHeap, "decoupled": Decoupled, "tiered": Tiered}
