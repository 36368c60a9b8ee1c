-- Changes of columns of a tiered relation: what was done to the hot table is done to the cold tier and to the view, in the
-- same transaction and under the claim. Called by the extension, which lets the guards over registered relations rest.

-- What the lake stores for each column of a relation.
CREATE FUNCTION coldfront._storage_of(p_rel regclass) RETURNS TABLE (name name, storage text)
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.names[t."position"]::name, t.storage
      FROM (SELECT array_agg(name::text ORDER BY "position") AS names, array_agg(type ORDER BY "position") AS types
              FROM coldfront._columns(p_rel)) AS c,
           coldfront._column_types(c.names, c.types) AS t;
$$;

-- Name of a view that waits for its columns to change.
CREATE FUNCTION coldfront._aside_name(p_schema text, p_table text) RETURNS name
    LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT ('coldfront_' || left(md5(p_schema || '.' || p_table), 16))::name;
$$;

-- Before columns are dropped or get another type: the view steps aside, and lets go of the tables it reads.
CREATE FUNCTION coldfront._tier_view_aside(p_schema text, p_table text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_view   text := format('%I.%I', p_schema, p_table);
    v_aside  name := coldfront._aside_name(p_schema, p_table);
    v_object text;
BEGIN
    SELECT object INTO v_object FROM coldfront._dependents(v_view::regclass) LIMIT 1;
    IF v_object IS NOT NULL THEN
        RAISE EXCEPTION 'coldfront: cannot change the columns of %, because % depends on it', v_view, v_object
            USING ERRCODE = '2BP01', HINT = 'Drop it first, and create it again afterwards.';
    END IF;
    EXECUTE format('CREATE OR REPLACE VIEW %s AS SELECT %s', v_view,
        (SELECT string_agg(format('NULL::%s%s AS %I', type, coalesce(' COLLATE ' || "collation", ''), name), ', ' ORDER BY "position")
           FROM coldfront._columns(v_view::regclass)));
    EXECUTE format('ALTER VIEW %s RENAME TO %I', v_view, v_aside);
END
$$;

-- Afterwards: a view with the present columns, and the properties of the one that stepped aside.
CREATE FUNCTION coldfront._tier_view_return(p_schema text, p_table text, p_hot regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_view   text := format('%I.%I', p_schema, p_table);
    v_aside  text := format('%I.%I', p_schema, coldfront._aside_name(p_schema, p_table));
    v_query  text;
    v_column record;
BEGIN
    SELECT coldfront._tier_query(p_schema, p_table, cutoff) INTO STRICT v_query
      FROM coldfront.archive_watermark WHERE schema_name = p_schema AND table_name = p_table;
    EXECUTE format('CREATE VIEW %s AS %s', v_view, v_query);
    FOR v_column IN SELECT name, expression FROM coldfront._columns(p_hot) WHERE expression IS NOT NULL AND NOT generated LOOP
        EXECUTE format('ALTER VIEW %s ALTER COLUMN %I SET DEFAULT %s', v_view, v_column.name, v_column.expression);
    END LOOP;
    PERFORM coldfront._copy_view_properties(v_aside::regclass, v_view::regclass);
    EXECUTE format('DROP VIEW %s', v_aside);
END
$$;

-- Owner, privileges and comments of one view for another, as far as it has the columns.
CREATE FUNCTION coldfront._copy_view_properties(p_from regclass, p_to regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_item record;
BEGIN
    FOR v_item IN SELECT t.attname FROM pg_attribute t
                   WHERE t.attrelid = p_from AND t.attnum > 0 AND NOT t.attisdropped
                     AND (t.attacl IS NOT NULL OR col_description(p_from, t.attnum) IS NOT NULL)
                     AND NOT EXISTS (SELECT FROM pg_attribute n WHERE n.attrelid = p_to AND n.attname = t.attname AND NOT n.attisdropped)
    LOOP
        EXECUTE format('REVOKE ALL (%I) ON %s FROM PUBLIC', v_item.attname, p_from);
        EXECUTE format('COMMENT ON COLUMN %s.%I IS NULL', p_from, v_item.attname);
        FOR v_item IN SELECT v_item.attname, pg_get_userbyid(a.grantee) AS grantee FROM pg_attribute t, aclexplode(t.attacl) AS a
                       WHERE t.attrelid = p_from AND t.attname = v_item.attname AND a.grantee <> 0 LOOP
            EXECUTE format('REVOKE ALL (%I) ON %s FROM %I', v_item.attname, p_from, v_item.grantee);
        END LOOP;
    END LOOP;
    PERFORM coldfront._copy_properties(p_from, p_to);
END
$$;

CREATE FUNCTION coldfront._refuse_reserved_column(p_name text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coldfront._is_reserved_column(p_name) THEN
        RAISE EXCEPTION 'coldfront: a column cannot be called "%", which identifies rows inside the engine', p_name
            USING ERRCODE = '42939', HINT = 'Choose another name.';
    END IF;
END
$$;

-- After ALTER TABLE on the hot table: added, dropped and retyped columns.
CREATE FUNCTION coldfront._mirror_columns(p_schema text, p_table text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_entry   coldfront.tiered_views;
    v_hot     regclass;
    v_cold    regclass;
    v_name    text := format('%I.%I', p_schema, p_table);
    v_column  record;
    v_added   boolean := false;
    v_widened name[] := '{}';
    v_changed boolean := false;
BEGIN
    SELECT * INTO STRICT v_entry FROM coldfront.tiered_views WHERE schema_name = p_schema AND table_name = p_table;
    v_hot := format('%I.%I', p_schema, v_entry.hot_table)::regclass;
    v_cold := format('coldfront_cold.%I', v_entry.foreign_table)::regclass;

    FOR v_column IN SELECT c.name FROM coldfront._columns(v_cold) AS c
                     WHERE NOT EXISTS (SELECT FROM coldfront._columns(v_hot) AS h WHERE h.name = c.name) LOOP
        PERFORM coldfront._exec_iceberg_with_claim(v_entry.iceberg_table,
            format('ALTER TABLE %s DROP COLUMN %s', v_entry.iceberg_table, coldfront._engine_ident(v_column.name)));
        v_changed := true;
    END LOOP;
    FOR v_column IN SELECT h.*, s.storage FROM coldfront._columns(v_hot) AS h JOIN coldfront._storage_of(v_hot) AS s USING (name)
                     WHERE NOT EXISTS (SELECT FROM coldfront._columns(v_cold) AS c WHERE c.name = h.name) ORDER BY h."position" LOOP
        IF v_column.expression IS NOT NULL OR v_column.identity THEN
            RAISE EXCEPTION 'coldfront: cannot add column "%" with a default to %, because its cold rows would not get it', v_column.name, v_name
                USING ERRCODE = '0A000', HINT = 'Add the column without a default, set the default afterwards, and UPDATE the rows that need it.';
        END IF;
        IF v_column.not_null THEN
            RAISE EXCEPTION 'coldfront: cannot add column "%" as NOT NULL to %, because its cold rows have no value for it', v_column.name, v_name
                USING ERRCODE = '23502', HINT = 'Add the column, UPDATE all rows, and set it NOT NULL afterwards.';
        END IF;
        IF EXISTS (SELECT FROM coldfront._columns(v_hot) AS o WHERE lower(o.name) = lower(v_column.name) AND o.name <> v_column.name) THEN
            RAISE EXCEPTION 'coldfront: column "%" of % differs from another one only in case', v_column.name, v_name
                USING ERRCODE = '42701', HINT = 'The lake does not tell such names apart.';
        END IF;
        PERFORM coldfront._refuse_reserved_column(v_column.name);
        PERFORM coldfront._exec_iceberg_with_claim(v_entry.iceberg_table, format('ALTER TABLE %s ADD COLUMN %s %s',
            v_entry.iceberg_table, coldfront._engine_ident(v_column.name), v_column.storage));
        v_added := true;
    END LOOP;
    FOR v_column IN SELECT h.name, h.type, n.storage, c.type AS old_type, o.storage AS old_storage
                      FROM coldfront._columns(v_hot) AS h JOIN coldfront._storage_of(v_hot) AS n USING (name)
                      JOIN coldfront._columns(v_cold) AS c USING (name) JOIN coldfront._storage_of(v_cold) AS o USING (name)
                     WHERE h.type <> c.type LOOP
        IF v_column.storage <> v_column.old_storage AND NOT coldfront._is_widening(v_column.old_storage, v_column.storage) THEN
            RAISE EXCEPTION 'coldfront: cannot change column "%" of % from % to %, because its cold rows are stored as %',
                v_column.name, v_name, v_column.old_type, v_column.type, v_column.old_storage
                USING ERRCODE = '0A000', HINT = 'Add a column of the new type, copy the values with UPDATE, and drop the old column.';
        END IF;
        IF v_column.storage <> v_column.old_storage THEN
            PERFORM coldfront._exec_iceberg_with_claim(v_entry.iceberg_table, format('ALTER TABLE %s ALTER COLUMN %s SET DATA TYPE %s',
                v_entry.iceberg_table, coldfront._engine_ident(v_column.name), v_column.storage));
            v_widened := v_widened || v_column.name;
        END IF;
        v_changed := true;
    END LOOP;
    IF v_changed OR v_added THEN
        PERFORM coldfront._alter_foreign_columns(v_hot, v_cold, v_widened);
    END IF;
    IF to_regclass(format('%I.%I', p_schema, coldfront._aside_name(p_schema, p_table))) IS NOT NULL THEN
        PERFORM coldfront._tier_view_return(p_schema, p_table, v_hot);
    ELSIF v_added THEN
        EXECUTE format('CREATE OR REPLACE VIEW %s AS %s', v_name, coldfront._tier_query(p_schema, p_table,
            (SELECT cutoff FROM coldfront.archive_watermark WHERE schema_name = p_schema AND table_name = p_table)));
    END IF;
END
$$;

-- Promotions that Iceberg allows: files that exist keep their type and are read as the wider one.
CREATE FUNCTION coldfront._is_widening(p_from text, p_to text) RETURNS boolean
    LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT (p_from, p_to) IN (('INTEGER', 'BIGINT'), ('FLOAT', 'DOUBLE'))
        OR (p_from LIKE 'DECIMAL(%' AND p_to LIKE 'DECIMAL(%'
            AND substring(p_from FROM ',\s*(\d+)') = substring(p_to FROM ',\s*(\d+)')
            AND substring(p_from FROM '\((\d+)')::integer < substring(p_to FROM '\((\d+)')::integer);
$$;

-- Gives the foreign table the columns and types of the hot table. The engine narrows a filter on a widened column to the
-- type of each file, so such a column is marked and its filters stay in PostgreSQL.
CREATE FUNCTION coldfront._alter_foreign_columns(p_hot regclass, p_cold regclass, p_widened name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_column  record;
    v_actions text[] := '{}';
BEGIN
    FOR v_column IN SELECT c.name FROM coldfront._columns(p_cold) AS c
                     WHERE NOT EXISTS (SELECT FROM coldfront._columns(p_hot) AS h WHERE h.name = c.name) LOOP
        v_actions := v_actions || format('DROP COLUMN %I CASCADE', v_column.name);
    END LOOP;
    FOR v_column IN SELECT h.name, h.type, h."collation", c.type AS old_type FROM coldfront._columns(p_hot) AS h
                      LEFT JOIN coldfront._columns(p_cold) AS c USING (name) WHERE h.type IS DISTINCT FROM c.type ORDER BY h."position" LOOP
        v_actions := v_actions || format(CASE WHEN v_column.old_type IS NULL THEN 'ADD COLUMN %I %s%s' ELSE 'ALTER COLUMN %I TYPE %s%s' END,
            v_column.name, v_column.type, coalesce(' COLLATE ' || v_column."collation", ''));
    END LOOP;
    FOR v_column IN SELECT a.attname FROM pg_attribute AS a
                     WHERE a.attrelid = p_cold AND a.attname = ANY (p_widened)
                       AND NOT coalesce('widened=true' = ANY (a.attfdwoptions), false) LOOP
        v_actions := v_actions || format('ALTER COLUMN %I OPTIONS (ADD widened ''true'')', v_column.attname);
    END LOOP;
    EXECUTE format('ALTER FOREIGN TABLE %s %s', p_cold, array_to_string(v_actions, ', '));
END
$$;

-- NOT NULL and CHECK of the hot table hold for cold rows too. Evaluates the owner's expressions, so it runs as the owner.
CREATE FUNCTION coldfront._mirror_constraints(p_hot regclass, p_cold regclass, p_name text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_item record;
    v_bad  boolean;
BEGIN
    FOR v_item IN SELECT h.name, h.not_null FROM coldfront._columns(p_hot) AS h JOIN coldfront._columns(p_cold) AS c USING (name)
                   WHERE h.not_null <> c.not_null LOOP
        IF v_item.not_null THEN
            EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %I IS NULL)', p_cold, v_item.name) INTO v_bad;
            IF v_bad THEN
                RAISE EXCEPTION 'column "%" of cold rows of % contains null values', v_item.name, p_name USING ERRCODE = '23502';
            END IF;
        END IF;
        EXECUTE format('ALTER FOREIGN TABLE %s ALTER COLUMN %I %s NOT NULL', p_cold, v_item.name, CASE WHEN v_item.not_null THEN 'SET' ELSE 'DROP' END);
    END LOOP;
    FOR v_item IN SELECT c.conname, false AS wanted, NULL::text AS definition FROM pg_constraint c
                   WHERE c.conrelid = p_cold AND c.contype = 'c' AND NOT EXISTS
                         (SELECT FROM pg_constraint h WHERE h.conrelid = p_hot AND h.contype = 'c' AND h.conname = c.conname)
                  UNION ALL
                  SELECT h.conname, true, pg_get_constraintdef(h.oid) FROM pg_constraint h
                   WHERE h.conrelid = p_hot AND h.contype = 'c' AND NOT EXISTS
                         (SELECT FROM pg_constraint c WHERE c.conrelid = p_cold AND c.contype = 'c' AND c.conname = h.conname) LOOP
        IF NOT v_item.wanted THEN
            EXECUTE format('ALTER FOREIGN TABLE %s DROP CONSTRAINT %I', p_cold, v_item.conname);
            CONTINUE;
        END IF;
        EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE NOT (%s))', p_cold,
            regexp_replace(v_item.definition, '^CHECK \((.*)\)( NO INHERIT| NOT VALID)*$', '\1')) INTO v_bad;
        IF v_bad THEN
            RAISE EXCEPTION 'check constraint "%" of % is violated by some cold row', v_item.conname, p_name USING ERRCODE = '23514';
        END IF;
        EXECUTE format('ALTER FOREIGN TABLE %s ADD CONSTRAINT %I %s', p_cold, v_item.conname, v_item.definition);
    END LOOP;
END
$$;

-- After RENAME COLUMN on the hot table.
CREATE FUNCTION coldfront._mirror_rename(p_schema text, p_table text, p_old name, p_new name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_entry coldfront.tiered_views;
BEGIN
    SELECT * INTO STRICT v_entry FROM coldfront.tiered_views WHERE schema_name = p_schema AND table_name = p_table;
    PERFORM coldfront._refuse_reserved_column(p_new);
    PERFORM coldfront._exec_iceberg_with_claim(v_entry.iceberg_table, format('ALTER TABLE %s RENAME COLUMN %s TO %s',
        v_entry.iceberg_table, coldfront._engine_ident(p_old), coldfront._engine_ident(p_new)));
    UPDATE coldfront.archive_watermark SET partition_column = p_new
     WHERE schema_name = p_schema AND table_name = p_table AND partition_column = p_old;
    EXECUTE format('ALTER FOREIGN TABLE coldfront_cold.%I RENAME COLUMN %I TO %I', v_entry.foreign_table, p_old, p_new);
    EXECUTE format('ALTER VIEW %I.%I RENAME COLUMN %I TO %I', p_schema, p_table, p_old, p_new);
END
$$;
