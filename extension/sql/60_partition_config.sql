-- Tiered tables: what is configured, how far each table is archived, and what is on its way.

CREATE SCHEMA coldfront_archive;
COMMENT ON SCHEMA coldfront_archive IS 'ColdFront: changes captured while partitions are archived';

-- The lifecycle of each partitioned table, by name so that it means the same on every node.
CREATE TABLE coldfront.partition_config (
    schema_name          name NOT NULL,
    table_name           name NOT NULL,
    period               text NOT NULL CHECK (period IN ('monthly', 'weekly', 'daily', 'hourly')),
    -- Rows older than this go to Iceberg; NULL: the partitions are managed and nothing is archived.
    hot_period           interval CHECK (hot_period >= interval '0'),
    -- Rows older than this are deleted; NULL: never.
    retention_period     interval CHECK (retention_period > interval '0'),
    -- Periods ahead of the current one that have their partitions already.
    premake              integer NOT NULL DEFAULT 4 CHECK (premake BETWEEN 0 AND 1000),
    part_mode            text NOT NULL DEFAULT 'time' CHECK (part_mode IN ('time', 'id')),
    id_scheme            text CHECK (id_scheme IN ('snowflake', 'uuidv7')),
    -- Moment that a snowflake's milliseconds count from.
    id_epoch             timestamptz NOT NULL DEFAULT '2023-01-01 00:00:00+00',
    -- schema.table.column whose values each need a sub-tree, for tables LIST(key) -> RANGE(time).
    sub_partition_source text,
    -- What becomes of an expired partition of a table that has no hot period.
    expiration           text NOT NULL DEFAULT 'drop' CHECK (expiration IN ('drop', 'detach')),
    enabled              boolean NOT NULL DEFAULT true,
    created_at           timestamptz NOT NULL DEFAULT pg_catalog.now(),
    PRIMARY KEY (schema_name, table_name),
    CHECK ((part_mode = 'id') = (id_scheme IS NOT NULL))
);
COMMENT ON TABLE coldfront.partition_config IS 'Lifecycle of partitioned tables, applied by coldfront-archiver';

-- Rows with the partition column below the cutoff are cold. The literal does not depend on session settings.
CREATE TABLE coldfront.archive_watermark (
    schema_name      name NOT NULL,
    table_name       name NOT NULL,
    partition_column name NOT NULL,
    cutoff           text NOT NULL,
    updated_at       timestamptz NOT NULL DEFAULT pg_catalog.now(),
    PRIMARY KEY (schema_name, table_name),
    FOREIGN KEY (schema_name, table_name) REFERENCES coldfront.tiered_views ON UPDATE CASCADE ON DELETE CASCADE
);
COMMENT ON TABLE coldfront.archive_watermark IS 'Where the cold part of each tiered relation ends';

-- A range on its way to Iceberg. Rows of this table belong to this node alone.
CREATE TABLE coldfront.archive_attempt (
    attempt_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schema_name  name NOT NULL,
    table_name   name NOT NULL,
    lower_bound  text NOT NULL,
    upper_bound  text NOT NULL,
    -- Partitions that hold the range; several in two-level trees.
    leaves       oid[] NOT NULL,
    -- watching: changes are captured; exported: Iceberg holds the range but for what was captured since;
    -- cut_over: the range is cold, its detached partitions wait for their drop.
    phase        text NOT NULL CHECK (phase IN ('watching', 'exported', 'cut_over')),
    -- The columns it was begun with.
    columns_hash text NOT NULL,
    row_count    bigint,
    snapshot_id  text,
    started_at   timestamptz NOT NULL DEFAULT pg_catalog.now(),
    cut_over_at  timestamptz,
    FOREIGN KEY (schema_name, table_name) REFERENCES coldfront.tiered_views ON UPDATE CASCADE ON DELETE CASCADE
);
COMMENT ON TABLE coldfront.archive_attempt IS 'Ranges that coldfront-archiver is moving to Iceberg';

-- Iceberg tables that are about to be created: what the lake keeps of a creation that a crash cut short is known by it.
CREATE TABLE coldfront.tier_intent (
    iceberg_table text PRIMARY KEY,
    created_at    timestamptz NOT NULL DEFAULT pg_catalog.now()
);

SELECT pg_catalog.pg_extension_config_dump('coldfront.partition_config', '');
SELECT pg_catalog.pg_extension_config_dump('coldfront.archive_watermark', '');
GRANT SELECT ON coldfront.partition_config, coldfront.archive_watermark TO PUBLIC;
GRANT USAGE, CREATE ON SCHEMA coldfront_archive TO coldfront_admin;
GRANT SELECT, INSERT, UPDATE, DELETE
    ON coldfront.partition_config, coldfront.archive_watermark, coldfront.archive_attempt, coldfront.tier_intent
    TO coldfront_admin;

-- The lifecycle follows a renamed relation. (An empty schema stands for none while a cutover replaces the view.)
CREATE FUNCTION coldfront._follow_rename() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE coldfront.partition_config SET schema_name = NEW.schema_name, table_name = NEW.table_name
     WHERE schema_name = OLD.schema_name AND table_name = OLD.table_name;
    RETURN NULL;
END
$$;
CREATE TRIGGER follow_rename AFTER UPDATE OF schema_name, table_name ON coldfront.tiered_views
    FOR EACH ROW WHEN (OLD.schema_name <> '' AND NEW.schema_name <> '')
    EXECUTE FUNCTION coldfront._follow_rename();
