-- Partitions of the present and of the future. Only ranges count: what a partition is called says nothing.

-- A free name for a partition of `p_root` that begins at a moment.
CREATE FUNCTION coldfront._partition_name(p_schema name, p_base text, p_begin timestamptz, p_period text) RETURNS name
    LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    v_suffix text := to_char(p_begin, CASE p_period WHEN 'monthly' THEN '"_p"YYYYMM' WHEN 'hourly' THEN '"_p"YYYYMMDD"_"HH24' ELSE '"_p"YYYYMMDD' END);
    v_name   text := p_base || v_suffix;
    v_number integer := 1;
BEGIN
    LOOP
        -- Cut characters, not bytes, until it fits.
        WHILE octet_length(v_name) > 63 LOOP
            p_base := left(p_base, -1);
            v_name := p_base || v_suffix;
        END LOOP;
        EXIT WHEN NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                               WHERE n.nspname = p_schema AND c.relname = v_name)
              AND NOT EXISTS (SELECT FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
                               WHERE n.nspname = p_schema AND t.typname = v_name);
        v_number := v_number + 1;
        v_suffix := regexp_replace(v_suffix, '_n\d+$', '') || '_n' || v_number;
        v_name := p_base || v_suffix;
    END LOOP;
    RETURN v_name;
END
$$;

-- An empty table that can be attached to `p_parent`.
CREATE FUNCTION coldfront._new_partition(p_parent regclass, p_name name) RETURNS regclass
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_parent record;
    v_new    text;
BEGIN
    SELECT n.nspname, pg_get_userbyid(c.relowner) AS owner, s.spcname INTO v_parent
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace
     WHERE c.oid = p_parent;
    v_new := format('%I.%I', v_parent.nspname, p_name);
    EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED INCLUDING STORAGE '
        'INCLUDING COMPRESSION INCLUDING COMMENTS)%s', v_new, p_parent, CASE WHEN v_parent.spcname IS NULL THEN '' ELSE format(' TABLESPACE %I', v_parent.spcname) END);
    EXECUTE format('ALTER TABLE %s OWNER TO %I', v_new, v_parent.owner);
    RETURN v_new::regclass;
END
$$;

-- Covers [p_from, p_to) of one parent: what no partition of it covers yet gets one. Returns the new partitions.
CREATE FUNCTION coldfront._fill_range(p_root regclass, p_parent regclass, p_type text, p_from text, p_to text, p_base text, p_begin timestamptz,
                                      p_period text) RETURNS SETOF text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v_gap record;
    v_new regclass;
BEGIN
    -- A gap begins at p_from or where a partition ends, and ends at p_to or where the next one begins.
    FOR v_gap IN EXECUTE format($q$
        WITH leaf AS (SELECT lower_bound::%1$s AS lo, upper_bound::%1$s AS hi FROM coldfront._leaves($1) WHERE parent = $2),
             start AS (SELECT $3::%1$s AS at UNION SELECT hi FROM leaf WHERE hi > $3::%1$s AND hi < $4::%1$s)
        SELECT s.at::text AS lo, coalesce((SELECT lo FROM leaf WHERE lo > s.at AND lo < $4::%1$s ORDER BY lo LIMIT 1), $4::%1$s)::text AS hi
          FROM start s
         WHERE s.at < $4::%1$s AND NOT EXISTS (SELECT FROM leaf WHERE coalesce(lo <= s.at, true) AND coalesce(hi > s.at, true))
         ORDER BY s.at $q$, p_type) USING p_root, p_parent, p_from, p_to
    LOOP
        v_new := coldfront._new_partition(p_parent, coldfront._partition_name(
            (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_parent), p_base, p_begin, p_period));
        EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', p_parent, v_new, v_gap.lo, v_gap.hi);
        RETURN NEXT v_new::text;
    END LOOP;
END
$$;

-- Sub-trees for values of the LIST key that have none yet.
CREATE FUNCTION coldfront._premake_values(p_config coldfront.partition_config, p_root regclass, p_key name, p_list name) RETURNS SETOF text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_source text[] := parse_ident(p_config.sub_partition_source);
    v_schema name := p_config.schema_name;
    v_taken  text;
    v_type   text;
    v_value  text;
    v_name   name;
BEGIN
    -- A value has its sub-tree if it meets the constraint of one.
    SELECT coalesce(string_agg(pg_get_partition_constraintdef(inhrelid), ' OR '), 'false') INTO v_taken
      FROM pg_inherits WHERE inhparent = p_root;
    SELECT format_type(atttypid, atttypmod) INTO v_type FROM pg_attribute WHERE attrelid = p_root AND attname = p_list;
    FOR v_value IN EXECUTE format('SELECT DISTINCT v.%1$I::text FROM (SELECT %2$I::%3$s AS %1$I FROM %4$I.%5$I) AS v'
        ' WHERE v.%1$I IS NOT NULL AND NOT (%6$s) ORDER BY 1', p_list, v_source[3], v_type, v_source[1], v_source[2], v_taken)
    LOOP
        v_name := left(p_config.table_name || '_' || v_value, 40);
        IF v_name !~ '^[A-Za-z0-9_]+$' OR to_regclass(format('%I.%I', v_schema, v_name)) IS NOT NULL THEN
            v_name := left(regexp_replace(p_config.table_name::text, '[^\x20-\x7e]', '_', 'g'), 40) || '_' || left(md5(v_value), 12);
        END IF;
        EXECUTE format('CREATE TABLE %I.%I PARTITION OF %s FOR VALUES IN (%L) PARTITION BY RANGE (%I)', v_schema, v_name, p_root, v_value, p_key);
        EXECUTE format('ALTER TABLE %I.%I OWNER TO %I', v_schema, v_name, (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = p_root));
        RETURN NEXT format('%I.%I', v_schema, v_name);
    END LOOP;
END
$$;

-- Makes the current partition, should it be missing, and those ahead. Returns what it made.
CREATE FUNCTION coldfront._premake(p_schema text, p_table text) RETURNS SETOF text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v_config coldfront.partition_config;
    v_root   regclass := coldfront._hot_table(p_schema, p_table);
    v_key    record := coldfront._range_key(v_root);
    v_step   interval;
    v_begin  timestamptz;
    v_parent regclass;
    v_cutoff text;
    v_from   text;
BEGIN
    SELECT * INTO STRICT v_config FROM coldfront.partition_config WHERE schema_name = p_schema AND table_name = p_table;
    IF v_config.sub_partition_source IS NOT NULL THEN
        RETURN QUERY SELECT * FROM coldfront._premake_values(v_config, v_root, v_key.key_column, v_key.list_column);
    END IF;
    v_step := ('1 ' || coldfront._period_unit(v_config.period))::interval;
    SELECT cutoff INTO v_cutoff FROM coldfront.archive_watermark WHERE schema_name = p_schema AND table_name = p_table;
    FOR v_ahead IN 0 .. v_config.premake LOOP
        v_begin := date_trunc(coldfront._period_unit(v_config.period), now()) + v_ahead * v_step;
        v_from := coldfront._time_to_key(v_begin, v_key.key_type, v_config.id_epoch);
        -- Below the cutoff rows are cold, and nothing may take them in.
        EXECUTE format('SELECT greatest($1::%1$s, $2::%1$s)::text', v_key.key_type) INTO v_from
          USING v_from, coalesce(v_cutoff, v_from);
        FOR v_parent IN SELECT coldfront._range_parents(v_root) LOOP
            RETURN QUERY SELECT * FROM coldfront._fill_range(v_root, v_parent, v_key.key_type, v_from,
                coldfront._time_to_key(v_begin + v_step, v_key.key_type, v_config.id_epoch),
                CASE WHEN v_parent = v_root THEN p_table ELSE (SELECT relname::text FROM pg_class WHERE oid = v_parent) END,
                v_begin, v_config.period);
        END LOOP;
    END LOOP;
END
$$;
