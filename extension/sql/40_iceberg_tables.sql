-- Creating and dropping tables whose rows live in Iceberg.

CREATE FUNCTION coldfront._iceberg_storage_type(p_type text) RETURNS text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', '_iceberg_storage_type_wrapper';
COMMENT ON FUNCTION coldfront._iceberg_storage_type IS 'The engine''s type for a PostgreSQL type; raises for unsupported ones';

CREATE FUNCTION coldfront._column_types(p_names text[], p_types text[])
    RETURNS TABLE ("position" integer, declared text, storage text, dimensions integer)
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', '_column_types_wrapper';

CREATE FUNCTION coldfront._partition_clause(p_terms text[], p_names text[], p_types text[]) RETURNS text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', '_partition_clause_wrapper';

CREATE FUNCTION coldfront._table_ref(p_namespace text, p_table text) RETURNS text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', '_table_ref_wrapper';

CREATE FUNCTION coldfront._engine_ident(p_name text) RETURNS text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', '_engine_ident_wrapper';

-- Catalogs differ in the names they take. A name of lower-case letters, digits and underscores that starts with a
-- letter is taken by all of them and stays as it is; any other gets its odd characters replaced and a hash of the
-- original appended. So does main, which the engine takes for a schema of its own.
CREATE FUNCTION coldfront._lake_name(p_name text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p_name ~ '^[a-z][a-z0-9_]*$' AND p_name <> 'main' THEN p_name
                ELSE 'x' || regexp_replace(lower(p_name), '[^a-z0-9_]', '_', 'g') || '_' || left(md5(p_name), 12) END;
$$;

-- The foreign table's name: schema.table, in a stable way shortened where that exceeds 63 bytes, and told apart where
-- a dot inside a name makes it ambiguous.
CREATE FUNCTION coldfront._foreign_table_name(p_schema text, p_table text) RETURNS name
    LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN octet_length(p_schema) + octet_length(p_table) < 63 AND position('.' IN p_schema || p_table) = 0
                THEN p_schema || '.' || p_table
                ELSE left(regexp_replace(p_schema || '.' || p_table, '[^\x20-\x7e]', '_', 'g'), 46)
                     || '_' || left(md5(quote_ident(p_schema) || '.' || quote_ident(p_table)), 16) END::name;
$$;

-- Names by which the engine or PostgreSQL itself identifies rows.
CREATE FUNCTION coldfront._is_reserved_column(p_name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT lower(p_name) IN ('filename', 'file_row_number', 'file_index', 'rowid', 'ctid', 'tableoid', 'xmin', 'xmax', 'cmin', 'cmax');
$$;

CREATE FUNCTION coldfront.create_iceberg_table(
    p_schema text, p_table text, p_columns jsonb, p_partition_cols text[] DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_ref        text := coldfront._table_ref(coldfront._lake_name(p_schema), coldfront._lake_name(p_table));
    v_foreign    name := coldfront._foreign_table_name(p_schema, p_table);
    v_names      text[];
    v_types      text[];
    v_bad        text;
    v_partition  text;
    v_storage    text;
    v_definition text;
    v_select     text;
    v_column     record;
BEGIN
    PERFORM coldfront._reject_on_standby();
    IF p_schema IS NULL OR p_table IS NULL OR p_columns IS NULL THEN
        RAISE EXCEPTION 'coldfront: schema, table and columns must not be NULL' USING ERRCODE = '22004';
    END IF;
    IF getdatabaseencoding() <> 'UTF8' THEN
        RAISE EXCEPTION 'coldfront: cold tables need a database with encoding UTF8, this one has %', getdatabaseencoding()
            USING ERRCODE = '0A000';
    END IF;
    IF octet_length(p_table) > 63 OR octet_length(p_schema) > 63 THEN
        RAISE EXCEPTION 'coldfront: the name %.% is longer than 63 bytes', p_schema, p_table USING ERRCODE = '42622';
    END IF;
    IF p_schema LIKE 'pg\_%' OR p_schema IN ('information_schema', 'coldfront', 'coldfront_cold', 'duckdb') THEN
        RAISE EXCEPTION 'coldfront: tables cannot be created in schema %', quote_ident(p_schema) USING ERRCODE = '42939';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = p_schema) THEN
        RAISE EXCEPTION 'schema "%" does not exist', p_schema USING ERRCODE = '3F000';
    END IF;
    IF EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = p_schema AND c.relname = p_table) THEN
        RAISE EXCEPTION 'relation "%" already exists', p_table USING ERRCODE = '42P07';
    END IF;
    IF jsonb_typeof(p_columns) <> 'array' OR jsonb_array_length(p_columns) = 0 THEN
        RAISE EXCEPTION 'coldfront: p_columns must be a JSON array of at least one {"name": …, "type": …}'
            USING ERRCODE = '22023';
    END IF;

    SELECT array_agg(e.value ->> 'name' ORDER BY e.ordinality), array_agg(e.value ->> 'type' ORDER BY e.ordinality)
      INTO v_names, v_types
      FROM jsonb_array_elements(p_columns) WITH ORDINALITY AS e;
    IF array_position(v_names, NULL) IS NOT NULL OR array_position(v_types, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'coldfront: every column needs a name and a type' USING ERRCODE = '22023';
    END IF;
    SELECT k INTO v_bad FROM jsonb_array_elements(p_columns) AS e, jsonb_object_keys(e) AS k
     WHERE k NOT IN ('name', 'type', 'not_null', 'default', 'generated') LIMIT 1;
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION 'coldfront: a column has the unknown key "%"', v_bad
            USING ERRCODE = '22023', HINT = 'Keys are name, type, not_null, default and generated.';
    END IF;
    SELECT n INTO v_bad FROM unnest(v_names) AS n WHERE octet_length(n) NOT BETWEEN 1 AND 63 LIMIT 1;
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION 'coldfront: the column name "%" must have 1 to 63 bytes', v_bad USING ERRCODE = '42622';
    END IF;
    SELECT min(n) INTO v_bad FROM unnest(v_names) AS n GROUP BY lower(n) HAVING count(*) > 1 LIMIT 1;
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION 'coldfront: column "%" stands twice', v_bad
            USING ERRCODE = '42701', HINT = 'The lake does not tell names apart that differ only in case.';
    END IF;
    SELECT n INTO v_bad FROM unnest(v_names) AS n
     WHERE coldfront._is_reserved_column(n) LIMIT 1;
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION 'coldfront: a column cannot be called "%", which identifies rows inside the engine', v_bad
            USING ERRCODE = '42939', HINT = 'Choose another name.';
    END IF;

    SELECT string_agg(coldfront._engine_ident(v_names[t."position"]) || ' ' || t.storage, ', ' ORDER BY t."position"),
           string_agg(format('%I', v_names[t."position"]), ', ' ORDER BY t."position"),
           string_agg(format('%I %s', v_names[t."position"], t.declared)
               || CASE WHEN c.value ->> 'generated' IS NOT NULL
                       THEN format(' GENERATED ALWAYS AS (%s) STORED', c.value ->> 'generated') ELSE '' END
               || CASE WHEN c.value ->> 'default' IS NOT NULL THEN format(' DEFAULT %s', c.value ->> 'default') ELSE '' END
               || CASE WHEN (c.value ->> 'not_null')::boolean THEN ' NOT NULL' ELSE '' END
               || CASE WHEN t.dimensions IS NOT NULL
                       THEN format(' CHECK (cardinality(%I) = %s)', v_names[t."position"], t.dimensions) ELSE '' END,
               ', ' ORDER BY t."position")
      INTO v_storage, v_select, v_definition
      FROM coldfront._column_types(v_names, v_types) AS t
      JOIN jsonb_array_elements(p_columns) WITH ORDINALITY AS c ON c.ordinality = t."position";

    v_partition := coldfront._partition_clause(coalesce(p_partition_cols, '{}'), v_names, v_types);
    PERFORM coldfront._claim_iceberg_lock(v_ref);
    PERFORM coldfront._create_namespace(coldfront._lake_name(p_schema));
    PERFORM coldfront._exec_iceberg_with_claim(v_ref, format('CREATE TABLE %s (%s)%s', v_ref, v_storage, v_partition));

    INSERT INTO coldfront.tiered_views (schema_name, table_name, iceberg_table, foreign_table, is_iceberg_only)
    VALUES (p_schema, p_table, v_ref, v_foreign, true);
    -- Default expressions are parsed under this function's search_path, so they name what they use with its schema.
    EXECUTE format('CREATE FOREIGN TABLE coldfront_cold.%I (%s) SERVER coldfront OPTIONS (namespace %L, table_name %L, relation %L)',
        v_foreign, v_definition, coldfront._lake_name(p_schema), coldfront._lake_name(p_table), p_schema || '.' || p_table);
    EXECUTE format('CREATE VIEW %I.%I AS SELECT %s FROM coldfront_cold.%I', p_schema, p_table, v_select, v_foreign);
    -- INSERT finds a default behind the view by itself, UPDATE … SET c = DEFAULT does not.
    FOR v_column IN SELECT e.value ->> 'name' AS name, e.value ->> 'default' AS expression
                      FROM jsonb_array_elements(p_columns) AS e WHERE e.value ->> 'default' IS NOT NULL LOOP
        EXECUTE format('ALTER VIEW %I.%I ALTER COLUMN %I SET DEFAULT %s', p_schema, p_table, v_column.name, v_column.expression);
    END LOOP;
END
$$;
COMMENT ON FUNCTION coldfront.create_iceberg_table IS
    'Creates a table whose rows live in Iceberg, behind an ordinary view of that name';

CREATE FUNCTION coldfront.drop_iceberg_table(p_schema text, p_table text, p_purge boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_entry        coldfront.tiered_views;
    v_lock_timeout text := current_setting('lock_timeout');
BEGIN
    PERFORM coldfront._reject_on_standby();
    IF p_purge IS NULL THEN
        RAISE EXCEPTION 'coldfront: p_purge must be true (stored objects go too) or false (they stay)' USING ERRCODE = '22004';
    END IF;
    SELECT * INTO v_entry FROM coldfront.tiered_views WHERE schema_name = p_schema AND table_name = p_table;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'coldfront: relation %.% is not registered', p_schema, p_table
            USING ERRCODE = '42P01', HINT = 'See coldfront.tiered_views; plain tables are dropped with DROP TABLE.';
    END IF;
    IF NOT v_entry.is_iceberg_only THEN
        PERFORM coldfront._untier(v_entry, p_purge);
        RETURN;
    END IF;
    -- A request that waits for an exclusive lock while it holds the claim would stall every writer.
    IF v_lock_timeout = '0' THEN
        PERFORM set_config('lock_timeout', '100ms', true);
    END IF;
    PERFORM coldfront._claim_iceberg_lock(v_entry.iceberg_table);
    -- Without its row the guard lets the view go.
    DELETE FROM coldfront.tiered_views WHERE schema_name = p_schema AND table_name = p_table;
    EXECUTE format('DROP VIEW %I.%I', p_schema, p_table);
    EXECUTE format('DROP FOREIGN TABLE coldfront_cold.%I', v_entry.foreign_table);
    PERFORM set_config('lock_timeout', v_lock_timeout, true);
    IF coldfront._drop_lake_table(v_entry.iceberg_table, p_purge) THEN
        RAISE NOTICE 'coldfront: dropped %.% and its Iceberg table; %', p_schema, p_table,
            CASE WHEN p_purge THEN 'the catalog removes the stored objects'
                 ELSE 'stored objects are left to the catalog''s own policy' END;
    ELSE
        RAISE NOTICE 'coldfront: dropped %.%; its Iceberg table % was gone from the catalog already', p_schema, p_table, v_entry.iceberg_table;
    END IF;
END
$$;
COMMENT ON FUNCTION coldfront.drop_iceberg_table IS 'Drops a registered relation with its Iceberg table';
