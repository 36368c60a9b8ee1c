-- columns: id bigint, ts timestamptz, v text
-- load: INSERT INTO t SELECT i, '2025-12-25'::timestamptz + i * interval '1 day', 'v' || i FROM generate_series(1, 10) i
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
-- session: 2
INSERT INTO t VALUES (20, '2025-12-31', 'later');
DELETE FROM t WHERE id = 1;
UPDATE t SET v = 'changed' WHERE id = 2;
SELECT count(*), min(id), max(v) FROM t;
-- session: 1
SELECT count(*), min(id), max(v) FROM t;
SELECT a.id, b.id FROM t a FULL JOIN t b USING (id) WHERE a.id IS NULL OR b.id IS NULL;
SELECT v FROM t WHERE id = 2;
SELECT count(*) FROM t WHERE id = 20;
-- session: 2
INSERT INTO t SELECT id + 100, ts, v FROM t;
-- session: 1
SELECT count(*) FROM t;
COMMIT;
SELECT count(*), min(id), max(v) FROM t;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT count(*) FROM t WHERE id < 100;
-- session: 2
DELETE FROM t WHERE id < 5;
-- session: 1
SELECT count(*) FROM t WHERE id < 100;
COMMIT;
SELECT count(*) FROM t WHERE id < 100;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t WHERE id > 20;
INSERT INTO t VALUES (30, '2025-12-31', 'mine');
SELECT count(*) FROM t WHERE id > 20;
COMMIT;
BEGIN;
SELECT count(*) FROM t;
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
ROLLBACK;
SELECT id, v FROM t ORDER BY id;
