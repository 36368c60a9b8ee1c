-- Looking at partition trees: keys, bounds and columns. Nothing here changes anything.
-- Bounds are literals of the key's type; NULL is MINVALUE as a lower bound and MAXVALUE as an upper one.

-- The partitioned table with the heap rows of a configured or registered relation; raises if there is none.
CREATE FUNCTION coldfront._hot_table(p_schema text, p_table text) RETURNS regclass
    LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_name name := coalesce((SELECT hot_table FROM coldfront.tiered_views
                              WHERE schema_name = p_schema AND table_name = p_table), p_table::name);
    v_oid  oid;
    v_kind "char";
BEGIN
    SELECT c.oid, c.relkind INTO v_oid, v_kind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = p_schema AND c.relname = v_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'coldfront: relation %.% does not exist', quote_ident(p_schema), quote_ident(v_name) USING ERRCODE = '42P01';
    END IF;
    IF v_kind <> 'p' THEN
        RAISE EXCEPTION 'coldfront: %.% is not a partitioned table', quote_ident(p_schema), quote_ident(v_name)
            USING ERRCODE = '42809', HINT = 'Tables partitioned by RANGE on a time or on a time-ordered id can be managed.';
    END IF;
    RETURN v_oid;
END
$$;

-- The range key: the root's own, or, below a LIST root, the one that all its children share.
CREATE FUNCTION coldfront._range_key(p_root regclass, OUT key_column name, OUT key_type text, OUT list_column name)
    LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_strategy "char";
    v_columns  text[];
    v_child    record;
BEGIN
    SELECT p.partstrat, array_agg(a.attname::text) INTO v_strategy, v_columns
      FROM pg_partitioned_table p
      CROSS JOIN unnest(p.partattrs::int2[]) AS k
      LEFT JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = k
     WHERE p.partrelid = p_root GROUP BY p.partstrat;
    IF v_strategy NOT IN ('r', 'l') OR cardinality(v_columns) <> 1 OR v_columns[1] IS NULL THEN
        RAISE EXCEPTION 'coldfront: % is not partitioned by RANGE on one column, nor by LIST on one column above that', p_root
            USING ERRCODE = '0A000', HINT = 'Partition it by RANGE on a time or on a time-ordered id.';
    END IF;
    IF v_strategy = 'r' THEN
        key_column := v_columns[1];
    ELSE
        list_column := v_columns[1];
        FOR v_child IN
            SELECT i.inhrelid::regclass AS child, p.partstrat, p.partattrs::int2[] AS attributes, a.attname
              FROM pg_inherits i
              LEFT JOIN pg_partitioned_table p ON p.partrelid = i.inhrelid
              LEFT JOIN pg_attribute a ON a.attrelid = i.inhrelid AND a.attnum = p.partattrs[0]
             WHERE i.inhparent = p_root ORDER BY 1
        LOOP
            IF v_child.partstrat IS DISTINCT FROM 'r' OR cardinality(v_child.attributes) <> 1 OR v_child.attname IS NULL
               OR v_child.attname <> coalesce(key_column, v_child.attname) THEN
                RAISE EXCEPTION 'coldfront: partition % of % is not partitioned by RANGE on the one column that all share',
                    v_child.child, p_root USING ERRCODE = '0A000', HINT = 'Two-level trees are LIST(key) -> RANGE(time).';
            END IF;
            key_column := v_child.attname;
        END LOOP;
        IF key_column IS NULL THEN
            RAISE EXCEPTION 'coldfront: % is partitioned by LIST and has no partitions yet', p_root
                USING ERRCODE = '55000', HINT = 'Create a partition for one value, partitioned by RANGE on the time, first.';
        END IF;
    END IF;
    SELECT format_type(a.atttypid, NULL) INTO key_type FROM pg_attribute a
     WHERE a.attrelid = p_root AND a.attname = key_column;
    IF key_type NOT IN ('timestamp with time zone', 'timestamp without time zone', 'date', 'bigint', 'uuid') THEN
        RAISE EXCEPTION 'coldfront: the partition column % of % has type %', quote_ident(key_column), p_root, key_type
            USING ERRCODE = '0A000', HINT = 'It must be timestamptz, timestamp, date, a bigint snowflake or a uuid of version 7.';
    END IF;
END
$$;

-- Tables whose direct partitions are ranges: the root, or the children of a LIST root.
CREATE FUNCTION coldfront._range_parents(p_root regclass) RETURNS SETOF regclass
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT partrelid::regclass FROM pg_partitioned_table WHERE partrelid = p_root AND partstrat = 'r'
    UNION ALL
    SELECT i.inhrelid::regclass FROM pg_partitioned_table p JOIN pg_inherits i ON i.inhparent = p.partrelid
      JOIN pg_class c ON c.oid = i.inhrelid AND c.relkind = 'p'
     WHERE p.partrelid = p_root AND p.partstrat = 'l' AND NOT i.inhdetachpending;
$$;

CREATE FUNCTION coldfront._leaves(p_root regclass)
    RETURNS TABLE (leaf regclass, parent regclass, is_default boolean, lower_bound text, upper_bound text)
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
    SELECT c.oid::regclass, i.inhparent::regclass, b.bound = 'DEFAULT',
           CASE WHEN m.ends[1] <> 'MINVALUE' THEN btrim(m.ends[1], '''') END,
           CASE WHEN m.ends[2] <> 'MAXVALUE' THEN btrim(m.ends[2], '''') END
      FROM coldfront._range_parents(p_root) AS p
      JOIN pg_inherits i ON i.inhparent = p AND NOT i.inhdetachpending
      JOIN pg_class c ON c.oid = i.inhrelid
      CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound) AS b
      CROSS JOIN LATERAL (SELECT regexp_match(b.bound, '^FOR VALUES FROM \((.+)\) TO \((.+)\)$') AS ends) AS m;
$$;

-- The live columns in order. identity: they are filled by the heap's sequence; collation: only where it is not the type's own.
CREATE FUNCTION coldfront._columns(p_rel regclass)
    RETURNS TABLE ("position" bigint, name name, type text, "collation" text, not_null boolean, generated boolean,
                   is_virtual boolean, identity boolean, expression text)
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT row_number() OVER (ORDER BY a.attnum), a.attname, format_type(a.atttypid, a.atttypmod),
           CASE WHEN a.attcollation <> t.typcollation THEN format('%I.%I', n.nspname, o.collname) END,
           a.attnotnull, a.attgenerated <> '', a.attgenerated = 'v', a.attidentity <> '', pg_get_expr(d.adbin, d.adrelid)
      FROM pg_attribute a
      JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_collation o ON o.oid = a.attcollation
      LEFT JOIN pg_namespace n ON n.oid = o.collnamespace
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = p_rel AND a.attnum > 0 AND NOT a.attisdropped;
$$;

-- A row's content as text, to compare heap rows with cold ones. The lake stores a negative zero as zero.
CREATE FUNCTION coldfront._row_content(p_rel regclass) RETURNS text
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'ROW(' || string_agg(CASE WHEN type IN ('real', 'double precision') THEN format('%I + %L::%s', name, 0, type)
                                     ELSE quote_ident(name) END, ', ' ORDER BY "position") || ')::text'
      FROM coldfront._columns(p_rel);
$$;

CREATE FUNCTION coldfront._row_hash(p_row record) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'coldfront_row_hash';
COMMENT ON FUNCTION coldfront._row_hash IS 'A hash of all values of a row, as the lake stores them; it may change with the version of ColdFront';

-- Number and checksum of rows, whatever their order, for a SELECT list. Each row is hashed as one stream: hashes of columns,
-- as hash_record_extended adds them up, would not tell rows from others that have the same values in other combinations.
CREATE FUNCTION coldfront._checksum(p_rel regclass) RETURNS text
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('count(*) AS rows, coalesce(sum(coldfront._row_hash(ROW(%s))), 0) AS checksum', string_agg(quote_ident(name), ', ' ORDER BY "position"))
      FROM coldfront._columns(p_rel);
$$;

-- Changes when a column is added, dropped, renamed or retyped.
CREATE FUNCTION coldfront._columns_hash(p_rel regclass) RETURNS text
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT md5(string_agg(quote_ident(name) || ' ' || type || ' ' || generated, ',' ORDER BY "position")) FROM coldfront._columns(p_rel);
$$;

-- The smallest key: the cutoff of a table of which nothing is archived.
CREATE FUNCTION coldfront._key_min(p_type text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE p_type WHEN 'bigint' THEN '-9223372036854775808' WHEN 'uuid' THEN '00000000-0000-0000-0000-000000000000'
                       ELSE '-infinity' END;
$$;

-- The smallest key that a row of this moment can have.
CREATE FUNCTION coldfront._time_to_key(p_time timestamptz, p_type text, p_epoch timestamptz) RETURNS text
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
    SELECT CASE p_type
        WHEN 'timestamp with time zone' THEN p_time::text
        WHEN 'timestamp without time zone' THEN (p_time AT TIME ZONE 'UTC')::text
        WHEN 'date' THEN (p_time AT TIME ZONE 'UTC')::date::text
        WHEN 'bigint' THEN (greatest(floor(extract(epoch FROM p_time - p_epoch) * 1000), 0)::bigint << 22)::text
        WHEN 'uuid' THEN (lpad(to_hex(greatest(floor(extract(epoch FROM p_time) * 1000), 0)::bigint), 12, '0') || repeat('0', 20))::uuid::text
    END;
$$;

-- The moment that a key stands for.
CREATE FUNCTION coldfront._key_to_time(p_key text, p_type text, p_epoch timestamptz) RETURNS timestamptz
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
    SELECT CASE p_type
        WHEN 'bigint' THEN p_epoch + (p_key::bigint >> 22) * interval '1 millisecond'
        WHEN 'uuid' THEN to_timestamp(('x' || left(replace(p_key, '-', ''), 12))::bit(48)::bigint / 1000.0)
        ELSE p_key::timestamptz END;
$$;

-- The unit of date_trunc and the length of a period.
CREATE FUNCTION coldfront._period_unit(p_period text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE p_period WHEN 'monthly' THEN 'month' WHEN 'weekly' THEN 'week' WHEN 'daily' THEN 'day' ELSE 'hour' END;
$$;
