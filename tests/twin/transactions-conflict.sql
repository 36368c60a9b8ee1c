-- columns: id bigint, ts timestamptz, v text
-- load: INSERT INTO t SELECT i, '2025-12-25'::timestamptz + i * interval '1 day', 'v' || i FROM generate_series(1, 10) i
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*), min(v) FROM t;
-- session: 2
UPDATE t SET v = 'two' WHERE id = 1;
-- session: 1
SELECT v FROM t WHERE id = 1;
UPDATE t SET v = 'one' WHERE id = 1;
ROLLBACK;
SELECT id, v FROM t ORDER BY id;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
-- session: 2
UPDATE t SET v = 'two' WHERE id = 2;
SELECT count(*) FROM t;
-- session: 1
-- refuse-ok: 40001
UPDATE t SET v = 'one' WHERE id = 3;
COMMIT;
SELECT count(*) FROM t;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
UPDATE t SET v = 'alone' WHERE id = 4;
SELECT id, v FROM t WHERE id = 4;
UPDATE t SET v = 'alone again' WHERE id = 4;
COMMIT;
-- session: 2
SELECT id, v FROM t WHERE id = 4;
-- session: 1
BEGIN ISOLATION LEVEL SERIALIZABLE;
DELETE FROM t WHERE id = 5;
COMMIT;
SELECT count(*) FROM t;
