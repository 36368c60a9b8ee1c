"""Whatever dies at whichever step of a pass: every row can be read exactly once at all times, and the next pass finishes.

The steps are the failpoints that the archiver names, so a new one is tested without writing a test."""

from __future__ import annotations

import re
import signal

import psutil
import psycopg
import pytest
from archive import Archiver, bound, content, cutoff, fill, left_overs, make, month, partitions
from probe import kill_engine, wait_for_engine
from stack import REPO, wait_until

pytestmark = pytest.mark.coldfront

FAILPOINTS = re.findall(r'const [A-Z_]+: &str = "([a-z_]+)"', (REPO / "archiver/src/failpoint.rs").read_text())
RESTORE = [point for point in FAILPOINTS if point.startswith("restor")]
PASS = [point for point in FAILPOINTS if point not in RESTORE]
# At these the archiver holds locks that keep everybody out of the table.
LOCKED = {"converting", "locked", "flipped", "restoring"}
# At these it holds the write claim: statements that may concern cold rows wait for it, hot ones do not.
CLAIMED = {"appended"}

# Where the death of anything but the archiver itself is tried: around every commit and under every lock.
COMMITS = ["converting", "purged", "exporting", "appended", "exported", "verifying", "locked", "flipped", "cut_over", "dropping"]
CASES = [(point, "archiver") for point in PASS]
CASES += [(point, victim) for point in COMMITS for victim in ("backend", "engine", "postmaster", "store")]


class Victims:
    """What can be killed, and brought back."""

    def __init__(self, stack, paused):
        self.stack, self.paused = stack, paused

    def archiver(self) -> None:
        self.paused.kill()

    def backend(self) -> None:
        with self.stack.connect() as db:
            found = db.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'coldfront-archiver'").fetchall()
        for (pid,) in found:
            psutil.Process(pid).kill()
        self.paused.kill()
        self.stack.pg.wait_ready()

    def engine(self) -> None:
        kill_engine(self.stack)
        self.paused.kill()
        wait_for_engine(self.stack)

    def postmaster(self) -> None:
        self.stack.pg.stop(signal.SIGQUIT)
        self.paused.kill()
        self.stack.pg.start()

    def store(self) -> None:
        self.stack.weed.kill()
        self.paused.kill()
        self.stack.weed.start()


class Twins:
    """A tiered table and a plain one that get the same statements."""

    def __init__(self, stack, schema: str):
        self.stack, self.schema = stack, schema
        with stack.connect() as db:
            db.execute(f"CREATE SCHEMA {schema}")
            self.name = make(db, schema, "t", [-3, -2, 0], rows=60)
            self.twin = f"{schema}.twin"
            db.execute(f"CREATE TABLE {self.twin} (LIKE {self.name}); INSERT INTO {self.twin} SELECT * FROM {self.name}")

    def change(self, hot_only: bool = False) -> None:
        with self.stack.connect() as db:
            db.execute("SET statement_timeout = '60s'")
            for name in (f"{self.schema}._t" if hot_only else self.name, self.twin):
                fill(db, name, -3, 7)
                db.execute(f"DELETE FROM {name} WHERE id BETWEEN 20 AND 25")
                db.execute(f"UPDATE {name} SET v = 'changed', d = NULL WHERE id BETWEEN 40 AND 45")
                db.execute(f"UPDATE {name} SET ts = ts + ({month(0)} - {month(-3)}) WHERE id = 50 AND ts < {month(-2)}")

    def agree(self) -> None:
        def read():
            with self.stack.connect() as db:
                return content(db, self.name), content(db, self.twin)

        tiered, twin = wait_until("the table to be readable", lambda: self.retried(read), 60)
        assert tiered == twin

    @staticmethod
    def retried(read):
        """A session may meet the remains of a killed process once."""
        try:
            return read()
        except psycopg.Error:
            return None


def finish(archiver: Archiver, twins: Twins) -> None:
    archiver.run(twins.name)
    twins.agree()
    with twins.stack.connect() as db:
        assert cutoff(db, twins.schema, "t").startswith(bound(db, -1))
        assert left_overs(db, twins.schema) == []
        assert len(partitions(db, f"{twins.schema}._t")) == 2
        assert db.execute("SELECT count(*) FROM pg_class WHERE relname IN ('p99_t', 'p98_t') AND relnamespace = %s::regnamespace", [twins.schema]).fetchone() == (0,)
        db.execute("DELETE FROM coldfront.partition_config WHERE schema_name = %s", [twins.schema])


def twins_for(stack, tmp_path, *words: str) -> tuple[Archiver, Twins]:
    archiver = Archiver(stack, tmp_path)
    twins = Twins(stack, "crash_" + "_".join(words))
    archiver.call("register", "--table", twins.name, "--hot-period", "1 month", "--premake", "1")
    return archiver, twins


@pytest.mark.parametrize("point, victim", CASES)
def test_a_crash_of(own_stack, tmp_path, point, victim):
    archiver, twins = twins_for(own_stack, tmp_path, point, victim)
    paused = archiver.pause_at(point, "run", "--table", twins.name)
    if point not in LOCKED | {"prepared"}:
        twins.change(hot_only=point in CLAIMED)
        twins.agree()
    getattr(Victims(own_stack, paused), victim)()
    twins.agree()
    twins.change()
    twins.agree()
    finish(archiver, twins)


@pytest.mark.parametrize("victim", ["archiver", "backend", "engine"])
@pytest.mark.parametrize("point", RESTORE)
def test_a_crash_of_a_restore(own_stack, tmp_path, point, victim):
    archiver, twins = twins_for(own_stack, tmp_path, point, victim)
    archiver.run(twins.name)
    with own_stack.connect() as db:
        beginning = bound(db, -3)
    paused = archiver.pause_at(point, "restore", "--table", twins.name, "--from", beginning)
    getattr(Victims(own_stack, paused), victim)()
    twins.agree()
    twins.change()
    twins.agree()
    archiver.call("restore", "--table", twins.name, "--from", beginning, code=None)
    twins.agree()
    finish(archiver, twins)
