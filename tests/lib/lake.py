"""The lake as somebody who knows nothing of PostgreSQL sees it: through pyiceberg and plain S3."""

from __future__ import annotations

import os
import re
import warnings

import boto3
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table import Table

warnings.filterwarnings("ignore", module="pyiceberg")


def catalog(env: dict[str, str] | None = None) -> RestCatalog:
    """The catalog that these addresses (by default those of `.local/env`) name."""
    env = env or dict(os.environ)
    return RestCatalog(
        "lake",
        **{
            "uri": env["CATALOG_URI"],
            "warehouse": env["WAREHOUSE"],
            "credential": f"{env['S3_ACCESS_KEY']}:{env['S3_SECRET_KEY']}",
            "oauth2-server-uri": env["CATALOG_TOKEN_URL"],
            "scope": "catalog",
            "s3.endpoint": env["S3_ENDPOINT"],
            "s3.access-key-id": env["S3_ACCESS_KEY"],
            "s3.secret-access-key": env["S3_SECRET_KEY"],
            "s3.region": env["S3_REGION"],
            "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        },
    )


def load(catalog: RestCatalog, reference: str) -> Table:
    """By a stored reference such as `"ice"."public"."flights"`: the first part names the catalog."""
    parts = [part.replace('""', '"') for part in re.findall(r'"((?:[^"]|"")*)"', reference)]
    return catalog.load_table(tuple(parts[1:]))


def objects(prefix: str = "", env: dict[str, str] | None = None) -> dict[str, int]:
    """Names and sizes of what lies in the warehouse's bucket, finished objects only."""
    env = env or dict(os.environ)
    pages = s3(env).get_paginator("list_objects_v2").paginate(Bucket=env["WAREHOUSE"], Prefix=prefix)
    return {found["Key"]: found["Size"] for page in pages for found in page.get("Contents", [])}


def uploads(env: dict[str, str] | None = None) -> list[str]:
    """Multipart uploads that were begun and neither finished nor aborted."""
    env = env or dict(os.environ)
    return [upload["Key"] for upload in s3(env).list_multipart_uploads(Bucket=env["WAREHOUSE"]).get("Uploads", [])]


def s3(env: dict[str, str]):
    return boto3.client(
        "s3",
        endpoint_url=env["S3_ENDPOINT"],
        aws_access_key_id=env["S3_ACCESS_KEY"],
        aws_secret_access_key=env["S3_SECRET_KEY"],
        region_name=env["S3_REGION"],
    )


def orphans(env: dict[str, str]) -> set[str]:
    """Finished objects that no snapshot of any table refers to. The catalog's own metadata files count as referred to."""
    found = {key for key in objects("", env) if not key.endswith(".metadata.json")}
    if not found:
        return found
    client = catalog(env)
    for namespace in client.list_namespaces():
        for identifier in client.list_tables(namespace):
            found -= referenced(client.load_table(identifier))
    return found


def entries(manifest: ManifestFile, io: FileIO, known: dict[str, list[ManifestEntry]]) -> list[ManifestEntry]:
    """What a manifest says, also of files that are gone. `known` keeps it: a manifest never changes."""
    path = manifest.manifest_path
    if path not in known:
        known[path] = manifest.fetch_manifest_entry(io, discard_deleted=False)
    return known[path]


def referenced(table: Table, known: dict[str, list[ManifestEntry]] | None = None) -> set[str]:
    """Keys of all objects that the snapshots of a table need. `known` keeps what manifests say between calls."""
    keys: set[str] = set()
    known = {} if known is None else known
    for snapshot in table.metadata.snapshots:
        keys.add(_key(snapshot.manifest_list))
        for manifest in snapshot.manifests(table.io):
            if _key(manifest.manifest_path) not in keys:
                keys.add(_key(manifest.manifest_path))
                keys |= {_key(entry.data_file.file_path) for entry in entries(manifest, table.io, known)}
    return keys


def _key(location: str) -> str:
    return location.split("://", 1)[1].split("/", 1)[1]
