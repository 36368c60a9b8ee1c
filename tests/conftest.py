"""Fixtures: a private stack for the whole run, and connections to it."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))

from archive import Archiver  # noqa: E402
from gate import Gate  # noqa: E402
from stack import LOCAL, Postgres, Stack  # noqa: E402

os.umask(0o022)  # PostgreSQL's user has to pass through our directories
SCRATCH = LOCAL / "tests"
_numbers = itertools.count(1)


def pytest_configure(config):
    config.addinivalue_line("markers", "coldfront: needs the extension to be built and installed")


def pytest_collection_modifyitems(config, items):
    """Without the extension its tests cannot run; `make test` builds it first, so there nothing is left out."""
    if Postgres.extension_installed():
        return
    if os.environ.get("COLDFRONT_REQUIRE_EXTENSION"):
        raise pytest.UsageError("coldfront is not installed: run `make install`")
    for item in items:
        if item.get_closest_marker("coldfront"):
            item.add_marker(pytest.mark.skip(reason="coldfront is not installed: run `make install`"))


@pytest.fixture(scope="session")
def stack(request):
    """SeaweedFS and PostgreSQL of this run alone; its directory, with the logs, is kept when a test failed."""
    for left in SCRATCH.glob("*-*"):  # kept by earlier runs for their logs
        if not psutil.pid_exists(int(left.name.split("-")[1])):
            shutil.rmtree(left, ignore_errors=True)
    made = Stack(SCRATCH / f"stack-{os.getpid()}", settings={"fsync": "off"})
    with made:
        yield made
        if request.session.testsfailed:
            made.keep = True


@pytest.fixture
def private_stack():
    """A stack that the test may break."""
    made = Stack(SCRATCH / f"private-{os.getpid()}-{next(_numbers)}", settings={"fsync": "off"})
    with made:
        yield made


@pytest.fixture(scope="module")
def own_stack(request):
    """A stack for one file, which may break it; STACK_SETTINGS of the file adds to the server's settings."""
    file, failed = request.module, request.session.testsfailed
    settings = {"fsync": "off", **getattr(file, "STACK_SETTINGS", {})}
    made = Stack(SCRATCH / f"{file.__name__}-{os.getpid()}", settings=settings)
    with made:
        yield made
        made.keep = request.session.testsfailed > failed


@dataclass
class Gates:
    catalog: Gate
    store: Gate
    stack: Stack

    def put_in(self) -> None:
        weed, catalog = self.stack.weed, f"http://127.0.0.1:{self.catalog.port}"
        with self.stack.connect() as db:
            db.execute(f"ALTER DATABASE {self.stack.pg.dbname} SET coldfront.lakekeeper_endpoint = '{catalog}'")
            set_secret = "SELECT coldfront.set_storage_secret(%s, %s, %s, region => %s)"
            db.execute(set_secret, [weed.access_key, weed.secret_key, f"http://127.0.0.1:{self.store.port}", weed.region])
            set_secret = "SELECT coldfront.set_catalog_secret(%s, %s, %s)"
            db.execute(set_secret, [weed.access_key, weed.secret_key, f"{catalog}/v1/oauth/tokens"])

    def reset(self) -> None:
        for gate in (self.catalog, self.store):
            gate.forget_faults()
            gate.open()


@pytest.fixture(scope="module")
def gates(own_stack):
    """Gates in front of this file's catalog and object store, in use by every session: `gates.catalog`, `gates.store`."""
    weed = own_stack.weed
    with Gate(weed.ports["iceberg"]) as catalog, Gate(weed.ports["s3"]) as store:
        made = Gates(catalog, store, own_stack)
        made.put_in()
        yield made


@pytest.fixture
def db(stack):
    """An autocommit connection whose search_path is a schema of its own."""
    schema = f"test_{next(_numbers)}"
    with stack.connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"SET search_path = {schema}, public")
        yield connection


@pytest.fixture
def archiver(stack, tmp_path):
    return Archiver(stack, tmp_path)


@pytest.fixture
def schema(db):
    """This test's own; what it registered is forgotten, so that no later run of all tables meets it."""
    name = db.execute("SELECT current_schema()").fetchone()[0]
    yield name
    db.execute("RESET ROLE")
    db.execute("DELETE FROM coldfront.partition_config WHERE schema_name = %s", [name])
