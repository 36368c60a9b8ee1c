-- Privileges. Everything that reaches the engine directly is for superusers and coldfront_admin.

GRANT USAGE ON SCHEMA coldfront TO PUBLIC;
GRANT USAGE ON SCHEMA duckdb TO coldfront_admin;
GRANT USAGE, CREATE ON SCHEMA coldfront_cold TO coldfront_admin;
GRANT USAGE ON FOREIGN SERVER coldfront TO coldfront_admin;
GRANT INSERT, DELETE, UPDATE ON coldfront.tiered_views TO coldfront_admin;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA coldfront, duckdb FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION iceberg_scan(text) FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA coldfront, duckdb TO coldfront_admin;
GRANT EXECUTE ON FUNCTION iceberg_scan(text) TO coldfront_admin;
GRANT EXECUTE ON FUNCTION coldfront._iceberg_storage_type(text) TO PUBLIC;
-- Run as the owner of a table whose columns change; they do what the caller may do.
GRANT EXECUTE ON FUNCTION coldfront._mirror_constraints(regclass, regclass, text), coldfront._columns(regclass) TO PUBLIC;

CREATE FUNCTION coldfront.grant_app_access(p_role text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_entry record;
BEGIN
    FOR v_entry IN SELECT schema_name, table_name FROM coldfront.tiered_views ORDER BY 1, 2 LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', v_entry.schema_name, p_role);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I.%I TO %I', v_entry.schema_name, v_entry.table_name, p_role);
    END LOOP;
END
$$;
COMMENT ON FUNCTION coldfront.grant_app_access IS 'Lets a role read and write every registered relation';
REVOKE EXECUTE ON FUNCTION coldfront.grant_app_access(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION coldfront.grant_app_access(text) TO coldfront_admin;
