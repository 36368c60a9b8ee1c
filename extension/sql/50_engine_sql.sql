-- Engine SQL for administrators: it is run as it stands.

CREATE FUNCTION duckdb.raw_query(query text) RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'raw_query_wrapper';
COMMENT ON FUNCTION duckdb.raw_query IS 'Runs engine SQL in this transaction and shows its rows in a notice';

CREATE FUNCTION duckdb.query(query text) RETURNS SETOF jsonb
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'query_wrapper';
COMMENT ON FUNCTION duckdb.query IS 'Rows of an engine query; r[''col''] is a column';

CREATE FUNCTION iceberg_scan(table_name text) RETURNS SETOF jsonb
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'iceberg_scan_wrapper';
COMMENT ON FUNCTION iceberg_scan IS 'Rows of an Iceberg table named like ice.namespace.table; r[''col''] is a column';
