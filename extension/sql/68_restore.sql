-- The way back: cold ranges become heap partitions again, and a tiered relation an ordinary table.

-- Brings [p_from, cutoff) back to the heap. New partitions are filled while writers wait and readers do not, checked
-- against Iceberg, and attached in the transaction that moves the cutoff. Writers are stopped at the relation and not at
-- the write claim, which they would wait for with the relation in their hands. What stays behind in Iceberg is above
-- the cutoff then, invisible, and removed by _purge_invisible.
CREATE FUNCTION coldfront._restore(p_schema text, p_table text, p_from timestamptz, OUT partitions text[], OUT row_count bigint)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex' AS $$
DECLARE
    v_entry  coldfront.tiered_views;
    v_config coldfront.partition_config;
    v_root   regclass := coldfront._hot_table(p_schema, p_table);
    v_key    record := coldfront._range_key(v_root);
    v_cutoff text;
    v_step   interval;
    v_begin  timestamptz;
    v_lower  text;
    v_part   record;
    v_new    regclass;
    v_parts  jsonb := '[]';
    v_list   text;
    v_insert text;
    v_all    text;
    v_sum    text;
    v_cold   record;
    v_heap   record;
    v_sources text[] := '{}';
BEGIN
    PERFORM coldfront._reject_on_standby();
    SELECT * INTO v_entry FROM coldfront.tiered_views WHERE schema_name = p_schema AND table_name = p_table AND hot_table IS NOT NULL;
    SELECT * INTO v_config FROM coldfront.partition_config WHERE schema_name = p_schema AND table_name = p_table;
    IF v_entry IS NULL OR v_config IS NULL THEN
        RAISE EXCEPTION 'coldfront: %.% is not a tiered relation with a lifecycle', quote_ident(p_schema), quote_ident(p_table) USING ERRCODE = '42P01';
    END IF;
    IF EXISTS (SELECT FROM coldfront.archive_attempt WHERE schema_name = p_schema AND table_name = p_table AND phase <> 'cut_over') THEN
        RAISE EXCEPTION 'coldfront: an archive attempt of %.% is under way', quote_ident(p_schema), quote_ident(p_table)
            USING ERRCODE = '55000', HINT = 'Let coldfront-archiver run finish it first.';
    END IF;
    v_step := ('1 ' || coldfront._period_unit(v_config.period))::interval;
    v_begin := date_trunc(coldfront._period_unit(v_config.period), p_from);
    v_lower := coldfront._time_to_key(v_begin, v_key.key_type, v_config.id_epoch);
    PERFORM coldfront._lock_briefly(format('%I.%I', p_schema, p_table), 'EXCLUSIVE');
    PERFORM coldfront._claim_iceberg_lock(v_entry.iceberg_table);
    SELECT cutoff INTO STRICT v_cutoff FROM coldfront.archive_watermark WHERE schema_name = p_schema AND table_name = p_table;
    EXECUTE format('SELECT $1::%1$s < $2::%1$s AS below', v_key.key_type) INTO v_part USING v_lower, v_cutoff;
    IF NOT v_part.below THEN
        RAISE EXCEPTION 'coldfront: nothing of %.% is cold from % on', quote_ident(p_schema), quote_ident(p_table), v_lower
            USING ERRCODE = '22023', HINT = format('Its cold rows end at %s.', v_cutoff);
    END IF;
    SELECT string_agg(quote_ident(name), ', ' ORDER BY "position"), string_agg(quote_ident(name), ', ' ORDER BY "position") FILTER (WHERE NOT generated)
      INTO v_all, v_insert FROM coldfront._columns(v_root);
    v_sum := format('SELECT %s FROM ', coldfront._checksum(v_root));

    LOOP
        EXECUTE format('SELECT $1::%1$s AS lo, least($2::%1$s, $3::%1$s)::text AS hi, $1::%1$s < $3::%1$s AS more', v_key.key_type) INTO v_part
          USING coldfront._time_to_key(v_begin, v_key.key_type, v_config.id_epoch),
                coldfront._time_to_key(v_begin + v_step, v_key.key_type, v_config.id_epoch), v_cutoff;
        EXIT WHEN NOT v_part.more;
        FOR v_new, v_list IN SELECT p, pg_get_partition_constraintdef(p) FROM coldfront._range_parents(v_root) AS p LOOP
            v_parts := v_parts || jsonb_build_object('parent', v_new::text, 'lo', v_part.lo::text, 'hi', v_part.hi);
            v_new := coldfront._new_partition(v_new, coldfront._partition_name(p_schema::name,
                CASE WHEN v_new = v_root THEN p_table ELSE (SELECT relname::text FROM pg_class WHERE oid = v_new) END, v_begin, v_config.period));
            v_parts := jsonb_set(v_parts, ARRAY['-1', 'new'], to_jsonb(v_new::text));
            v_sources := v_sources || format('SELECT %s FROM %s', v_all, v_new);
            EXECUTE format('INSERT INTO %1$s (%2$s) OVERRIDING SYSTEM VALUE SELECT %2$s FROM coldfront_cold.%3$I WHERE %4$I >= %5$L::%7$s AND %4$I < %6$L::%7$s AND %8$s',
                v_new, v_insert, v_entry.foreign_table, v_key.key_column, v_part.lo, v_part.hi, v_key.key_type, coalesce(v_list, 'true'));
        END LOOP;
        v_begin := v_begin + v_step;
    END LOOP;
    EXECUTE v_sum || format('(%s) AS h', array_to_string(v_sources, ' UNION ALL ')) INTO v_heap;
    EXECUTE v_sum || format('coldfront_cold.%1$I WHERE %2$I >= %3$L::%5$s AND %2$I < %4$L::%5$s', v_entry.foreign_table, v_key.key_column, v_lower, v_cutoff, v_key.key_type)
       INTO v_cold;
    IF v_cold IS DISTINCT FROM v_heap THEN
        RAISE EXCEPTION 'coldfront: % rows of %.% were read back, Iceberg holds % (or their contents differ)', v_heap.rows,
            quote_ident(p_schema), quote_ident(p_table), v_cold.rows USING ERRCODE = 'XX001',
            HINT = 'A value of the LIST key may have no partition any more.';
    END IF;
    row_count := v_heap.rows;
    PERFORM coldfront._lock_briefly(format('%I.%I', p_schema, p_table), 'ACCESS EXCLUSIVE');
    FOR v_part IN SELECT e ->> 'parent' AS parent, e ->> 'new' AS new, e ->> 'lo' AS lo, e ->> 'hi' AS hi FROM jsonb_array_elements(v_parts) AS e LOOP
        EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', v_part.parent, v_part.new, v_part.lo, v_part.hi);
        partitions := partitions || v_part.new;
    END LOOP;
    PERFORM coldfront._set_cutoff(p_schema, p_table, v_lower);
END
$$;

-- Locks a relation without letting others queue behind it for long; the work before it is kept between tries.
CREATE FUNCTION coldfront._lock_briefly(p_relation text, p_mode text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
BEGIN
    FOR v_try IN 1 .. 600 LOOP
        BEGIN
            EXECUTE format('LOCK TABLE %s IN %s MODE', p_relation, p_mode);
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(least(0.05 * v_try, 1) * (0.5 + random()));
        END;
    END LOOP;
    RAISE EXCEPTION 'coldfront: % is in use all the time and could not be locked', p_relation USING ERRCODE = '55P03';
END
$$;

-- Removes what a restore left in Iceberg above the cutoff, unless an archive attempt puts rows there.
CREATE FUNCTION coldfront._purge_invisible(p_schema text, p_table text) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v_entry coldfront.tiered_views;
    v_key   record := coldfront._range_key(coldfront._hot_table(p_schema, p_table));
    v_where text;
    v_rows  bigint := 0;
BEGIN
    SELECT * INTO STRICT v_entry FROM coldfront.tiered_views WHERE schema_name = p_schema AND table_name = p_table;
    IF EXISTS (SELECT FROM coldfront.archive_attempt WHERE schema_name = p_schema AND table_name = p_table AND phase <> 'cut_over') THEN
        RETURN 0;
    END IF;
    SELECT format('%I >= %L::%s', v_key.key_column, cutoff, v_key.key_type) INTO STRICT v_where
      FROM coldfront.archive_watermark WHERE schema_name = p_schema AND table_name = p_table;
    EXECUTE format('SELECT count(*) FROM coldfront_cold.%I WHERE %s', v_entry.foreign_table, v_where) INTO v_rows;
    IF v_rows > 0 THEN
        EXECUTE format('DELETE FROM coldfront_cold.%I WHERE %s', v_entry.foreign_table, v_where);
        GET DIAGNOSTICS v_rows = ROW_COUNT;
    END IF;
    RETURN v_rows;
END
$$;

-- Ends tiering: the cold tier goes with its rows, the hot table gets its name, and the view's privileges and comments, back.
CREATE FUNCTION coldfront._untier(p_entry coldfront.tiered_views, p_purge boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_name         text := format('%I.%I', p_entry.schema_name, p_entry.table_name);
    v_hot          text := format('%I.%I', p_entry.schema_name, p_entry.hot_table);
    v_lock_timeout text := current_setting('lock_timeout');
    v_objects      text[];
    v_attempt      bigint;
BEGIN
    -- A request that waits for an exclusive lock while it holds the claim would stall every writer.
    IF v_lock_timeout = '0' THEN
        PERFORM set_config('lock_timeout', '100ms', true);
    END IF;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', v_name);
    PERFORM coldfront._claim_iceberg_lock(p_entry.iceberg_table);
    FOR v_attempt IN SELECT attempt_id FROM coldfront.archive_attempt
                      WHERE schema_name = p_entry.schema_name AND table_name = p_entry.table_name LOOP
        PERFORM coldfront._attempt_abandon(v_attempt);
    END LOOP;
    SELECT coalesce(array_agg(ARRAY[object, statement] ORDER BY object), '{}') INTO v_objects FROM coldfront._dependents(v_name::regclass);
    PERFORM coldfront._copy_properties(v_name::regclass, v_hot::regclass);
    -- Without its row the guard lets the view go.
    DELETE FROM coldfront.tiered_views WHERE schema_name = p_entry.schema_name AND table_name = p_entry.table_name;
    DELETE FROM coldfront.partition_config WHERE schema_name = p_entry.schema_name AND table_name = p_entry.table_name;
    -- What reads the view keeps it until it reads the table.
    EXECUTE format('ALTER VIEW %s RENAME TO %I', v_name, 'coldfront_' || left(md5(v_name), 16));
    EXECUTE format('ALTER TABLE %s RENAME TO %I', v_hot, p_entry.table_name);
    PERFORM coldfront._redefine(v_name, v_objects);
    EXECUTE format('DROP VIEW %I.%I', p_entry.schema_name, 'coldfront_' || left(md5(v_name), 16));
    EXECUTE format('DROP FOREIGN TABLE coldfront_cold.%I', p_entry.foreign_table);
    PERFORM set_config('lock_timeout', v_lock_timeout, true);
    IF coldfront._drop_lake_table(p_entry.iceberg_table, p_purge) THEN
        RAISE NOTICE 'coldfront: dropped the cold tier of %; the table has its hot rows only', v_name;
    ELSE
        RAISE NOTICE 'coldfront: ended tiering of %; its Iceberg table % was gone from the catalog already', v_name, p_entry.iceberg_table;
    END IF;
END
$$;
