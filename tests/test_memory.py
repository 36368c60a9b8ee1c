"""Results and inserts of any size pass through in bounded memory: peak resident sizes of backend and engine are sampled
while they run. MEMORY_ROWS makes the runs as large as wanted; the bounds do not depend on it."""

from __future__ import annotations

import os
import threading

import psutil
import pytest
from probe import create, engine

pytestmark = pytest.mark.coldfront

STACK_SETTINGS = {"coldfront.engine_memory_limit_mb": "512MB", "work_mem": "4MB"}
ROWS = int(os.environ.get("MEMORY_ROWS", 1_500_000))
PAD = 160
BACKEND_MIB = 80
# The memory limit, what DuckDB does not count (Arrow on its way, allocator, code), and the writer's open files.
ENGINE_MIB = 900


class Peak:
    """Largest resident size of a process, private and shared-with-files apart from shared buffers, in MiB."""

    def __init__(self, process: psutil.Process):
        self.process, self.mib, self.stop = process, 0.0, threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self.stop.wait(0.05):
            memory = self.process.memory_info()
            self.mib = max(self.mib, (memory.rss - memory.shared) / 2**20)

    def __enter__(self) -> "Peak":
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.stop.set()
        self.thread.join()


@pytest.fixture(scope="module")
def big(own_stack):
    with own_stack.connect() as db:
        db.execute("CREATE SCHEMA memory")
        create(db, "memory", "big", "id bigint, ts timestamptz, s text")
        db.execute("CREATE TABLE memory.source AS SELECT 1 AS one")
    return own_stack


def watched(stack, db):
    return Peak(psutil.Process(db.info.backend_pid)), Peak(engine(stack))


def test_a_large_insert(big):
    with big.connect() as db:
        backend, lake = watched(big, db)
        with backend, lake:
            tag = db.execute(
                "INSERT INTO memory.big SELECT g, timestamptz '2025-01-01' + g * interval '1 second',"
                f" md5(g::text) || repeat('x', {PAD - 32}) FROM generate_series(1, {ROWS}) g"
            ).statusmessage
    print(f"\nINSERT of {ROWS:,} rows: backend {backend.mib:.0f} MiB, engine {lake.mib:.0f} MiB at the peak")
    assert tag == f"INSERT 0 {ROWS}"
    assert backend.mib < BACKEND_MIB
    assert lake.mib < ENGINE_MIB


def test_a_large_result_through_a_cursor(big):
    seen = 0
    with big.connect(autocommit=False) as db:
        backend, lake = watched(big, db)
        with backend, lake:
            db.execute("DECLARE c NO SCROLL CURSOR FOR SELECT * FROM memory.big")
            while rows := db.execute("FETCH 20000 FROM c").fetchall():
                seen += len(rows)
    print(f"\ncursor over {seen:,} rows: backend {backend.mib:.0f} MiB, engine {lake.mib:.0f} MiB at the peak")
    assert seen == ROWS
    assert backend.mib < BACKEND_MIB
    assert lake.mib < ENGINE_MIB
