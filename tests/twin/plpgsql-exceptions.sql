-- columns: id bigint, ts timestamptz, s text
-- load: INSERT INTO t VALUES (1, '2025-01-01', 'a'), (2, '2026-01-01', 'b')
DO $$ BEGIN PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN INSERT INTO t VALUES (3, '2025-01-01', 'handled'); END $$;
SELECT id, s FROM t ORDER BY id;
DO $$ BEGIN BEGIN PERFORM count(*) FROM t WHERE s::int = 1; EXCEPTION WHEN invalid_text_representation THEN NULL; END; UPDATE t SET s = 'after read error' WHERE id = 1; END $$;
SELECT id, s FROM t ORDER BY id;
-- refuse-ok: 0A000
DO $$ BEGIN BEGIN INSERT INTO t VALUES (4, '2025-01-01', 'undone'); PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END; END $$;
SELECT id, s FROM t ORDER BY id;
-- refuse-ok: 0A000
DO $$ BEGIN BEGIN UPDATE t SET s = 'undone'; RAISE EXCEPTION 'x'; EXCEPTION WHEN others THEN INSERT INTO t VALUES (5, '2025-01-01', 'second'); END; END $$;
SELECT id, s FROM t ORDER BY id;
-- refuse-ok: 0A000
DO $$ BEGIN INSERT INTO t VALUES (6, '2025-01-01', 'outer'); BEGIN DELETE FROM t; RAISE EXCEPTION 'x'; EXCEPTION WHEN others THEN NULL; END; END $$;
SELECT id, s FROM t ORDER BY id;
DO $$ BEGIN BEGIN INSERT INTO t VALUES (7, '2025-01-01', 'no error'); EXCEPTION WHEN others THEN NULL; END; END $$;
SELECT id, s FROM t ORDER BY id;
-- refuse-ok: 0A000
DO $$ BEGIN FOR i IN 10..13 LOOP BEGIN INSERT INTO t VALUES (i, '2025-01-01', 'loop'); IF i % 2 = 0 THEN RAISE EXCEPTION 'even'; END IF; EXCEPTION WHEN raise_exception THEN NULL; END; END LOOP; END $$;
SELECT id, s FROM t ORDER BY id;
BEGIN;
INSERT INTO t VALUES (20, '2025-01-01', 'in tx');
-- refuse-ok: 0A000
DO $$ BEGIN BEGIN UPDATE t SET s = 'undone' WHERE id = 20; RAISE EXCEPTION 'x'; EXCEPTION WHEN others THEN NULL; END; END $$;
SELECT s FROM t WHERE id = 20;
COMMIT;
SELECT id, s FROM t ORDER BY id;
