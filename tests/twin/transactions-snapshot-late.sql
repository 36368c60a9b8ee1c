-- columns: id bigint, ts timestamptz, v text
-- load: INSERT INTO t SELECT i, '2025-12-25'::timestamptz + i * interval '1 day', 'v' || i FROM generate_series(1, 10) i
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 1;
-- session: 2
INSERT INTO t VALUES (21, '2025-12-31', 'after the snapshot');
-- session: 1
SELECT count(*) FROM t WHERE id = 21;
ROLLBACK;
SELECT count(*) FROM t WHERE id = 21;
