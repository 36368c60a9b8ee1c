-- What is refused, at registration and again at the conversion, and by which name.

-- Checks that the values of a configuration fit each other.
CREATE FUNCTION coldfront._check_lifecycle(p_config coldfront.partition_config, p_key_type text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_name     text := format('%I.%I', p_config.schema_name, p_config.table_name);
    v_expected text := CASE p_config.id_scheme WHEN 'snowflake' THEN 'bigint' WHEN 'uuidv7' THEN 'uuid' END;
BEGIN
    IF p_config.retention_period <= p_config.hot_period THEN
        RAISE EXCEPTION 'coldfront: the retention period of % (%) is not longer than its hot period (%)',
            v_name, p_config.retention_period, p_config.hot_period USING ERRCODE = '22023',
            HINT = 'Rows would be deleted before they are archived; leave the hot period out to only drop old partitions.';
    END IF;
    IF p_config.hot_period IS NOT NULL AND p_config.expiration = 'detach' THEN
        RAISE EXCEPTION 'coldfront: expiration detach is for tables without a hot period, % has one', v_name USING ERRCODE = '22023',
            HINT = 'Archived partitions are dropped once Iceberg holds their rows; expired cold rows are deleted.';
    END IF;
    IF v_expected IS NULL AND p_key_type IN ('bigint', 'uuid') THEN
        RAISE EXCEPTION 'coldfront: the partition column of % has type %, which needs part_mode id and an id scheme', v_name, p_key_type
            USING ERRCODE = '22023', HINT = 'Schemes are snowflake (bigint) and uuidv7 (uuid).';
    END IF;
    IF v_expected <> p_key_type THEN
        RAISE EXCEPTION 'coldfront: id scheme % needs a partition column of type %, the one of % has type %',
            p_config.id_scheme, v_expected, v_name, p_key_type USING ERRCODE = '22023';
    END IF;
    IF p_config.period = 'hourly' AND p_key_type = 'date' THEN
        RAISE EXCEPTION 'coldfront: the partition column of % is a date and cannot have hourly partitions', v_name USING ERRCODE = '22023';
    END IF;
END
$$;

-- What no lifecycle can manage.
CREATE FUNCTION coldfront._check_tree(p_schema text, p_table text, p_root regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_found record;
    v_key   record;
BEGIN
    IF p_schema LIKE 'pg\_%' OR p_schema IN ('information_schema', 'coldfront', 'coldfront_cold', 'coldfront_archive', 'duckdb') THEN
        RAISE EXCEPTION 'coldfront: schema % is reserved, its tables cannot be managed', quote_ident(p_schema) USING ERRCODE = '42939';
    END IF;
    SELECT schema_name, table_name INTO v_found FROM (
        SELECT schema_name, table_name FROM coldfront.partition_config
        UNION ALL SELECT schema_name, table_name FROM coldfront.tiered_views) AS r
     WHERE lower(schema_name) = lower(p_schema) AND lower(table_name) = lower(p_table)
       AND (schema_name, table_name) IS DISTINCT FROM (p_schema::name, p_table::name) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: %.% differs only in case from the registered %.%', quote_ident(p_schema), quote_ident(p_table),
            quote_ident(v_found.schema_name), quote_ident(v_found.table_name) USING ERRCODE = '42710', HINT = 'Rename one of them.';
    END IF;
    IF (SELECT relispartition FROM pg_class WHERE oid = p_root) THEN
        RAISE EXCEPTION 'coldfront: % is itself a partition', p_root USING ERRCODE = '0A000', HINT = 'Register the table at the top.';
    END IF;
    v_key := coldfront._range_key(p_root);
    SELECT c.oid::regclass AS relation, c.relpersistence, c.relkind INTO v_found
      FROM pg_partition_tree(p_root) t JOIN pg_class c ON c.oid = t.relid
     WHERE c.relpersistence <> 'p' OR c.relkind NOT IN ('p', 'r') ORDER BY 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: % is %', v_found.relation, CASE WHEN v_found.relpersistence = 'u' THEN 'unlogged'
            WHEN v_found.relpersistence = 't' THEN 'temporary' ELSE 'not a table' END
            USING ERRCODE = '0A000', HINT = 'Only ordinary, logged tables can be managed.';
    END IF;
    SELECT t.relid AS relation INTO v_found FROM pg_partition_tree(p_root) t JOIN pg_class c ON c.oid = t.relid
     WHERE pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT' LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: % is a DEFAULT partition, whose rows belong to no period', v_found.relation
            USING ERRCODE = '0A000', HINT = 'Move its rows to partitions of their own and drop it.';
    END IF;
    SELECT t.relid AS relation INTO v_found
      FROM pg_partition_tree(p_root) t, (SELECT CASE WHEN v_key.list_column IS NULL THEN 1 ELSE 2 END AS depth) AS d
     WHERE t.level > d.depth OR (t.level = d.depth AND NOT t.isleaf) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: partition % stands at the wrong level of %', v_found.relation, p_root
            USING ERRCODE = '0A000', HINT = 'Trees are RANGE(time), or LIST(key) -> RANGE(time).';
    END IF;
END
$$;

-- What cannot have a cold part, because it would silently see, check or protect hot rows only.
CREATE FUNCTION coldfront._check_tierable(p_schema text, p_table text, p_root regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_name  text := format('%I.%I', p_schema, p_table);
    v_key   record := coldfront._range_key(p_root);
    v_tree  oid[] := ARRAY(SELECT relid::oid FROM pg_partition_tree(p_root));
    v_found record;
BEGIN
    SELECT name INTO v_found FROM coldfront._columns(p_root)
     WHERE coldfront._is_reserved_column(name) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: column % of % has a name that identifies rows inside the engine', quote_ident(v_found.name), v_name
            USING ERRCODE = '42939', HINT = 'Rename the column.';
    END IF;
    SELECT min(name::text) AS name INTO v_found FROM coldfront._columns(p_root) GROUP BY lower(name) HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: % has two columns whose names differ from % only in case', v_name, quote_ident(v_found.name)
            USING ERRCODE = '42701', HINT = 'The lake does not tell such names apart.';
    END IF;
    SELECT name INTO v_found FROM coldfront._columns(p_root) WHERE is_virtual LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: column % of % is a virtual generated column', quote_ident(v_found.name), v_name
            USING ERRCODE = '0A000', HINT = 'Make it STORED.';
    END IF;
    SELECT c.name, c.type INTO v_found
      FROM coldfront._column_types(ARRAY(SELECT name::text FROM coldfront._columns(p_root) ORDER BY "position"),
                                   ARRAY(SELECT type FROM coldfront._columns(p_root) ORDER BY "position")) AS t
      JOIN coldfront._columns(p_root) AS c ON c."position" = t."position"
     WHERE t.declared <> c.type LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: column % of % has type %, which the lake cannot give back as it is', quote_ident(v_found.name), v_name, v_found.type
            USING ERRCODE = '0A000';
    END IF;
    SELECT i.indexrelid::regclass AS relation INTO v_found FROM pg_index i
     WHERE i.indrelid = ANY (v_tree) AND (i.indisunique OR i.indisexclusion)
       AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attname = v_key.key_column
                          AND a.attnum = ANY (i.indkey::int2[])) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: the unique index % does not cover the partition column %', v_found.relation, quote_ident(v_key.key_column)
            USING ERRCODE = '0A000', HINT = 'It could not be enforced across hot and cold rows; add the partition column to it.';
    END IF;
    SELECT conname, conrelid::regclass AS relation, confrelid::regclass AS target INTO v_found FROM pg_constraint
     WHERE contype = 'f' AND (conrelid = ANY (v_tree) OR confrelid = ANY (v_tree))
     ORDER BY conparentid, conname LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: foreign key % of % refers to %, and could not be enforced for archived rows',
            quote_ident(v_found.conname), v_found.relation, v_found.target USING ERRCODE = '0A000', HINT = 'Drop the foreign key.';
    END IF;
    SELECT p.polname AS name, p.polrelid::regclass AS relation INTO v_found FROM pg_policy p WHERE p.polrelid = ANY (v_tree) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: policy % of % would not protect archived rows', quote_ident(v_found.name), v_found.relation
            USING ERRCODE = '0A000', HINT = 'Drop the policy, or leave the table out.';
    END IF;
    SELECT c.oid::regclass AS relation INTO v_found FROM pg_class c WHERE c.oid = ANY (v_tree) AND c.relrowsecurity LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: row security of % would not protect archived rows', v_found.relation
            USING ERRCODE = '0A000', HINT = 'Disable row level security, or leave the table out.';
    END IF;
    SELECT t.tgname AS name, t.tgrelid::regclass AS relation INTO v_found FROM pg_trigger t
     WHERE t.tgrelid = ANY (v_tree) AND NOT t.tgisinternal AND t.tgname NOT LIKE 'coldfront\_capture\_%' ORDER BY t.tgparentid LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: trigger % of % would not fire for archived rows', quote_ident(v_found.name), v_found.relation
            USING ERRCODE = '0A000', HINT = 'Drop the trigger.';
    END IF;
    SELECT r.rulename AS name, r.ev_class::regclass AS relation INTO v_found FROM pg_rewrite r WHERE r.ev_class = ANY (v_tree) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: rule % of % would not act on archived rows', quote_ident(v_found.name), v_found.relation
            USING ERRCODE = '0A000', HINT = 'Drop the rule.';
    END IF;
    SELECT pg_describe_object(d.classid, d.objid, d.objsubid) AS name INTO v_found
      FROM pg_depend d JOIN pg_class c ON c.reltype = d.refobjid OR EXISTS (SELECT FROM pg_type a WHERE a.oid = d.refobjid AND a.typelem = c.reltype)
     WHERE d.refclassid = 'pg_type'::regclass AND c.oid = p_root AND d.deptype = 'n'
       AND NOT (d.classid = 'pg_type'::regclass) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: % uses the row type of %', v_found.name, v_name USING ERRCODE = '0A000', HINT = 'Drop it first.';
    END IF;
    SELECT c.oid::regclass AS relation INTO v_found
      FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class c ON c.oid = r.ev_class
     WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = p_root AND c.relkind <> 'v'
       AND NOT EXISTS (SELECT FROM coldfront.tiered_views WHERE schema_name = p_schema AND table_name = p_table) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'coldfront: materialized view % reads %', v_found.relation, v_name USING ERRCODE = '0A000',
            HINT = 'Drop it, and create it again after the first archive run.';
    END IF;
END
$$;

CREATE FUNCTION coldfront._check_config() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_root  regclass := coldfront._hot_table(NEW.schema_name, NEW.table_name);
    v_parts text[];
BEGIN
    PERFORM coldfront._check_tree(NEW.schema_name, NEW.table_name, v_root);
    PERFORM coldfront._check_lifecycle(NEW, (coldfront._range_key(v_root)).key_type);
    IF NEW.sub_partition_source IS NOT NULL THEN
        v_parts := parse_ident(NEW.sub_partition_source);
        IF cardinality(v_parts) <> 3 OR NOT EXISTS (
            SELECT FROM pg_attribute WHERE attrelid = to_regclass(format('%I.%I', v_parts[1], v_parts[2])) AND attname = v_parts[3]) THEN
            RAISE EXCEPTION 'coldfront: sub_partition_source "%" is not an existing schema.table.column', NEW.sub_partition_source
                USING ERRCODE = '22023';
        END IF;
        IF (coldfront._range_key(v_root)).list_column IS NULL THEN
            RAISE EXCEPTION 'coldfront: %.% is not partitioned by LIST, so it takes no sub_partition_source',
                quote_ident(NEW.schema_name), quote_ident(NEW.table_name) USING ERRCODE = '22023';
        END IF;
    END IF;
    IF NEW.hot_period IS NOT NULL THEN
        PERFORM coldfront._check_tierable(NEW.schema_name, NEW.table_name, v_root);
    ELSIF EXISTS (SELECT FROM coldfront.tiered_views WHERE schema_name = NEW.schema_name AND table_name = NEW.table_name) THEN
        RAISE EXCEPTION 'coldfront: %.% has a cold part and needs a hot period', quote_ident(NEW.schema_name), quote_ident(NEW.table_name)
            USING ERRCODE = '22023', HINT = 'Restore its cold rows and call coldfront.drop_iceberg_table() to end tiering.';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER check_config
    BEFORE INSERT OR UPDATE OF period, hot_period, retention_period, part_mode, id_scheme, sub_partition_source, expiration
    ON coldfront.partition_config FOR EACH ROW EXECUTE FUNCTION coldfront._check_config();
