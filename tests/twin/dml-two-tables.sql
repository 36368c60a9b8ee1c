-- columns: id bigint, ts timestamptz, a integer, s text
-- also: u: id bigint, ref bigint, w text
-- load: INSERT INTO t SELECT i, '2025-12-10'::timestamptz + i * interval '1 day', i % 6, 't' || i FROM generate_series(1, 40) i
-- load: INSERT INTO u SELECT i, i * 2, 'u' || i FROM generate_series(1, 30) i
SELECT t.id, u.w FROM t JOIN u ON u.ref = t.id WHERE t.a = 2 ORDER BY 1;
SELECT t.id, u.w FROM t LEFT JOIN u ON u.ref = t.id WHERE t.id < 6 ORDER BY 1;
SELECT count(*) FROM t FULL JOIN u ON u.ref = t.id;
SELECT t.a, count(u.id), min(u.w) FROM t LEFT JOIN u ON u.ref = t.id GROUP BY t.a ORDER BY t.a;
SELECT id FROM t WHERE id IN (SELECT ref FROM u WHERE w > 'u2') ORDER BY id;
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.ref = t.id) ORDER BY id LIMIT 5;
DELETE FROM t WHERE id IN (SELECT ref FROM u WHERE id <= 3);
DELETE FROM t USING u WHERE u.ref = t.id AND u.w = 'u10' RETURNING t.id, u.w;
DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.ref = t.id) AND a = 1;
DELETE FROM t WHERE id > (SELECT avg(ref) FROM u) AND a = 4;
DELETE FROM u WHERE ref NOT IN (SELECT id FROM t);
SELECT count(*), sum(id) FROM t;
SELECT count(*), sum(ref) FROM u;
UPDATE t SET s = u.w, a = u.id FROM u WHERE u.ref = t.id AND u.id < 10;
UPDATE u SET w = (SELECT s FROM t WHERE t.id = u.ref) WHERE EXISTS (SELECT 1 FROM t WHERE t.id = u.ref AND t.a < 3);
-- unordered
INSERT INTO u SELECT id + 1000, id, s FROM t WHERE a = 0 RETURNING id;
INSERT INTO t SELECT u.id, '2025-12-31', u.ref, u.w FROM u WHERE u.id > 1000;
BEGIN;
INSERT INTO t VALUES (500, '2025-12-31', 0, 'both');
INSERT INTO u VALUES (500, 500, 'both');
UPDATE u SET w = t.s || u.w FROM t WHERE t.id = u.ref AND t.id = 500;
SELECT t.s, u.w FROM t JOIN u ON u.ref = t.id WHERE t.id = 500;
ROLLBACK;
SELECT (SELECT count(*) FROM t WHERE id = 500), (SELECT count(*) FROM u WHERE id = 500);
BEGIN;
DELETE FROM t WHERE id > 1000;
INSERT INTO u VALUES (501, 501, 'committed');
-- session: 2
SELECT (SELECT count(*) FROM t WHERE id > 1000), (SELECT count(*) FROM u WHERE id = 501);
-- session: 1
COMMIT;
-- session: 2
SELECT (SELECT count(*) FROM t WHERE id > 1000), (SELECT count(*) FROM u WHERE id = 501);
WITH d AS (DELETE FROM t WHERE a = 5 RETURNING id, s) INSERT INTO u SELECT id, NULL, s FROM d;
WITH a AS (UPDATE t SET s = 'x' WHERE id = 16 RETURNING id), b AS (UPDATE u SET w = 'y' WHERE id = 7 RETURNING id) SELECT a.id, b.id FROM a, b;
SELECT * FROM t ORDER BY id;
SELECT * FROM u ORDER BY id, ref, w;
SELECT id FROM t UNION ALL SELECT id FROM u EXCEPT SELECT ref FROM u ORDER BY 1;
