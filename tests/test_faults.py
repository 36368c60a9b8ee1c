"""When the catalog, the object store, a credential or the warehouse is at fault, the error names it, nothing is half
done, and the same session works again once it is mended, without a restart. No secret reaches the log."""

from __future__ import annotations

import psycopg
import pytest
from probe import create

pytestmark = pytest.mark.coldfront

TABLE = "faults.t"


@pytest.fixture(scope="module")
def table(gates, own_stack):
    with own_stack.connect() as db:
        db.execute("CREATE SCHEMA faults")
        create(db, "faults", "t", "id bigint, s text")
        db.execute(f"INSERT INTO {TABLE} VALUES (1, 'before')")
    return TABLE


@pytest.fixture
def db(own_stack, gates, table):
    with own_stack.connect() as connection:
        yield connection
    gates.reset()
    gates.put_in()


def refused(db, sql: str, state: str, *words: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        db.execute(sql)
    text = str(caught.value)
    assert caught.value.sqlstate == state, text
    for word in words:
        assert word in text, text


def works(db) -> None:
    """Reads and writes, and what failed before left nothing."""
    before = db.execute(f"SELECT count(*) FROM {TABLE}").fetchone()[0]
    assert db.execute(f"INSERT INTO {TABLE} VALUES (2, 'after')").statusmessage == "INSERT 0 1"
    assert db.execute(f"SELECT count(*) FROM {TABLE}").fetchone() == (before + 1,)
    assert db.execute(f"SELECT count(*) FROM {TABLE} WHERE s = 'lost'").fetchone() == (0,)


def test_the_catalog_is_down(db, gates):
    works(db)
    gates.catalog.close()
    refused(db, f"SELECT * FROM {TABLE}", "08001", "catalog", f"127.0.0.1:{gates.catalog.port}")
    refused(db, f"INSERT INTO {TABLE} VALUES (3, 'lost')", "08001", "catalog")
    gates.catalog.open()
    works(db)


def test_the_object_store_is_down(db, gates):
    works(db)
    gates.store.close()
    # A read may still be answered from what the engine has cached, so the write is what must fail.
    refused(db, f"INSERT INTO {TABLE} VALUES (3, 'lost')", "08001", "object store", f"127.0.0.1:{gates.store.port}")
    gates.store.open()
    works(db)


def test_the_storage_secret_is_wrong(db, gates, own_stack):
    weed = own_stack.weed
    store = f"http://127.0.0.1:{gates.store.port}"
    db.execute("SELECT coldfront.set_storage_secret(%s, 'wrong-storage-secret', %s)", [weed.access_key, store])
    refused(db, f"SELECT s FROM {TABLE}", "28000", "object store")
    refused(db, f"INSERT INTO {TABLE} VALUES (3, 'lost')", "28000", "object store")
    gates.put_in()
    works(db)


def test_the_catalog_secret_is_wrong(db, gates, own_stack):
    token_url = f"http://127.0.0.1:{gates.catalog.port}/v1/oauth/tokens"
    db.execute("SELECT coldfront.set_catalog_secret(%s, 'wrong-catalog-secret', %s)", [own_stack.weed.access_key, token_url])
    refused(db, f"SELECT s FROM {TABLE}", "28000", "catalog")
    gates.put_in()
    works(db)


def test_the_warehouse_is_missing(db, own_stack):
    db.execute("SET coldfront.warehouse = 'nosuch'")
    refused(db, f"SELECT s FROM {TABLE}", "42704", "nosuch")
    db.execute("RESET coldfront.warehouse")
    works(db)


def test_the_key_may_only_read(db, gates, own_stack):
    weed = own_stack.weed
    store = f"http://127.0.0.1:{gates.store.port}"
    db.execute("SELECT coldfront.set_storage_secret(%s, %s, %s)", [weed.access_key + "RO", weed.secret_key, store])
    assert db.execute(f"SELECT count(*) FROM {TABLE} WHERE id = 1").fetchone() == (1,)
    refused(db, f"INSERT INTO {TABLE} VALUES (3, 'lost')", "42501", "object store")
    gates.put_in()
    works(db)


def test_nothing_is_configured(db):
    db.execute("SET coldfront.lakekeeper_endpoint = ''")
    refused(db, f"SELECT s FROM {TABLE}", "42704", "coldfront.lakekeeper_endpoint")
    db.execute("RESET coldfront.lakekeeper_endpoint")
    works(db)


def test_no_secret_reaches_the_log(db, own_stack):
    """Runs last: the log holds everything that the tests above provoked."""
    secrets = [own_stack.weed.secret_key, "wrong-storage-secret", "wrong-catalog-secret", "secret-of-this-test"]
    db.execute("SET log_statement = 'all'")
    db.execute("SET log_min_duration_statement = 0")
    with pytest.raises(psycopg.Error):
        db.execute("SELECT coldfront.set_storage_secret('key', 'secret-of-this-test', url_style => 'no such style')")
    with pytest.raises(psycopg.Error):
        db.execute("SELECT coldfront.set_catalog_secret('secret-of-this-test', no_such => 1)")
    log = own_stack.pg.log.read_text(errors="replace")
    assert "no such style" not in log
    assert [secret for secret in secrets if secret in log] == []
