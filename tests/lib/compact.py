"""What tests of the compactor need: its program, what a table looks like in the lake, a pause at a failpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pyarrow.parquet as pq

import lake
from stack import PG_HOME, Stack, wait_until

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2


class Compactor:
    """`coldfront-compactor` against the database of a stack."""

    def __init__(self, stack: Stack, directory: Path):
        self.stack, self.directory = stack, directory
        self.dsn = f"postgres://{stack.pg.user}@127.0.0.1:{stack.pg.port}/{stack.pg.dbname}"

    def command(self, *argv: str) -> list[str]:
        return [str(PG_HOME / "bin/coldfront-compactor"), *argv]

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "COLDFRONT_COMPACTOR_DSN": self.dsn, **more}

    def call(self, *argv: str, code: int | None = 0, **env: str) -> subprocess.CompletedProcess:
        """Run it; its exit code has to be `code`, unless that is None."""
        done = subprocess.run(self.command(*argv), capture_output=True, text=True, env=self.environment(**env), timeout=180)
        done.stderr = done.stderr.replace('\\"', '"')  # the log lines are JSON
        if code is not None:
            assert done.returncode == code, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def run(self, table: str, task: str, *argv: str, code: int | None = 0, **env: str) -> subprocess.CompletedProcess:
        return self.call("run", "--table", table, "--task", task, *argv, code=code, **env)

    def compact(self, table: str, *argv: str, code: int | None = 0, **env: str) -> subprocess.CompletedProcess:
        return self.run(table, "compact", *argv, code=code, **env)

    def expire_all(self, table: str, *argv: str) -> subprocess.CompletedProcess:
        return self.run(table, "expire", "--older-than-hours", "0", *argv)

    def orphans_now(self, table: str, *argv: str) -> subprocess.CompletedProcess:
        return self.run(table, "orphans", "--orphan-age-hours", "0", "--i-know", *argv)

    def pause_at(self, point: str, *argv: str) -> "Paused":
        return Paused(self, point, argv)


class Paused:
    """A compactor that runs up to a failpoint and waits there."""

    def __init__(self, compactor: Compactor, point: str, argv: tuple[str, ...]):
        self.log = compactor.directory / f"{point}-{time.monotonic_ns()}.log"
        with open(self.log, "w") as out:
            env = compactor.environment(COLDFRONT_COMPACTOR_PAUSE_AT=point)
            self.process = subprocess.Popen(compactor.command(*argv), stdout=out, stderr=out, env=env)
        wait_until(f"the compactor to pause at {point}", self._paused, 60, self.log)

    def _paused(self) -> bool:
        if '"paused"' in self.log.read_text():
            return True
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.log.read_text()}"
        return False

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)


class Serving:
    """`serve`, which compacts every second."""

    def __init__(self, compactor: Compactor):
        config = compactor.directory / "serve.toml"
        config.write_text('[compactor.schedule]\ncompact = "* * * * * *"\n')
        self.log = compactor.directory / "serve.log"
        with open(self.log, "w") as out:
            command = compactor.command("--config", str(config), "serve")
            self.process = subprocess.Popen(command, stdout=out, stderr=out, env=compactor.environment())

    def rounds(self, table: str) -> list[dict]:
        """What it said of each round over a table that succeeded."""
        lines = [json.loads(line)["fields"] for line in self.log.read_text().splitlines(keepends=True) if line.endswith("}\n")]
        return [fields for fields in lines if fields.get("table") == table and "requests" in fields]

    def look(self, table: str) -> None:
        """Waits for a round that began after this call."""
        before = len(self.rounds(table))
        wait_until("two rounds to end", lambda: len(self.rounds(table)) >= before + 2, 30, self.log)

    def __enter__(self) -> "Serving":
        return self

    def __exit__(self, *error) -> None:
        self.process.terminate()
        assert self.process.wait(10) == 0


class Shape:
    """How a table looks to pyiceberg."""

    def __init__(self, env: dict[str, str], schema: str, table: str):
        self.env = env
        self.table = lake.catalog(env).load_table((schema, table))

    def content(self, kind: int) -> list[dict]:
        files = self.table.inspect.files().to_pylist() if self.table.current_snapshot() else []
        return [file for file in files if file["content"] == kind]

    @property
    def data_files(self) -> int:
        return len(self.content(DATA))

    @property
    def delete_files(self) -> int:
        return len(self.content(POSITION_DELETES)) + len(self.content(EQUALITY_DELETES))

    @property
    def snapshots(self) -> int:
        return len(self.table.metadata.snapshots)

    def summary(self) -> dict[str, str]:
        return dict(self.table.current_snapshot().summary.additional_properties)

    def rows(self, snapshot: int | None = None) -> list[tuple]:
        read = self.table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
        return sorted((tuple(row.values()) for row in read), key=repr)


class Retained:
    """What every retained snapshot of a table needs. A manifest, or a data file, is read once: objects never change, and
    each time all of them have to be there still."""

    def __init__(self, env: dict[str, str]):
        self.env, self.manifests, self.rows = env, {}, {}

    def check(self, schema: str, table: str, read: bool = True, scan: bool = True) -> None:
        """What strict readers insist on, of every snapshot; with `read`, every file of each is read in full, and pyiceberg scans
        the current snapshot, or with `scan` all."""
        loaded = lake.catalog(self.env).load_table((schema, table))
        prefix = f"s3://{self.env['WAREHOUSE']}/"
        present = {prefix + key for key in lake.objects("", self.env)}
        numbers = set()
        for snapshot in loaded.metadata.snapshots:
            assert snapshot.sequence_number not in numbers
            numbers.add(snapshot.sequence_number)
            assert snapshot.sequence_number <= loaded.metadata.last_sequence_number
            assert snapshot.manifest_list in present
            totals = {"total-records": 0, "total-data-files": 0, "total-delete-files": 0, "total-files-size": 0,
                      "total-position-deletes": 0, "total-equality-deletes": 0}  # fmt: skip
            seen = set()
            for manifest in snapshot.manifests(loaded.io):
                assert manifest.manifest_path in present
                for file in self._live(manifest, snapshot.sequence_number, loaded.io):
                    assert file.file_path not in seen and file.file_path in present
                    seen.add(file.file_path)
                    if read:
                        assert self._rows(file.file_path, loaded.io) == file.record_count
                    totals["total-files-size"] += file.file_size_in_bytes
                    if file.content == DATA:
                        totals["total-data-files"] += 1
                        totals["total-records"] += file.record_count
                    else:
                        totals["total-delete-files"] += 1
                        kind = "position" if file.content == POSITION_DELETES else "equality"
                        totals[f"total-{kind}-deletes"] += file.record_count
            summary = snapshot.summary.additional_properties
            if summary.get("coldfront.task"):
                for name, value in totals.items():
                    assert summary[name] == str(value), (name, summary)
        for snapshot in loaded.metadata.snapshots if read and scan else [loaded.current_snapshot()] if read else []:
            loaded.scan(snapshot_id=snapshot.snapshot_id).to_arrow()

    def _live(self, manifest, sequence_number: int, io) -> list:
        """The files of a manifest as a snapshot lists it."""
        assert manifest.min_sequence_number <= manifest.sequence_number <= sequence_number
        entries = lake.entries(manifest, io, self.manifests)
        live = [entry for entry in entries if entry.status != 2]
        counts = [sum(entry.status == status for entry in entries) for status in (0, 1, 2)]
        assert counts == [manifest.existing_files_count, manifest.added_files_count, manifest.deleted_files_count]
        if live:
            assert manifest.min_sequence_number == min(entry.sequence_number for entry in live)
        return [entry.data_file for entry in live]

    def _rows(self, path: str, io) -> int:
        """Rows of a file, which is read in full."""
        if path not in self.rows:
            with io.new_input(path).open() as file:
                self.rows[path] = pq.read_table(file).num_rows
        return self.rows[path]


def strictly_valid(env: dict[str, str], schema: str, table: str, read: bool = True) -> None:
    Retained(env).check(schema, table, read)


def footers(env: dict[str, str], shape: Shape) -> list[pq.FileMetaData]:
    return [pq.read_metadata(shape.table.io.new_input(file["file_path"]).open()) for file in shape.content(DATA)]
