-- The registry: one row for each relation that has a cold part.

CREATE TABLE coldfront.tiered_views (
    schema_name     name NOT NULL,
    table_name      name NOT NULL,
    -- Reference of the Iceberg table, every part quoted: "ice"."lake"."orders".
    iceberg_table   text NOT NULL UNIQUE,
    -- Foreign table in schema coldfront_cold.
    foreign_table   name NOT NULL UNIQUE,
    -- Partitioned table with the hot rows, in the same schema; NULL where all rows live in Iceberg.
    hot_table       name CHECK ((hot_table IS NULL) = is_iceberg_only),
    is_iceberg_only boolean NOT NULL,
    is_writable     boolean NOT NULL DEFAULT true,
    created_at      timestamptz NOT NULL DEFAULT pg_catalog.now(),
    PRIMARY KEY (schema_name, table_name)
);
COMMENT ON TABLE coldfront.tiered_views IS 'Relations whose rows live in Iceberg, wholly or in part';
SELECT pg_catalog.pg_extension_config_dump('coldfront.tiered_views', '');
GRANT SELECT ON coldfront.tiered_views TO PUBLIC;
