-- Write serialisation. On one node a table's writers queue on a transaction-scoped advisory lock of the whole cluster,
-- key hashtextextended('coldfront_iceberg:' || reference, 0).

CREATE FUNCTION coldfront._reject_on_standby() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'coldfront: this server is a standby and cannot change cold tables'
            USING ERRCODE = '25006', HINT = 'Run it on the primary.';
    END IF;
END
$$;

CREATE FUNCTION coldfront._claim_iceberg_lock(p_ref text) RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', '_claim_iceberg_lock_wrapper';

CREATE FUNCTION coldfront._claim_iceberg_external(p_ref text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM coldfront._reject_on_standby();
    PERFORM coldfront._claim_iceberg_lock(p_ref);
END
$$;
COMMENT ON FUNCTION coldfront._claim_iceberg_external IS
    'Holds a table''s write claim for the rest of the transaction, for a program that commits to the catalog itself';

CREATE FUNCTION coldfront._exec_iceberg_with_claim(p_ref text, p_sql text) RETURNS bigint
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', '_exec_iceberg_with_claim_wrapper';
COMMENT ON FUNCTION coldfront._exec_iceberg_with_claim IS
    'Runs an engine statement that changes a table under its claim; returns the rows changed';

CREATE FUNCTION coldfront._drop_lake_table(p_ref text, p_purge boolean) RETURNS boolean
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', '_drop_lake_table_wrapper';

CREATE FUNCTION coldfront._create_namespace(p_namespace text) RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', '_create_namespace_wrapper';

CREATE FUNCTION coldfront._lake_head(p_ref text) RETURNS bigint
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', '_lake_head_wrapper';

CREATE FUNCTION coldfront._lake_has_snapshot(p_ref text, p_snapshot bigint) RETURNS boolean
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', '_lake_has_snapshot_wrapper';

CREATE FUNCTION coldfront.ensure_attached() RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'ensure_attached_wrapper';
COMMENT ON FUNCTION coldfront.ensure_attached IS 'Makes sure that the engine has the Iceberg catalog attached as ice';
