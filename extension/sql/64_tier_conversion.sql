-- Turning a partitioned table into a tiered relation: the table gets another name, a view over hot and cold rows its own.

-- _events for events; cut in a stable way where that exceeds 63 bytes.
CREATE FUNCTION coldfront._hot_name(p_table text) RETURNS name
    LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN octet_length(p_table) < 63 THEN '_' || p_table
                ELSE '_' || left(regexp_replace(p_table, '[^\x20-\x7e]', '_', 'g'), 45) || '_' || left(md5(p_table), 16) END::name;
$$;

-- The view's query at a cutoff.
CREATE FUNCTION coldfront._tier_query(p_schema text, p_table text, p_cutoff text) RETURNS text
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('SELECT %1$s FROM %2$I.%3$I WHERE %4$I >= %5$L::%6$s UNION ALL SELECT %1$s FROM coldfront_cold.%7$I WHERE %4$I < %5$L::%6$s',
                  (SELECT string_agg(quote_ident(name), ', ' ORDER BY "position") FROM coldfront._columns(h.root)),
                  e.schema_name, e.hot_table, k.key_column, p_cutoff, k.key_type, e.foreign_table)
      FROM coldfront.tiered_views AS e
      CROSS JOIN LATERAL (SELECT coldfront._hot_table(p_schema, p_table) AS root) AS h
      CROSS JOIN LATERAL coldfront._range_key(h.root) AS k
     WHERE e.schema_name = p_schema AND e.table_name = p_table;
$$;

-- Moves the cutoff: watermark and view in one go. The guard over registered views looks for the view's registry row,
-- so the row steps aside meanwhile.
CREATE FUNCTION coldfront._set_cutoff(p_schema text, p_table text, p_cutoff text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_query text := coldfront._tier_query(p_schema, p_table, p_cutoff);
    v_aside name;
BEGIN
    UPDATE coldfront.archive_watermark SET cutoff = p_cutoff, updated_at = now() WHERE schema_name = p_schema AND table_name = p_table;
    SELECT left(md5(iceberg_table), 32) INTO STRICT v_aside FROM coldfront.tiered_views WHERE schema_name = p_schema AND table_name = p_table;
    UPDATE coldfront.tiered_views SET schema_name = '', table_name = v_aside WHERE schema_name = p_schema AND table_name = p_table;
    EXECUTE format('CREATE OR REPLACE VIEW %I.%I AS %s', p_schema, p_table, v_query);
    UPDATE coldfront.tiered_views SET schema_name = p_schema, table_name = p_table WHERE schema_name = '' AND table_name = v_aside;
END
$$;

-- Terms of the Iceberg partitioning. The engine's month() of a time with time zone is slow, but it is what prunes.
CREATE FUNCTION coldfront._lake_partitioning(p_period text, p_key name, p_type text) RETURNS text[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p_type IN ('bigint', 'uuid') THEN '{}'::text[]
                ELSE ARRAY[format('%s(%s)', CASE p_period WHEN 'weekly' THEN 'day' WHEN 'daily' THEN 'day' WHEN 'hourly' THEN 'hour' ELSE 'month' END,
                                  coldfront._engine_ident(p_key))] END;
$$;

-- Creates the empty Iceberg table and its foreign table. One that a crash left behind is known by its intent.
CREATE FUNCTION coldfront._create_cold_tier(p_schema text, p_table text, p_root regclass, p_period text, p_ref text, p_foreign name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_key        record := coldfront._range_key(p_root);
    v_names      text[] := ARRAY(SELECT name::text FROM coldfront._columns(p_root) ORDER BY "position");
    v_types      text[] := ARRAY(SELECT type FROM coldfront._columns(p_root) ORDER BY "position");
    v_storage    text;
    v_definition text;
    v_check      record;
BEGIN
    SELECT string_agg(coldfront._engine_ident(v_names[t."position"]) || ' ' || t.storage, ', ' ORDER BY t."position") INTO v_storage
      FROM coldfront._column_types(v_names, v_types) AS t;
    PERFORM coldfront._claim_iceberg_lock(p_ref);
    PERFORM coldfront._exec_iceberg_with_claim(p_ref, format('CREATE TABLE %s (%s)%s', p_ref, v_storage,
        coldfront._partition_clause(coldfront._lake_partitioning(p_period, v_key.key_column, v_key.key_type), v_names, v_types)));

    SELECT string_agg(format('%I %s', name, type) || coalesce(' COLLATE ' || "collation", '')
               || CASE WHEN generated THEN format(' GENERATED ALWAYS AS (%s) STORED', expression)
                       WHEN expression IS NOT NULL THEN format(' DEFAULT %s', expression) ELSE '' END
               || CASE WHEN not_null THEN ' NOT NULL' ELSE '' END, ', ' ORDER BY "position")
      INTO v_definition FROM coldfront._columns(p_root);
    EXECUTE format('CREATE FOREIGN TABLE coldfront_cold.%I (%s) SERVER coldfront OPTIONS (namespace %L, table_name %L, relation %L)',
        p_foreign, v_definition, coldfront._lake_name(p_schema), coldfront._lake_name(p_table), p_schema || '.' || p_table);
    FOR v_check IN SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = p_root AND contype = 'c' LOOP
        EXECUTE format('ALTER FOREIGN TABLE coldfront_cold.%I ADD CONSTRAINT %I %s', p_foreign, v_check.conname, v_check.definition);
    END LOOP;
END
$$;

-- Gives one relation the owner, privileges and comments of another with the same columns.
CREATE FUNCTION coldfront._copy_properties(p_from regclass, p_to regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_item record;
BEGIN
    FOR v_item IN SELECT a.*, NULL::name AS attname, c.relowner FROM pg_class c, aclexplode(c.relacl) AS a WHERE c.oid = p_from
                  UNION ALL
                  SELECT a.*, t.attname, c.relowner FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) AS a
                   WHERE c.oid = p_from AND NOT t.attisdropped
    LOOP
        CONTINUE WHEN v_item.grantee = v_item.relowner;
        EXECUTE format('GRANT %s%s ON %s TO %s%s', v_item.privilege_type, CASE WHEN v_item.attname IS NULL THEN '' ELSE format(' (%I)', v_item.attname) END, p_to,
            CASE WHEN v_item.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(v_item.grantee)) END,
            CASE WHEN v_item.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
    FOR v_item IN SELECT obj_description(p_from, 'pg_class') AS text, NULL::name AS attname
                  UNION ALL
                  SELECT col_description(p_from, attnum), attname FROM pg_attribute WHERE attrelid = p_from AND attnum > 0 AND NOT attisdropped
    LOOP
        CONTINUE WHEN v_item.text IS NULL;
        EXECUTE format('COMMENT ON %s %s%s IS %L',
            CASE WHEN v_item.attname IS NOT NULL THEN 'COLUMN' WHEN (SELECT relkind FROM pg_class WHERE oid = p_to) = 'v' THEN 'VIEW' ELSE 'TABLE' END,
            p_to, CASE WHEN v_item.attname IS NULL THEN '' ELSE format('.%I', v_item.attname) END, v_item.text);
    END LOOP;
    EXECUTE format('ALTER TABLE %s OWNER TO %I', p_to, (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = p_from));
END
$$;

-- Statements that define again, by name, the views and SQL functions that read a relation.
CREATE FUNCTION coldfront._dependents(p_rel regclass) RETURNS TABLE (object text, statement text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT 'view ' || c.oid::regclass,
           format('CREATE OR REPLACE VIEW %s%s AS %s', c.oid::regclass,
                  coalesce((SELECT ' WITH (' || string_agg(o, ', ') || ')' FROM unnest(c.reloptions) AS o), ''), pg_get_viewdef(c.oid))
      FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid JOIN pg_class c ON c.oid = r.ev_class
     WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = p_rel AND c.oid <> p_rel
    UNION
    SELECT DISTINCT 'function ' || d.objid::regprocedure, pg_get_functiondef(d.objid)
      FROM pg_depend d
     WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = p_rel;
$$;

-- Converts a configured table. The caller sets a short lock_timeout. False if it is tiered already.
CREATE FUNCTION coldfront._tier_convert(p_schema text, p_table text) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v_config    coldfront.partition_config;
    v_root      regclass;
    v_key       record;
    v_ref       text := coldfront._table_ref(coldfront._lake_name(p_schema), coldfront._lake_name(p_table));
    v_foreign   name := coldfront._foreign_table_name(p_schema, p_table);
    v_hot       name := coldfront._hot_name(p_table);
    v_view      text := format('%I.%I', p_schema, p_table);
    v_dependent record;
    v_objects   text[];
    v_cutoff    text;
BEGIN
    PERFORM coldfront._reject_on_standby();
    SELECT * INTO STRICT v_config FROM coldfront.partition_config WHERE schema_name = p_schema AND table_name = p_table;
    IF EXISTS (SELECT FROM coldfront.tiered_views WHERE schema_name = p_schema AND table_name = p_table) THEN
        RETURN false;
    END IF;
    IF getdatabaseencoding() <> 'UTF8' THEN
        RAISE EXCEPTION 'coldfront: cold tables need a database with encoding UTF8, this one has %', getdatabaseencoding() USING ERRCODE = '0A000';
    END IF;
    v_root := coldfront._hot_table(p_schema, p_table);
    PERFORM coldfront._check_tree(p_schema, p_table, v_root);
    PERFORM coldfront._check_tierable(p_schema, p_table, v_root);
    IF to_regclass(format('%I.%I', p_schema, v_hot)) IS NOT NULL THEN
        RAISE EXCEPTION 'coldfront: % cannot be converted, because the name %.% is taken', v_view, quote_ident(p_schema), quote_ident(v_hot)
            USING ERRCODE = '42P07', HINT = 'Rename that relation; the hot rows get this name.';
    END IF;
    v_key := coldfront._range_key(v_root);
    v_cutoff := coldfront._key_min(v_key.key_type);
    PERFORM coldfront._create_cold_tier(p_schema, p_table, v_root, v_config.period, v_ref, v_foreign);

    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', v_root);
    PERFORM coldfront._check_tierable(p_schema, p_table, v_root);
    SELECT coalesce(array_agg(ARRAY[object, statement] ORDER BY object), '{}') INTO v_objects FROM coldfront._dependents(v_root);
    EXECUTE format('ALTER TABLE %s RENAME TO %I', v_root, v_hot);
    INSERT INTO coldfront.tiered_views (schema_name, table_name, iceberg_table, foreign_table, hot_table, is_iceberg_only)
    VALUES (p_schema, p_table, v_ref, v_foreign, v_hot, false);
    INSERT INTO coldfront.archive_watermark (schema_name, table_name, partition_column, cutoff)
    VALUES (p_schema, p_table, v_key.key_column, v_cutoff);
    EXECUTE format('CREATE VIEW %s AS %s', v_view, coldfront._tier_query(p_schema, p_table, v_cutoff));
    FOR v_dependent IN SELECT name, expression FROM coldfront._columns(v_root) WHERE expression IS NOT NULL AND NOT generated LOOP
        EXECUTE format('ALTER VIEW %s ALTER COLUMN %I SET DEFAULT %s', v_view, v_dependent.name, v_dependent.expression);
    END LOOP;
    PERFORM coldfront._copy_properties(v_root, v_view::regclass);
    EXECUTE format('ALTER FOREIGN TABLE coldfront_cold.%I OWNER TO %I', v_foreign, (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = v_root));
    PERFORM coldfront._redefine(v_view, v_objects);
    DELETE FROM coldfront.tier_intent WHERE iceberg_table = v_ref;
    RETURN true;
END
$$;
COMMENT ON FUNCTION coldfront._tier_convert IS 'Puts a view over hot and cold rows in the place of a partitioned table';

-- Lets what read the table read the view.
CREATE FUNCTION coldfront._redefine(p_view text, p_objects text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_pair  text[];
BEGIN
    IF cardinality(p_objects) = 0 THEN
        RETURN;
    END IF;
    FOREACH v_pair SLICE 1 IN ARRAY p_objects LOOP
        BEGIN
            EXECUTE v_pair[2];
        EXCEPTION WHEN OTHERS THEN
            RAISE EXCEPTION 'coldfront: % depends on % and cannot be defined over hot and cold rows: %', v_pair[1], p_view, SQLERRM
                USING ERRCODE = '2BP01', HINT = 'Drop it, and create it again after the first archive run.';
        END;
    END LOOP;
END
$$;

-- Declares that an Iceberg table is about to be created, and clears away an empty one that a crash left of an earlier
-- declaration. Runs in a transaction of its own, before the conversion. A table that was there before the declaration
-- belongs to somebody else.
CREATE FUNCTION coldfront._tier_prepare(p_schema text, p_table text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_ref  text := coldfront._table_ref(coldfront._lake_name(p_schema), coldfront._lake_name(p_table));
    v_rows bigint;
BEGIN
    PERFORM coldfront._reject_on_standby();
    IF EXISTS (SELECT FROM coldfront.tiered_views WHERE iceberg_table = v_ref) THEN
        RETURN;
    END IF;
    PERFORM coldfront._create_namespace(coldfront._lake_name(p_schema));
    BEGIN
        SELECT (r ->> 'n')::bigint INTO v_rows FROM duckdb.query(format('SELECT count(*) AS n FROM %s', v_ref)) AS r;
    EXCEPTION WHEN undefined_table THEN
        v_rows := NULL;
    END;
    IF v_rows IS NULL THEN
        INSERT INTO coldfront.tier_intent (iceberg_table) VALUES (v_ref) ON CONFLICT DO NOTHING;
    ELSIF v_rows = 0 AND EXISTS (SELECT FROM coldfront.tier_intent WHERE iceberg_table = v_ref) THEN
        PERFORM coldfront._drop_lake_table(v_ref, false);
    ELSE
        RAISE EXCEPTION 'coldfront: the lake already has a table %', v_ref USING ERRCODE = '42P07',
            HINT = 'Another database or an earlier installation made it. Rename the table here, or drop that one in the catalog.';
    END IF;
END
$$;
