-- Maintenance of cold tables: what is configured, what coldfront-compactor last did and saw.

-- One row for each table that differs from the defaults; NULL stands for the compactor's default.
CREATE TABLE coldfront.maintenance_config (
    schema_name          name NOT NULL,
    table_name           name NOT NULL,
    enabled              boolean NOT NULL DEFAULT true,
    -- Size that compaction aims at, and the size below which a file counts as small (default: three quarters of it).
    target_file_bytes    bigint CHECK (target_file_bytes >= 1024),
    small_file_bytes     bigint CHECK (small_file_bytes >= 0),
    -- Small files of a partition are left alone while there are fewer.
    min_input_files      integer CHECK (min_input_files >= 2),
    -- A file is rewritten when this share of its rows is deleted, or when it has this many delete files.
    delete_ratio         double precision CHECK (delete_ratio > 0 AND delete_ratio <= 1),
    delete_files         integer CHECK (delete_files >= 1),
    -- Columns that rewritten files are sorted by.
    sort_by              text[],
    -- Manifests are rewritten when a snapshot has more than this many small ones.
    manifests_max        integer CHECK (manifests_max >= 1),
    -- Snapshots older than this expire, except the last ones.
    snapshot_age         interval CHECK (snapshot_age >= interval '0'),
    snapshots_min        integer CHECK (snapshots_min >= 1),
    -- Unreferenced objects older than this are removed.
    orphan_age           interval CHECK (orphan_age >= interval '1 hour'),
    -- Cron expressions with seconds for `serve`; the empty string means never.
    compact_schedule     text,
    manifests_schedule   text,
    expire_schedule      text,
    orphans_schedule     text,
    metadata_schedule    text,
    PRIMARY KEY (schema_name, table_name),
    FOREIGN KEY (schema_name, table_name) REFERENCES coldfront.tiered_views ON UPDATE CASCADE ON DELETE CASCADE,
    CHECK (small_file_bytes <= target_file_bytes)
);
COMMENT ON TABLE coldfront.maintenance_config IS 'How coldfront-compactor maintains each cold table';

-- What the compactor last saw of each table. Rows of this table belong to this node alone.
CREATE TABLE coldfront.maintenance_state (
    schema_name       name NOT NULL,
    table_name        name NOT NULL,
    measured_at       timestamptz NOT NULL,
    files             bigint NOT NULL,
    small_files       bigint NOT NULL,
    delete_files      bigint NOT NULL,
    deleted_rows      bigint NOT NULL,
    rows              bigint NOT NULL,
    bytes             bigint NOT NULL,
    manifests         bigint NOT NULL,
    snapshots         bigint NOT NULL,
    bytes_reclaimable bigint NOT NULL,
    PRIMARY KEY (schema_name, table_name),
    FOREIGN KEY (schema_name, table_name) REFERENCES coldfront.tiered_views ON UPDATE CASCADE ON DELETE CASCADE
);

-- The last run of each task. Rows of this table belong to this node alone.
CREATE TABLE coldfront.maintenance_run (
    schema_name name NOT NULL,
    table_name  name NOT NULL,
    task        text NOT NULL CHECK (task IN ('compact', 'rewrite-manifests', 'expire', 'orphans', 'metadata')),
    started_at  timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    -- What was done, or why it failed.
    outcome     text NOT NULL,
    failed      boolean NOT NULL,
    PRIMARY KEY (schema_name, table_name, task),
    FOREIGN KEY (schema_name, table_name) REFERENCES coldfront.tiered_views ON UPDATE CASCADE ON DELETE CASCADE
);

SELECT pg_catalog.pg_extension_config_dump('coldfront.maintenance_config', '');
GRANT SELECT ON coldfront.maintenance_config TO PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE
    ON coldfront.maintenance_config, coldfront.maintenance_state, coldfront.maintenance_run TO coldfront_admin;

CREATE FUNCTION coldfront.maintenance_status()
    RETURNS TABLE (schema_name name, table_name name, enabled boolean, files bigint, small_files bigint,
                   delete_files bigint, deleted_rows bigint, manifests bigint, snapshots bigint, bytes bigint,
                   bytes_reclaimable bigint, measured_at timestamptz, last_run timestamptz, trouble text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT v.schema_name, v.table_name, coalesce(c.enabled, true), s.files, s.small_files, s.delete_files,
           s.deleted_rows, s.manifests, s.snapshots, s.bytes, s.bytes_reclaimable, s.measured_at, r.last_run, r.trouble
      FROM coldfront.tiered_views AS v
      LEFT JOIN coldfront.maintenance_config AS c USING (schema_name, table_name)
      LEFT JOIN coldfront.maintenance_state AS s USING (schema_name, table_name)
      LEFT JOIN LATERAL (
           SELECT max(finished_at) AS last_run,
                  string_agg(task || ': ' || outcome, '; ' ORDER BY task) FILTER (WHERE failed) AS trouble
             FROM coldfront.maintenance_run AS m
            WHERE m.schema_name = v.schema_name AND m.table_name = v.table_name) AS r ON true
     ORDER BY 1, 2;
$$;
COMMENT ON FUNCTION coldfront.maintenance_status IS
    'Files, delete files, snapshots and reclaimable bytes of every cold table as coldfront-compactor last saw them';
