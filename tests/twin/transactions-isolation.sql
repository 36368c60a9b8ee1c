-- columns: id bigint, ts timestamptz, v text
-- load: INSERT INTO t SELECT i, '2025-12-25'::timestamptz + i * interval '1 day', 'v' || i FROM generate_series(1, 10) i
BEGIN;
SELECT count(*) FROM t;
-- session: 2
INSERT INTO t VALUES (20, '2025-12-31', 'by two');
-- session: 1
SELECT count(*) FROM t;
UPDATE t SET v = v || '+1' WHERE v = 'by two';
-- session: 2
SELECT v FROM t WHERE id = 20;
-- session: 1
COMMIT;
-- session: 2
SELECT v FROM t WHERE id = 20;
BEGIN;
INSERT INTO t VALUES (30, '2025-12-31', 'invisible');
SELECT count(*) FROM t WHERE id = 30;
-- session: 1
SELECT count(*) FROM t WHERE id = 30;
-- session: 3
SELECT count(*) FROM t WHERE id = 30;
-- session: 2
ROLLBACK;
-- session: 1
SELECT count(*) FROM t WHERE id = 30;
DELETE FROM t WHERE id = 1;
-- session: 2
SELECT min(id) FROM t;
INSERT INTO t VALUES (40, '2025-12-31', 'a');
-- session: 1
INSERT INTO t VALUES (41, '2025-12-31', 'b');
-- session: 2
UPDATE t SET v = 'ab' WHERE id >= 40;
-- session: 1
SELECT id, v FROM t ORDER BY id;
PREPARE n AS SELECT count(*) FROM t;
EXECUTE n;
-- session: 2
DELETE FROM t WHERE id = 41;
-- session: 1
EXECUTE n;
BEGIN;
EXECUTE n;
-- session: 2
DELETE FROM t WHERE id = 40;
-- session: 1
EXECUTE n;
COMMIT;
CREATE FUNCTION cnt() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM t';
SELECT cnt();
-- session: 2
INSERT INTO t VALUES (50, '2025-12-31', 'x'), (51, '2025-12-31', 'x');
-- session: 1
SELECT cnt();
