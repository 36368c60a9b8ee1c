"""The supervisor runs the archiver beside the engine where the settings say so."""

from __future__ import annotations

import psutil
import pytest
from archive import Archiver, bound, content, cutoff, make
from probe import is_gone, postmaster, wait_for_engine
from stack import wait_until

pytestmark = pytest.mark.coldfront


def archivers(stack) -> list[psutil.Process]:
    found = []
    for child in postmaster(stack).children(recursive=True):
        try:
            if child.name().startswith("coldfront-archi") and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def test_the_archiver_is_supervised(own_stack, tmp_path):
    pg = own_stack
    engine = wait_for_engine(pg).pid
    config = pg.pg.data / "coldfront-archiver.toml"
    config.write_text('[archiver]\nschedule = "* * * * * *"\njobs = 1\n')
    config.chmod(0o644)
    with pg.connect() as db:
        db.execute("CREATE SCHEMA sup; SET client_min_messages = warning")
        name = make(db, "sup", "events", [-3, -2, -1, 0], rows=10)
        before = content(db, name)
        archiver = Archiver(pg, tmp_path)
        archiver.call("register", "--table", name, "--hot-period", "1 month")
        db.execute(f"ALTER SYSTEM SET coldfront.config_file = '{config}'")
        db.execute(f"ALTER SYSTEM SET coldfront.local_pg_dsn = '{archiver.dsn}'")
        db.execute("ALTER SYSTEM SET coldfront.supervise = 'engine, archiver'")
        db.execute("SELECT pg_reload_conf()")
        first = wait_until("the archiver to run", lambda: archivers(pg), 20, pg.pg.log)[0]
        wait_until("it to archive", lambda: (cutoff(db, "sup", "events") or "").startswith(bound(db, -1)), 60, pg.pg.log)
        assert content(db, name) == before
        first.kill()
        wait_until("it to be started again", lambda: [a for a in archivers(pg) if a.pid != first.pid], 20, pg.pg.log)
        db.execute("ALTER SYSTEM SET coldfront.supervise = 'engine'")
        db.execute("SELECT pg_reload_conf()")
        wait_until("it to be stopped", lambda: not archivers(pg), 20, pg.pg.log)
        assert is_gone(first) and wait_for_engine(pg).pid == engine, "the engine was none of that"
        assert archiver.dsn not in pg.pg.log.read_text()
