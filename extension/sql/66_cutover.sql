-- The one moment at which rows change tiers, and what follows it.

-- Keeps everybody out of the relation and says how many captured changes are still to be applied. The caller sets a short
-- lock_timeout. LOCK TABLE on a view also locks the hot table and its partitions, and not the foreign table, to which
-- the last changes may still be applied by another session. The write claim is not taken: nothing is written to Iceberg
-- under this lock but by that session, and a writer that holds the relation waits for the claim.
CREATE FUNCTION coldfront._attempt_lock(p_attempt bigint) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v         record := coldfront._attempt(p_attempt);
    v_waiting bigint;
BEGIN
    EXECUTE format('LOCK TABLE %I.%I IN ACCESS EXCLUSIVE MODE', (v.a).schema_name, (v.a).table_name);
    EXECUTE format('SELECT count(*) FROM %s', v.capture) INTO v_waiting;
    RETURN v_waiting;
END
$$;

-- Watermark, view and DETACH, under the locks of _attempt_lock.
CREATE FUNCTION coldfront._attempt_flip(p_attempt bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v         record := coldfront._attempt(p_attempt);
    v_waiting bigint;
    v_leaf    oid;
BEGIN
    EXECUTE format('SELECT count(*) FROM %s', v.capture) INTO v_waiting;
    IF (v.a).phase <> 'exported' OR v_waiting > 0 THEN
        RAISE EXCEPTION 'coldfront: attempt % has % captured changes to apply and cannot be cut over', p_attempt, v_waiting USING ERRCODE = '55000';
    END IF;
    IF (v.a).columns_hash <> coldfront._columns_hash(v.root)
       OR (v.a).leaves <> coldfront._leaves_between(v.root, v.key_type, (v.a).lower_bound, (v.a).upper_bound)
       OR (v.a).lower_bound <> (SELECT cutoff FROM coldfront.archive_watermark WHERE schema_name = (v.a).schema_name AND table_name = (v.a).table_name) THEN
        RAISE EXCEPTION 'coldfront: columns or partitions of %.% changed while they were archived', quote_ident((v.a).schema_name), quote_ident((v.a).table_name)
            USING ERRCODE = 'XX001', HINT = 'The range is exported again.';
    END IF;
    FOREACH v_leaf IN ARRAY (v.a).leaves LOOP
        EXECUTE format('ALTER TABLE %s DETACH PARTITION %s', (SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = v_leaf), v_leaf::regclass);
    END LOOP;
    PERFORM coldfront._set_cutoff((v.a).schema_name, (v.a).table_name, (v.a).upper_bound);
    UPDATE coldfront.archive_attempt SET phase = 'cut_over', cut_over_at = now() WHERE attempt_id = p_attempt;
END
$$;

-- Drops the detached partitions of a range that is cold, if nothing reached them since and the catalog knows the snapshot
-- that holds their rows. Otherwise it says why they stay. The caller sets a short lock_timeout.
CREATE FUNCTION coldfront._attempt_drop(p_attempt bigint) RETURNS text[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
    v         record := coldfront._attempt(p_attempt);
    v_passed  boolean;
    v_known   boolean;
    v_waiting bigint;
    v_leaf    record;
    v_dropped text[] := '{}';
BEGIN
    EXECUTE format('SELECT cutoff::%1$s >= $1::%1$s FROM coldfront.archive_watermark WHERE schema_name = $2 AND table_name = $3', v.key_type)
       INTO v_passed USING (v.a).upper_bound, (v.a).schema_name, (v.a).table_name;
    IF (v.a).phase <> 'cut_over' OR v_passed IS NOT TRUE THEN
        RAISE EXCEPTION 'coldfront: the cutover of attempt % is not committed', p_attempt USING ERRCODE = '55000';
    END IF;
    IF (v.a).row_count > 0 THEN
        v_known := coldfront._lake_has_snapshot(v.iceberg_table, (v.a).snapshot_id::bigint);
        IF v_known IS NOT TRUE THEN
            RAISE EXCEPTION 'coldfront: the catalog does not know snapshot % of %, which holds the rows of the detached partitions',
                coalesce((v.a).snapshot_id, '(none)'), v.iceberg_table USING ERRCODE = '55000',
                HINT = 'The partitions are kept; check whether the catalog was restored from a backup.';
        END IF;
    END IF;
    FOR v_leaf IN SELECT c.oid::regclass AS relation, c.relispartition FROM pg_class c WHERE c.oid = ANY ((v.a).leaves) ORDER BY 1 LOOP
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', v_leaf.relation);
        IF v_leaf.relispartition THEN
            RAISE EXCEPTION 'coldfront: the archived partition % was attached again', v_leaf.relation USING ERRCODE = '55000',
                HINT = 'Its rows are in Iceberg too; detach it.';
        END IF;
    END LOOP;
    EXECUTE format('SELECT count(*) FROM %s', v.capture) INTO v_waiting;
    IF v_waiting > 0 THEN
        RAISE EXCEPTION 'coldfront: detached partitions of %.% up to % received % changes after they were archived, and are kept: %',
            quote_ident((v.a).schema_name), quote_ident((v.a).table_name), (v.a).upper_bound, v_waiting,
            (SELECT string_agg(l::regclass::text, ', ') FROM unnest((v.a).leaves) AS l)
            USING ERRCODE = '55000', HINT = format('Changes stand in %s: apply them through the view, delete them there, and run again.', v.capture);
    END IF;
    FOR v_leaf IN SELECT c.oid::regclass AS relation FROM pg_class c WHERE c.oid = ANY ((v.a).leaves) LOOP
        v_dropped := v_dropped || v_leaf.relation::text;
        EXECUTE format('DROP TABLE %s', v_leaf.relation);
    END LOOP;
    PERFORM coldfront._attempt_abandon(p_attempt);
    RETURN v_dropped;
END
$$;
