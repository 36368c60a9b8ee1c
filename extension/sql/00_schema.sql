-- Schemas and roles.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'coldfront_admin') THEN
        CREATE ROLE coldfront_admin NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object THEN
    NULL;
END
$$;

CREATE SCHEMA coldfront;
COMMENT ON SCHEMA coldfront IS 'ColdFront: functions and registry';
CREATE SCHEMA coldfront_cold;
COMMENT ON SCHEMA coldfront_cold IS 'ColdFront: foreign tables behind cold relations';
CREATE SCHEMA duckdb;
COMMENT ON SCHEMA duckdb IS 'ColdFront: engine SQL for administrators';
