-- Moving a range to Iceberg, up to the cutover. Everything here may be done again: cold rows at or above the cutoff are
-- not visible, and an attempt that was cut short begins anew by removing what it left of them.

-- The upper end of what is archived next: the oldest partition bound after p_after (NULL: after the cutoff) that is past
-- the hot period and that no partition straddles. NULL if nothing is due.
CREATE FUNCTION coldfront._next_cutoff(p_schema text, p_table text, p_after text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v_config coldfront.partition_config;
    v_root   regclass := coldfront._hot_table(p_schema, p_table);
    v_key    record := coldfront._range_key(v_root);
    v_next   text;
BEGIN
    SELECT * INTO STRICT v_config FROM coldfront.partition_config WHERE schema_name = p_schema AND table_name = p_table;
    EXECUTE format($q$
        WITH leaf AS (SELECT lower_bound::%1$s AS lo, upper_bound::%1$s AS hi FROM coldfront._leaves($1))
        SELECT c.hi::text FROM leaf c
         WHERE c.hi > $2::%1$s AND c.hi <= $3::%1$s
           AND NOT EXISTS (SELECT FROM leaf x WHERE coalesce(x.lo < c.hi, true) AND coalesce(x.hi > c.hi, true))
         ORDER BY c.hi LIMIT 1 $q$, v_key.key_type)
      INTO v_next USING v_root,
           coalesce(p_after, (SELECT cutoff FROM coldfront.archive_watermark WHERE schema_name = p_schema AND table_name = p_table),
                    coldfront._key_min(v_key.key_type)),
           coldfront._time_to_key(now() - v_config.hot_period, v_key.key_type, v_config.id_epoch);
    RETURN v_next;
END
$$;

-- Attached partitions wholly between two bounds.
CREATE FUNCTION coldfront._leaves_between(p_root regclass, p_type text, p_lower text, p_upper text) RETURNS oid[]
    LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v_leaves oid[];
BEGIN
    EXECUTE format($q$ SELECT coalesce(array_agg(leaf::oid ORDER BY leaf::oid), '{}') FROM coldfront._leaves($1)
        WHERE upper_bound::%1$s > $2::%1$s AND upper_bound::%1$s <= $3::%1$s $q$, p_type) INTO v_leaves USING p_root, p_lower, p_upper;
    RETURN v_leaves;
END
$$;

-- Partitions that hold rows although they lie below the cutoff, where nobody reads them.
CREATE FUNCTION coldfront._stranded(p_schema text, p_table text) RETURNS TABLE (leaf text, row_count bigint)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v_root   regclass := coldfront._hot_table(p_schema, p_table);
    v_key    record := coldfront._range_key(v_root);
    v_cutoff text := (SELECT cutoff FROM coldfront.archive_watermark WHERE schema_name = p_schema AND table_name = p_table);
    v_leaf   regclass;
BEGIN
    FOR v_leaf IN EXECUTE format('SELECT l.leaf FROM coldfront._leaves($1) AS l WHERE lower_bound::%1$s < $2::%1$s OR (lower_bound IS NULL AND $2 <> $3)',
        v_key.key_type) USING v_root, v_cutoff, coldfront._key_min(v_key.key_type)
    LOOP
        EXECUTE format('SELECT $1, count(*) FROM %s WHERE %I < $2::%s', v_leaf, v_key.key_column, v_key.key_type)
           INTO leaf, row_count USING v_leaf::text, v_cutoff;
        IF row_count > 0 THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;

-- What every step needs to know of an attempt.
CREATE FUNCTION coldfront._attempt(p_attempt bigint, OUT a coldfront.archive_attempt, OUT root regclass, OUT key_column name, OUT key_type text,
        OUT cold text, OUT iceberg_table text, OUT capture text, OUT columns text, OUT insertable text, OUT capture_columns text, OUT content text, OUT hot text, OUT range text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_entry coldfront.tiered_views;
BEGIN
    SELECT * INTO a FROM coldfront.archive_attempt WHERE attempt_id = p_attempt;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'coldfront: there is no archive attempt %', p_attempt USING ERRCODE = '42704';
    END IF;
    SELECT * INTO STRICT v_entry FROM coldfront.tiered_views WHERE schema_name = a.schema_name AND table_name = a.table_name;
    root := coldfront._hot_table(a.schema_name, a.table_name);
    SELECT k.key_column, k.key_type INTO key_column, key_type FROM coldfront._range_key(root) AS k;
    cold := format('coldfront_cold.%I', v_entry.foreign_table);
    iceberg_table := v_entry.iceberg_table;
    capture := format('coldfront_archive.capture_%s', p_attempt);
    SELECT string_agg(quote_ident(name), ', ' ORDER BY "position"), string_agg(quote_ident(name), ', ' ORDER BY "position") FILTER (WHERE NOT generated),
           string_agg('c' || "position" || ' AS ' || quote_ident(name), ', ' ORDER BY "position")
      INTO columns, insertable, capture_columns FROM coldfront._columns(root);
    content := coldfront._row_content(root);
    -- The heap rows of the range, as a table expression.
    SELECT '(' || coalesce(string_agg(format('SELECT %s FROM %s', columns, l::regclass), ' UNION ALL '),
                           format('SELECT %s FROM %s WHERE false', columns, root)) || ')' INTO hot
      FROM unnest(a.leaves) AS l WHERE EXISTS (SELECT FROM pg_class WHERE oid = l);
    range := format('%1$I >= %2$L::%4$s AND %1$I < %3$L::%4$s', key_column, a.lower_bound, a.upper_bound, key_type);
END
$$;

-- Begins to archive up to a bound, or takes up what an earlier run began. The caller sets a short lock_timeout.
CREATE FUNCTION coldfront._attempt_open(p_schema text, p_table text, p_upper text) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v_root   regclass := coldfront._hot_table(p_schema, p_table);
    v_key    record := coldfront._range_key(v_root);
    v_lower  text;
    v_leaves oid[];
    v_hash   text := coldfront._columns_hash(v_root);
    v_old    coldfront.archive_attempt;
    v_id     bigint;
    v_names  text;
    v_values text[];
BEGIN
    PERFORM coldfront._reject_on_standby();
    SELECT cutoff INTO STRICT v_lower FROM coldfront.archive_watermark WHERE schema_name = p_schema AND table_name = p_table;
    v_leaves := coldfront._leaves_between(v_root, v_key.key_type, v_lower, p_upper);
    FOR v_old IN SELECT * FROM coldfront.archive_attempt WHERE schema_name = p_schema AND table_name = p_table AND phase <> 'cut_over' LOOP
        IF (v_old.lower_bound, v_old.upper_bound, v_old.leaves, v_old.columns_hash) = (v_lower, p_upper, v_leaves, v_hash) THEN
            UPDATE coldfront.archive_attempt SET phase = 'watching' WHERE attempt_id = v_old.attempt_id;
            RETURN v_old.attempt_id;
        END IF;
        PERFORM coldfront._attempt_abandon(v_old.attempt_id);
    END LOOP;

    INSERT INTO coldfront.archive_attempt (schema_name, table_name, lower_bound, upper_bound, leaves, phase, columns_hash)
    VALUES (p_schema, p_table, v_lower, p_upper, v_leaves, 'watching', v_hash) RETURNING attempt_id INTO v_id;
    SELECT string_agg(format('c%s %s', "position", type) || coalesce(' COLLATE ' || "collation", ''), ', ' ORDER BY "position"),
           ARRAY[string_agg('OLD.' || quote_ident(name), ', ' ORDER BY "position"), string_agg('NEW.' || quote_ident(name), ', ' ORDER BY "position"),
                 string_agg(quote_ident(name), ', ' ORDER BY "position")]
      INTO v_names, v_values FROM coldfront._columns(v_root);
    EXECUTE format('CREATE TABLE coldfront_archive.capture_%s (sign smallint NOT NULL, %s)', v_id, v_names);
    -- Writers need no privilege on what it writes. TRUNCATE takes out every row that is there.
    EXECUTE format($f$
        CREATE FUNCTION coldfront_archive.capture_%1$s() RETURNS trigger
            LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
        BEGIN
            CASE TG_OP
            WHEN 'INSERT' THEN INSERT INTO coldfront_archive.capture_%1$s VALUES (1, %3$s);
            WHEN 'DELETE' THEN INSERT INTO coldfront_archive.capture_%1$s VALUES (-1, %2$s);
            WHEN 'UPDATE' THEN INSERT INTO coldfront_archive.capture_%1$s VALUES (-1, %2$s), (1, %3$s);
            ELSE EXECUTE format('INSERT INTO coldfront_archive.capture_%1$s SELECT -1, %%s FROM %%I.%%I', %4$L, TG_TABLE_SCHEMA, TG_TABLE_NAME);
            END CASE;
            RETURN NULL;
        END
        $body$ $f$, v_id, v_values[1], v_values[2], v_values[3]);
    EXECUTE format('REVOKE EXECUTE ON FUNCTION coldfront_archive.capture_%s() FROM PUBLIC', v_id);
    RETURN v_id;
END
$$;

-- Captures changes of one partition from now on. Its lock waits for writers that are under way, so that none of their
-- changes is missed; the caller sets a short lock_timeout, so that no others queue behind it for long.
CREATE FUNCTION coldfront._attempt_watch(p_attempt bigint, p_leaf oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_name text := 'coldfront_capture_' || p_attempt;
    v_leaf regclass := p_leaf;
BEGIN
    IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = p_leaf AND tgname = v_name) THEN
        RETURN;
    END IF;
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', v_leaf);
    EXECUTE format('CREATE TRIGGER %1$I AFTER INSERT OR UPDATE OR DELETE ON %2$s FOR EACH ROW EXECUTE FUNCTION coldfront_archive.capture_%3$s()',
        v_name, v_leaf, p_attempt);
    EXECUTE format('CREATE TRIGGER %1$I BEFORE TRUNCATE ON %2$s FOR EACH STATEMENT EXECUTE FUNCTION coldfront_archive.capture_%3$s()',
        v_name || '_truncate', v_leaf, p_attempt);
    -- Also for rows that arrive through replication.
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I, ENABLE ALWAYS TRIGGER %I', v_leaf, v_name, v_name || '_truncate');
END
$$;

-- Gives an attempt up: its captures end, what it exported stays invisible. The caller sets a short lock_timeout.
CREATE FUNCTION coldfront._attempt_abandon(p_attempt bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('DROP FUNCTION IF EXISTS coldfront_archive.capture_%s() CASCADE', p_attempt);
    EXECUTE format('DROP TABLE IF EXISTS coldfront_archive.capture_%s', p_attempt);
    DELETE FROM coldfront.archive_attempt WHERE attempt_id = p_attempt;
END
$$;

-- Removes what an earlier attempt left in the range. Returns the rows removed.
CREATE FUNCTION coldfront._attempt_purge(p_attempt bigint) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v       record := coldfront._attempt(p_attempt);
    v_found bigint;
    v_rows  bigint := 0;
BEGIN
    IF (v.a).phase = 'cut_over' THEN
        RAISE EXCEPTION 'coldfront: attempt % is cut over', p_attempt USING ERRCODE = '55000';
    END IF;
    EXECUTE format('SELECT count(*) FROM %s WHERE %s', v.cold, v.range) INTO v_found;
    IF v_found > 0 THEN
        EXECUTE format('DELETE FROM %s WHERE %s', v.cold, v.range);
        GET DIAGNOSTICS v_rows = ROW_COUNT;
    END IF;
    RETURN v_rows;
END
$$;

-- Begins an export in a REPEATABLE READ transaction: one snapshot says what is copied and which captured changes it holds
-- already. Returns the snapshot's name for the sessions that read. Until its end, what is staged for the table and not
-- committed yet is safe from the compactor's orphan task, which takes the same lock alone.
CREATE FUNCTION coldfront._attempt_snapshot(p_attempt bigint) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v      record;
    v_leaf regclass;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'coldfront: an export needs a REPEATABLE READ transaction' USING ERRCODE = '25001';
    END IF;
    v := coldfront._attempt(p_attempt);
    PERFORM pg_advisory_xact_lock_shared(coldfront._staging_key(v.iceberg_table));
    FOREACH v_leaf IN ARRAY (v.a).leaves LOOP
        EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE', v_leaf);
    END LOOP;
    EXECUTE format('DELETE FROM %s', v.capture);
    RETURN pg_export_snapshot();
END
$$;

CREATE FUNCTION coldfront._staging_key(p_ref text) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT hashtextextended('coldfront_staging:' || p_ref, 0);
$$;

-- Takes part in an export: the partitions' locks are this session's too. It does not wait for them, as whoever waits for an
-- exclusive one waits for the session with the snapshot, which waits for this one.
CREATE FUNCTION coldfront._attempt_join(p_attempt bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_leaf regclass;
BEGIN
    FOREACH v_leaf IN ARRAY (SELECT leaves FROM coldfront.archive_attempt WHERE attempt_id = p_attempt) LOOP
        EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE NOWAIT', v_leaf);
    END LOOP;
END
$$;

-- Queries that together read every heap row of the range once, with the columns and types of the cold tier. A partition is
-- cut into equal pieces for p_jobs readers, of no less than p_min and no more than p_max bytes. One whose rows lie in disorder is
-- sorted, so that the bounds of row groups say something.
CREATE FUNCTION coldfront._attempt_pieces(p_attempt bigint, p_jobs int, p_min bigint DEFAULT 16 * 1024 * 1024, p_max bigint DEFAULT 512 * 1024 * 1024)
    RETURNS SETOF text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v         record := coldfront._attempt(p_attempt);
    v_columns text;
    v_missing bigint;
    v_leaf    record;
    v_page    bigint := current_setting('block_size')::bigint;
    v_step    bigint;
    v_from    bigint;
BEGIN
    SELECT string_agg(quote_ident(name) || CASE WHEN h.type <> c.type THEN format('::%s AS %I', c.type, name) ELSE '' END, ', ' ORDER BY h."position"),
           count(*) FILTER (WHERE h.name IS NULL OR c.name IS NULL)
      INTO STRICT v_columns, v_missing FROM coldfront._columns(v.root) AS h FULL JOIN coldfront._columns(v.cold::regclass) AS c USING (name);
    IF v_missing > 0 THEN
        RAISE EXCEPTION 'coldfront: hot and cold rows of %.% have different columns', quote_ident((v.a).schema_name), quote_ident((v.a).table_name)
            USING ERRCODE = '55000';
    END IF;
    FOR v_leaf IN
        SELECT c.oid::regclass AS relation, a.amname = 'heap' AS is_heap, pg_relation_size(c.oid) / v_page AS pages, pg_table_size(c.oid) AS bytes,
               CASE WHEN coalesce(abs(s.correlation), 0) < 0.9 THEN format(' ORDER BY %I', v.key_column) ELSE '' END AS sorting
          FROM unnest((v.a).leaves) AS l
          JOIN pg_class c ON c.oid = l JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_am a ON a.oid = c.relam
          LEFT JOIN pg_stats s ON (s.schemaname, s.tablename, s.attname) = (n.nspname, c.relname, v.key_column)
         ORDER BY pages DESC
    LOOP
        v_step := greatest(ceil(v_leaf.pages / greatest(ceil(v_leaf.bytes / p_max::numeric), least(p_jobs, v_leaf.bytes / p_min), 1)), 1)::bigint;
        v_from := 0;
        LOOP
            RETURN NEXT format('SELECT %s FROM %s', v_columns, v_leaf.relation)
                || CASE WHEN v_leaf.is_heap AND v_leaf.pages > v_step
                        THEN format(' WHERE ctid >= %L', format('(%s,0)', v_from))
                          || CASE WHEN v_from + v_step < v_leaf.pages THEN format(' AND ctid < %L', format('(%s,0)', v_from + v_step)) ELSE '' END
                        ELSE '' END
                || v_leaf.sorting;
            v_from := v_from + v_step;
            EXIT WHEN v_from >= v_leaf.pages OR NOT v_leaf.is_heap;
        END LOOP;
    END LOOP;
END
$$;

-- Notes that the range is in Iceberg; in the transaction whose snapshot was copied.
CREATE FUNCTION coldfront._attempt_exported(p_attempt bigint, p_rows bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE coldfront.archive_attempt SET phase = 'exported', row_count = p_rows WHERE attempt_id = p_attempt AND phase = 'watching';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'coldfront: attempt % is not being exported', p_attempt USING ERRCODE = '55000';
    END IF;
END
$$;

CREATE FUNCTION coldfront._fetch_arrow(p_cursor text, p_max_bytes int) RETURNS bytea
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', '_fetch_arrow_wrapper';
COMMENT ON FUNCTION coldfront._fetch_arrow IS 'The next rows of a cursor as an Arrow IPC stream, NULL at its end';

-- Applies what was captured to the copy. Counts per distinct content say how often a row was added or taken away, so
-- rows need no key. With p_verify it returns number and checksum of the heap's rows, as one snapshot saw them together with
-- the captured changes. The claim is held only where there is something to apply.
CREATE FUNCTION coldfront._attempt_replay(p_attempt bigint, p_verify boolean, OUT changes bigint, OUT row_count bigint, OUT checksum numeric)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
    -- A nested loop would ask the engine once for each changed row.
    SET enable_nestloop = off AS $$
DECLARE
    v          record;
    v_expected bigint;
    v_rows     bigint;
    v_where    text;
    v_ids      tid[];
BEGIN
    v := coldfront._attempt(p_attempt);
    IF (v.a).phase <> 'exported' THEN
        RAISE EXCEPTION 'coldfront: attempt % is not exported', p_attempt USING ERRCODE = '55000';
    END IF;
    EXECUTE format('CREATE TEMPORARY TABLE coldfront_moved ON COMMIT DROP AS SELECT sign, %s FROM %s WHERE false', v.capture_columns, v.capture);
    EXECUTE format('WITH moved AS (DELETE FROM %s RETURNING sign, %s), kept AS (INSERT INTO coldfront_moved SELECT * FROM moved)'
        ' SELECT (SELECT count(*) FROM moved) AS changes, h.rows, h.checksum FROM (SELECT %s FROM %s AS h) AS h',
        v.capture, v.capture_columns, CASE WHEN p_verify THEN coldfront._checksum(v.root) ELSE '0 AS rows, 0 AS checksum' END,
        CASE WHEN p_verify THEN v.hot ELSE '(SELECT 1)' END) INTO changes, row_count, checksum;

    IF changes > 0 THEN
        PERFORM coldfront._claim_iceberg_lock(v.iceberg_table);
        -- One row for each content whose number changed.
        EXECUTE format('CREATE TEMPORARY TABLE coldfront_net ON COMMIT DROP AS SELECT * FROM ('
            ' SELECT %1$s, content AS "coldfront content", sum(sign) OVER same AS "coldfront net", row_number() OVER same AS "coldfront copy"'
            '   FROM (SELECT sign, %1$s, %2$s AS content FROM coldfront_moved) AS m'
            ' WINDOW same AS (PARTITION BY content ORDER BY sign ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)) AS n'
            ' WHERE "coldfront copy" = 1 AND "coldfront net" <> 0', v.columns, v.content);
        SELECT coalesce(sum(-"coldfront net"), 0) INTO v_expected FROM coldfront_net WHERE "coldfront net" < 0;
        IF v_expected > 0 THEN
            v_where := coldfront._keys_filter(v.key_column, v.key_type);
            -- Which of several equal rows go does not matter.
            EXECUTE format('SELECT array_agg(x.id) FROM ('
                ' SELECT ctid AS id, %2$s AS content, row_number() OVER (PARTITION BY %2$s) AS copy FROM %1$s WHERE %3$s AND %4$s) AS x'
                ' JOIN coldfront_net AS n ON n."coldfront content" = x.content AND x.copy <= -n."coldfront net"',
                v.cold, v.content, v.range, v_where) INTO v_ids;
            EXECUTE format('DELETE FROM %s WHERE ctid = ANY ($1) AND %s AND %s', v.cold, v.range, v_where) USING v_ids;
            GET DIAGNOSTICS v_rows = ROW_COUNT;
            IF v_rows <> v_expected THEN
                RAISE EXCEPTION 'coldfront: % deleted rows of %.% were found % times in Iceberg', v_expected,
                    quote_ident((v.a).schema_name), quote_ident((v.a).table_name), v_rows
                    USING ERRCODE = 'XX001', HINT = 'The range is exported again.';
            END IF;
        END IF;
        IF EXISTS (SELECT FROM coldfront_net WHERE "coldfront net" > 0) THEN
            EXECUTE format('INSERT INTO %s (%s) SELECT %s FROM coldfront_net CROSS JOIN generate_series(1, "coldfront net") WHERE "coldfront net" > 0 ORDER BY %I',
                v.cold, v.insertable, v.insertable, v.key_column);
        END IF;
        DROP TABLE coldfront_net;
    END IF;
    DROP TABLE coldfront_moved;
END
$$;

-- Compares the copy with what _attempt_replay saw of the heap. Nobody but the archiver changes cold rows above the cutoff,
-- so this takes no claim, and as long as it takes.
CREATE FUNCTION coldfront._attempt_verify(p_attempt bigint, p_rows bigint, p_checksum numeric) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex' AS $$
DECLARE
    v          record := coldfront._attempt(p_attempt);
    v_rows     bigint;
    v_checksum numeric;
BEGIN
    EXECUTE format('SELECT %s FROM %s WHERE %s', coldfront._checksum(v.root), v.cold, v.range) INTO v_rows, v_checksum;
    IF (v_rows, v_checksum) IS DISTINCT FROM (p_rows, p_checksum) THEN
        RAISE EXCEPTION 'coldfront: Iceberg holds % rows of %.% between % and %, the heap % (or their contents differ)', v_rows,
            quote_ident((v.a).schema_name), quote_ident((v.a).table_name), (v.a).lower_bound, (v.a).upper_bound, p_rows
            USING ERRCODE = 'XX001', HINT = 'The range is exported again.';
    END IF;
    UPDATE coldfront.archive_attempt SET row_count = v_rows WHERE attempt_id = p_attempt;
END
$$;

-- A filter on the keys of the rows in coldfront_net that go: each by itself where they are few.
CREATE FUNCTION coldfront._keys_filter(p_column name, p_type text) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v_keys text[];
BEGIN
    EXECUTE format('SELECT array_agg(k ORDER BY k::%2$s) FROM (SELECT DISTINCT %1$I::text AS k FROM coldfront_net WHERE "coldfront net" < 0) AS d',
        p_column, p_type) INTO v_keys;
    IF cardinality(v_keys) <= 1000 THEN
        RETURN format('%I = ANY (%L::%s[])', p_column, v_keys, p_type);
    END IF;
    RETURN format('%1$I >= %2$L::%4$s AND %1$I <= %3$L::%4$s', p_column, v_keys[1], v_keys[cardinality(v_keys)], p_type);
END
$$;

-- Notes the Iceberg snapshot that holds the verified range; after the commit that made it.
CREATE FUNCTION coldfront._attempt_note_snapshot(p_attempt bigint) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v    record := coldfront._attempt(p_attempt);
    v_id text := coldfront._lake_head(v.iceberg_table);
BEGIN
    UPDATE coldfront.archive_attempt SET snapshot_id = v_id WHERE attempt_id = p_attempt;
    RETURN v_id;
END
$$;
