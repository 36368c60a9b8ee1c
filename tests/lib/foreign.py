"""Tables as other engines write them: made with pyiceberg, with equality deletes that it cannot write itself."""

from __future__ import annotations

import time
import uuid

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestWriterV2,
    write_manifest_list,
)  # fmt: skip
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate
from pyiceberg.typedef import Record


def register(db: psycopg.Connection, schema: str, table: str) -> None:
    """Makes a table of the catalog known to the compactor, and to nobody else."""
    db.execute(
        "INSERT INTO coldfront.tiered_views (schema_name, table_name, iceberg_table, foreign_table, is_iceberg_only)"
        " VALUES (%s, %s, %s, %s, true)",
        [schema, table, f'"ice"."{schema}"."{table}"', f"{schema}.{table}"],
    )


def forget(db: psycopg.Connection, schema: str, table: str) -> None:
    db.execute("DELETE FROM coldfront.tiered_views WHERE schema_name = %s AND table_name = %s", [schema, table])


class _DeleteManifestWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def delete_equal(table: Table, keys: pa.Table, ids: dict[str, int], partition: Record | None = None, spec_id: int = 0) -> None:
    """Commits an equality delete of the rows whose columns equal one of `keys`; `ids` are the columns' field ids."""
    table.refresh()
    fields = [field.with_metadata({"PARQUET:field_id": str(ids[field.name])}) for field in keys.schema]
    path = f"{table.location()}/data/eq-{uuid.uuid4()}.parquet"
    with table.io.new_output(path).create() as out:
        pq.write_table(keys.cast(pa.schema(fields)), out)
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES, file_path=path, file_format=FileFormat.PARQUET,
        partition=partition or Record(), record_count=keys.num_rows, file_size_in_bytes=len(table.io.new_input(path)),
        equality_ids=list(ids.values()), column_sizes={}, value_counts={}, null_value_counts={}, nan_value_counts={},
        lower_bounds={}, upper_bounds={}, key_metadata=None, split_offsets=None, sort_order_id=None,
    )  # fmt: skip
    file.spec_id = spec_id
    snapshot, parent = uuid.uuid4().int >> 66, table.current_snapshot()
    directory = f"{table.location()}/metadata"
    output = table.io.new_output(f"{directory}/{uuid.uuid4()}-m0.avro")
    with _DeleteManifestWriter(table.specs()[spec_id], table.schema(), output, snapshot, "deflate") as writer:
        writer.add_entry(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot, sequence_number=None,
                                                 file_sequence_number=None, data_file=file))  # fmt: skip
    manifest = writer.to_manifest_file()
    sequence = table.metadata.last_sequence_number + 1
    listed = f"{directory}/snap-{snapshot}-{uuid.uuid4()}.avro"
    with write_manifest_list(2, table.io.new_output(listed), snapshot, parent.snapshot_id, sequence, "deflate") as lists:
        lists.add_manifests([*parent.manifests(table.io), manifest])
    made = Snapshot(
        snapshot_id=snapshot, parent_snapshot_id=parent.snapshot_id, sequence_number=sequence,
        timestamp_ms=int(time.time() * 1000), manifest_list=listed, summary=Summary(Operation.DELETE),
        schema_id=table.schema().schema_id,
    )  # fmt: skip
    head = SetSnapshotRefUpdate(ref_name="main", type=SnapshotRefType.BRANCH, snapshot_id=snapshot)
    table.catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), (AddSnapshotUpdate(snapshot=made), head))
    table.refresh()
