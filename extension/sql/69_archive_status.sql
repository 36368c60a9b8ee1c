-- How every configured table is.

CREATE FUNCTION coldfront.archive_status()
    RETURNS TABLE (schema_name name, table_name name, enabled boolean, cutoff text, partitions bigint, due bigint, lag interval, phase text, trouble text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v_config coldfront.partition_config;
    v_root   regclass;
    v_key    record;
BEGIN
    FOR v_config IN SELECT * FROM coldfront.partition_config AS c ORDER BY c.schema_name, c.table_name LOOP
        schema_name := v_config.schema_name;
        table_name := v_config.table_name;
        enabled := v_config.enabled;
        cutoff := NULL; partitions := NULL; due := NULL; lag := NULL; phase := NULL; trouble := NULL;
        BEGIN
            v_root := coldfront._hot_table(v_config.schema_name, v_config.table_name);
            v_key := coldfront._range_key(v_root);
            SELECT w.cutoff INTO cutoff FROM coldfront.archive_watermark AS w
             WHERE w.schema_name = v_config.schema_name AND w.table_name = v_config.table_name;
            SELECT string_agg(DISTINCT a.phase, ', ') INTO phase FROM coldfront.archive_attempt AS a
             WHERE a.schema_name = v_config.schema_name AND a.table_name = v_config.table_name;
            -- Due: wholly past the hot period. Lag: for how long the oldest of them has been.
            EXECUTE format($q$
                SELECT count(*), count(*) FILTER (WHERE upper_bound::%1$s <= $2::%1$s),
                       now() - $4 - min(coldfront._key_to_time(upper_bound, %1$L, $3)) FILTER (WHERE upper_bound::%1$s <= $2::%1$s)
                  FROM coldfront._leaves($1) $q$, v_key.key_type)
              INTO partitions, due, lag USING v_root,
                   coldfront._time_to_key(now() - coalesce(v_config.hot_period, v_config.retention_period), v_key.key_type, v_config.id_epoch),
                   v_config.id_epoch, coalesce(v_config.hot_period, v_config.retention_period);
        EXCEPTION WHEN OTHERS THEN
            trouble := SQLERRM;
        END;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION coldfront.archive_status IS 'Cutoff, due partitions and lag of every table with a lifecycle';
