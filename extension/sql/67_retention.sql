-- The end of rows: cold ones past retention are deleted, partitions without a cold part are dropped or detached.

-- The smallest key that stays, at the beginning of a period so that whole periods expire; NULL for no retention.
CREATE FUNCTION coldfront._expiry(p_schema text, p_table text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    v_config coldfront.partition_config;
BEGIN
    SELECT * INTO STRICT v_config FROM coldfront.partition_config WHERE schema_name = p_schema AND table_name = p_table;
    RETURN coldfront._time_to_key(date_trunc(coldfront._period_unit(v_config.period), now() - v_config.retention_period),
        (coldfront._range_key(coldfront._hot_table(p_schema, p_table))).key_type, v_config.id_epoch);
END
$$;

-- The smallest cold key that stays. Rows at or above the cutoff do not expire here: they are hot, or on their way.
CREATE FUNCTION coldfront._cold_expiry(p_schema text, p_table text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v_type   text := (coldfront._range_key(coldfront._hot_table(p_schema, p_table))).key_type;
    v_expiry text;
BEGIN
    EXECUTE format('SELECT least($1::%1$s, cutoff::%1$s)::text FROM coldfront.archive_watermark WHERE schema_name = $2 AND table_name = $3', v_type)
       INTO v_expiry USING coldfront._expiry(p_schema, p_table), p_schema, p_table;
    RETURN v_expiry;
END
$$;

-- A key as Iceberg stores it: days, microseconds, or itself. NULL for an infinite one and for uuid, which are no numbers.
CREATE FUNCTION coldfront._key_number(p_key text, p_type text) RETURNS bigint
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
    SELECT CASE WHEN p_type = 'uuid' OR p_key IN ('infinity', '-infinity') THEN NULL
                WHEN p_type = 'bigint' THEN p_key::bigint
                WHEN p_type = 'date' THEN p_key::date - date '1970-01-01'
                ELSE (extract(epoch FROM p_key::timestamptz) * 1000000)::bigint END;
$$;

-- Deletes cold rows past retention. Returns how many.
CREATE FUNCTION coldfront._expire_cold(p_schema text, p_table text) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v_expiry text := coldfront._cold_expiry(p_schema, p_table);
    v_key    record := coldfront._range_key(coldfront._hot_table(p_schema, p_table));
    v_entry  coldfront.tiered_views;
    v_where  text;
    v_found  bigint;
    v_rows   bigint := 0;
BEGIN
    SELECT * INTO STRICT v_entry FROM coldfront.tiered_views WHERE schema_name = p_schema AND table_name = p_table;
    v_where := format('%I < %L::%s', v_key.key_column, v_expiry, v_key.key_type);
    EXECUTE format('SELECT count(*) FROM coldfront_cold.%I WHERE %s', v_entry.foreign_table, v_where) INTO v_found;
    IF v_found > 0 THEN
        EXECUTE format('DELETE FROM coldfront_cold.%I WHERE %s', v_entry.foreign_table, v_where);
        GET DIAGNOSTICS v_rows = ROW_COUNT;
    END IF;
    RETURN v_rows;
END
$$;

-- Partitions of a table without a cold part that are wholly past retention, oldest first.
CREATE FUNCTION coldfront._expired_partitions(p_schema text, p_table text) RETURNS TABLE (leaf oid, name text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v_root regclass := coldfront._hot_table(p_schema, p_table);
    v_key  record := coldfront._range_key(v_root);
BEGIN
    RETURN QUERY EXECUTE format('SELECT l.leaf::oid, l.leaf::text FROM coldfront._leaves($1) AS l WHERE upper_bound::%1$s <= $2::%1$s ORDER BY upper_bound::%1$s, 2',
        v_key.key_type) USING v_root, coldfront._expiry(p_schema, p_table);
END
$$;

-- Drops or detaches one expired partition. The caller sets a short lock_timeout.
CREATE FUNCTION coldfront._expire_partition(p_schema text, p_table text, p_leaf oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM coldfront._expired_partitions(p_schema, p_table) AS e WHERE e.leaf = p_leaf)
       OR EXISTS (SELECT FROM coldfront.tiered_views WHERE schema_name = p_schema AND table_name = p_table) THEN
        RAISE EXCEPTION 'coldfront: % is not an expired partition of %.%', p_leaf::regclass, quote_ident(p_schema), quote_ident(p_table)
            USING ERRCODE = '55000';
    END IF;
    EXECUTE format('ALTER TABLE %s DETACH PARTITION %s', (SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = p_leaf), p_leaf::regclass);
    IF (SELECT expiration FROM coldfront.partition_config WHERE schema_name = p_schema AND table_name = p_table) = 'drop' THEN
        EXECUTE format('DROP TABLE %s', p_leaf::regclass);
    END IF;
END
$$;
