"""Measurements of the compactor: every number beside the one it is measured against, in one run on one machine.

    compact.py [rewrite|job|query|expire|all]    BENCH_FILES, BENCH_FILE_ROWS, BENCH_SNAPSHOTS, BENCH_OBJECTS, BENCH_ROUNDS

rewrite  rows per second of a compaction against DuckDB reading and writing the same small Parquet files in the same store
job      seconds and requests of compacting five files, by `run` and by `serve`, which has read the manifests of four already
query    a filtered aggregate through PostgreSQL on the fragmented table against the compacted one
expire   seconds and memory of expiring snapshots and of finding orphans among objects
Prints a table and writes JSON under .local/bench/.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import foreign  # noqa: E402
import lake  # noqa: E402
from compact import Compactor, Serving, Shape  # noqa: E402
from pyiceberg.schema import Schema  # noqa: E402
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampType  # noqa: E402
from stack import LOCAL, Stack  # noqa: E402

FILES = int(os.environ.get("BENCH_FILES", 40))
FILE_ROWS = int(os.environ.get("BENCH_FILE_ROWS", 50_000))
SNAPSHOTS = int(os.environ.get("BENCH_SNAPSHOTS", 10_000))
OBJECTS = int(os.environ.get("BENCH_OBJECTS", 100_000))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", 3))
COLUMNS = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "ts", TimestampType(), required=False),
    NestedField(3, "v", DoubleType(), required=False), NestedField(4, "s", StringType(), required=False),
)  # fmt: skip


def logged(text: str) -> dict:
    """What the compactor said of a task."""
    lines = [json.loads(line)["fields"] for line in text.splitlines() if line.startswith("{")]
    return next(fields for fields in lines if "seconds" in fields)


def rows(start: int, count: int) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({
        "id": pa.array(ids, pa.int64()), "ts": pa.array([i * 1_000_000 for i in ids], pa.timestamp("us")),
        "v": pa.array([i * 0.5 for i in ids], pa.float64()), "s": pa.array([f"row {i % 1000}" for i in ids]),
    })  # fmt: skip


def fragmented(stack: Stack, name: str, files: int, file_rows: int) -> None:
    """A table of as many files, written by the engine in as many statements."""
    with stack.connect() as db:
        db.execute("SET client_min_messages = warning")
        db.execute("CREATE SCHEMA IF NOT EXISTS b")
        columns = json.dumps([{"name": n, "type": t} for n, t in (("id", "bigint"), ("ts", "timestamp"), ("v", "double precision"), ("s", "text"))])
        db.execute("SELECT coldfront.create_iceberg_table('b', %s, %s::jsonb)", (name, columns))
        ref = f'"ice"."b"."{name}"'
        for at in range(files):
            select = f"SELECT g, TIMESTAMP '2025-01-01' + to_seconds(g), g * 0.5, 'row ' || g % 1000 FROM range({at * file_rows}, {(at + 1) * file_rows}) t(g)"
            db.execute(f"SELECT coldfront._exec_iceberg_with_claim('{ref}', $e$INSERT INTO {ref} {select}$e$)")


def rewrite(stack: Stack, compactor: Compactor) -> list[dict]:
    """The same files, read and written by DuckDB inside the engine, and by the compactor."""
    ours, other, copied = [], [], 0
    total = FILES * FILE_ROWS
    with stack.connect() as db:
        for number in range(ROUNDS):
            name = f"rewrite_{number}"
            fragmented(stack, name, FILES, FILE_ROWS)
            paths = [file["file_path"] for file in Shape(stack.environment(), "b", name).content(0)]
            listed = ", ".join(f"'{path}'" for path in paths)
            target = f"{paths[0].rsplit('/', 1)[0]}/duckdb-{uuid.uuid4()}.parquet"
            db.execute("SELECT coldfront.ensure_attached()")
            began = time.perf_counter()
            db.execute(f"SELECT duckdb.raw_query($q$COPY (SELECT * FROM read_parquet([{listed}])) TO '{target}' (FORMAT parquet)$q$)")
            other.append(time.perf_counter() - began)
            said = logged(compactor.compact(f"b.{name}").stderr)
            ours.append(said["seconds"])
            copied = int(re.search(r"(\d+) row groups copied", said["message"])[1])
            assert db.execute(f"SELECT count(*), sum(id) FROM b.{name}").fetchone() == (total, total * (total - 1) // 2)
    mine, theirs = statistics.median(ours), statistics.median(other)
    return [{"what": f"{FILES} files × {FILE_ROWS:,} rows, {copied} row groups copied", "against": "DuckDB, rows/s",
             "ours": total / mine, "other": total / theirs, "ratio": theirs / mine, "goal": 3.0}]


def job(stack: Stack, compactor: Compactor) -> list[dict]:
    """The five files of one append, of five, and of five that were made while `serve` looked on."""
    out = []
    for number, (label, appends) in enumerate((("one manifest", 1), ("five manifests", 5), ("five manifests, serve", 5))):
        name, serves = f"job_{number}", label.endswith("serve")
        catalog = lake.catalog(stack.environment())
        catalog.create_namespace_if_not_exists("b")
        table = catalog.create_table(("b", name), COLUMNS, properties={"format-version": "2"})
        with stack.connect() as db:
            foreign.register(db, "b", name)
        if appends == 1:
            table.add_files([part(table, rows(at * 100, 100)) for at in range(5)])
            said = logged(compactor.compact(f"b.{name}").stderr)
        elif not serves:
            for at in range(5):
                table.append(rows(at * 100, 100))
            said = logged(compactor.compact(f"b.{name}").stderr)
        else:
            with Serving(compactor) as serving:
                for at in range(5):
                    table.append(rows(at * 100, 100))
                    serving.look(f"b.{name}")
                said = next(said for said in serving.rounds(f"b.{name}") if "5 files became 1" in said["message"])
        assert Shape(stack.environment(), "b", name).data_files == 1, said
        out.append({"what": f"five files, {label}: seconds", "against": "goal", "ours": said["seconds"], "other": 1.0,
                    "ratio": 1.0 / said["seconds"], "goal": 1.0})  # fmt: skip
        out.append({"what": f"five files, {label}: requests", "against": "goal", "ours": said["requests"], "other": 12,
                    "ratio": 12 / said["requests"], "goal": 1.0})  # fmt: skip
    return out


def part(table, content: pa.Table) -> str:
    """A data file with field ids, as an engine writes it."""
    import pyarrow.parquet as pq

    ids = {"id": 1, "ts": 2, "v": 3, "s": 4}
    fields = [field.with_metadata({"PARQUET:field_id": str(ids[field.name])}) for field in content.schema]
    path = f"{table.location()}/data/{uuid.uuid4()}.parquet"
    with table.io.new_output(path).create() as out:
        pq.write_table(content.cast(pa.schema(fields)), out)
    return path


def query(stack: Stack, compactor: Compactor) -> list[dict]:
    fragmented(stack, "query", FILES * 2, 2000)
    sql = "SELECT count(*), sum(v) FROM b.query WHERE id BETWEEN 5000 AND 9000"
    with stack.connect() as db:

        def median() -> float:
            taken = []
            for _ in range(7):
                began = time.perf_counter()
                assert db.execute(sql).fetchone()[0] == 4001
                taken.append(time.perf_counter() - began)
            return statistics.median(taken)

        before = median()
        compactor.compact("b.query")
        after = median()
    return [{"what": f"filtered aggregate, {FILES * 2} files, seconds", "against": "before compaction", "ours": after, "other": before,
             "ratio": before / after, "goal": 1.0}]


def put(env: dict, keys: list[str]) -> int:
    client = lake.s3(env)
    for key in keys:
        client.put_object(Bucket=env["WAREHOUSE"], Key=key, Body=b"x")
    return len(keys)


def expire(stack: Stack, compactor: Compactor) -> list[dict]:
    """A history of appends and, after every ten of them, a compaction; then stray objects."""
    env = stack.environment()
    with stack.connect() as db:
        db.execute("CREATE SCHEMA IF NOT EXISTS b")
        catalog = lake.catalog(env)
        catalog.create_namespace_if_not_exists("b")
        table = catalog.create_table(("b", "history"), COLUMNS, properties={"format-version": "2"})
        foreign.register(db, "b", "history")
    history(table, SNAPSHOTS)
    keys = [f"b/history/data/stray-{n:06}.parquet" for n in range(OBJECTS)]
    with ProcessPoolExecutor(4) as pool:
        list(pool.map(put, [env] * 64, [keys[at::64] for at in range(64)]))
    out = []
    for task, argv in (("expire", ["--older-than-hours", "0"]), ("orphans", ["--orphan-age-hours", "0", "--i-know"])):
        began = time.perf_counter()
        log = compactor.directory / f"{task}.log"
        with open(log, "w") as errors:
            process = subprocess.Popen(compactor.command("run", "--table", "b.history", "--task", task, *argv),
                                       env=compactor.environment(), stderr=errors)  # fmt: skip
        memory_kb = 0
        while process.poll() is None:
            memory_kb = max(memory_kb, peak_kb(process.pid))
            time.sleep(0.01)
        seconds, said = time.perf_counter() - began, log.read_text()
        assert process.returncode == 0, said
        print(logged(said)["message"])
        out.append({"what": f"{task}: seconds", "against": "goal", "ours": seconds, "other": 30.0, "ratio": 30.0 / seconds, "goal": 1.0})
        out.append({"what": f"{task}: MB", "against": "goal", "ours": memory_kb / 1024, "other": 200.0,
                    "ratio": 200.0 * 1024 / memory_kb, "goal": 1.0})  # fmt: skip
    return out


def peak_kb(pid: int) -> int:
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def history(table, snapshots: int) -> None:
    """Commits a history in few requests: real manifests and lists, of files that are not there and that nobody reads."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus, write_manifest, write_manifest_list
    from pyiceberg.table.refs import SnapshotRefType
    from pyiceberg.table.snapshots import Operation, Snapshot, Summary
    from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate
    from pyiceberg.typedef import Record

    def data_file(name: str) -> DataFile:
        file = DataFile.from_args(
            content=DataFileContent.DATA, file_path=f"{table.location()}/data/{name}.parquet", file_format=FileFormat.PARQUET,
            partition=Record(), record_count=1, file_size_in_bytes=1, column_sizes={}, value_counts={}, null_value_counts={},
            nan_value_counts={}, lower_bounds={}, upper_bounds={}, key_metadata=None, split_offsets=None, equality_ids=None, sort_order_id=None,
        )  # fmt: skip
        file.spec_id = 0
        return file

    manifests, parent, updates, now = [], None, [], int(time.time() * 1000) - snapshots
    for number in range(1, snapshots + 1):
        compacts = number % 10 == 0
        path = f"{table.location()}/metadata/h-{number}-m0.avro"
        with write_manifest(2, table.spec(), table.schema(), table.io.new_output(path), number, "deflate") as writer:
            writer.add_entry(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=number, sequence_number=None,
                                                     file_sequence_number=None, data_file=data_file(f"h-{number}")))  # fmt: skip
        listed = f"{table.location()}/metadata/snap-{number}.avro"
        made = writer.to_manifest_file()
        made.sequence_number = made.min_sequence_number = number
        manifests = [made] if compacts else [*manifests, made]
        with write_manifest_list(2, table.io.new_output(listed), number, parent, number, "deflate") as writer:
            writer.add_manifests(manifests)
        operation = Operation.REPLACE if compacts else Operation.APPEND
        updates.append(AddSnapshotUpdate(snapshot=Snapshot(
            snapshot_id=number, parent_snapshot_id=parent, sequence_number=number, timestamp_ms=now + number,
            manifest_list=listed, summary=Summary(operation), schema_id=table.schema().schema_id)))  # fmt: skip
        parent = number
        if len(updates) == 1000 or number == snapshots:
            head = SetSnapshotRefUpdate(ref_name="main", type=SnapshotRefType.BRANCH, snapshot_id=number)
            table.catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), (*updates, head))
            updates = []
            print(f"{number} snapshots", flush=True)


def main(what: str) -> int:
    parts = {"rewrite": rewrite, "job": job, "query": query, "expire": expire}
    chosen = parts if what == "all" else {what: parts[what]}
    results = []
    with Stack(LOCAL / "bench" / f"run-{os.getpid()}", settings={"fsync": "off"}) as stack, tempfile.TemporaryDirectory() as scratch:
        compactor = Compactor(stack, Path(scratch))
        for measure in chosen.values():
            results += measure(stack, compactor)
    print(f"{'what':60} {'against':18} {'ours':>14} {'other':>14} {'ratio':>7} {'goal':>5}")
    for r in results:
        print(f"{r['what']:60} {r['against']:18} {r['ours']:14,.3f} {r['other']:14,.3f} {r['ratio']:7.2f} {r['goal']:5.2f}")
    report = LOCAL / "bench" / "compact.json"
    report.parent.mkdir(exist_ok=True)
    report.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written to {report}")
    return 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "all"))
