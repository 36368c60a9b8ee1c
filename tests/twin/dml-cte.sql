-- columns: id bigint, ts timestamptz, a integer, s text
-- load: INSERT INTO t SELECT i, '2025-12-20'::timestamptz + i * interval '1 day', i * 10, 's' || i FROM generate_series(1, 20) i
WITH c AS (SELECT * FROM t WHERE id < 4) SELECT c.id, t.a FROM c JOIN t USING (id) ORDER BY 1;
WITH RECURSIVE r(n) AS (SELECT min(id) FROM t UNION ALL SELECT n + 5 FROM r WHERE n < 15) SELECT r.n, t.s FROM r JOIN t ON t.id = r.n ORDER BY 1;
WITH i AS (INSERT INTO t VALUES (100, '2025-12-25', 1, 'new'), (101, '2026-01-25', 2, 'new') RETURNING id, s) SELECT * FROM i ORDER BY id;
WITH u AS (UPDATE t SET a = a + 1 WHERE id <= 2 RETURNING id, a) SELECT sum(a), count(*) FROM u;
WITH d AS (DELETE FROM t WHERE id IN (3, 4) RETURNING *) SELECT id, a FROM d ORDER BY id;
WITH u AS (UPDATE t SET s = 'hidden' WHERE id = 5 RETURNING id) SELECT s FROM t WHERE id = 5;
SELECT s FROM t WHERE id = 5;
WITH i AS (INSERT INTO t VALUES (102, '2025-12-26', 3, 'unseen') RETURNING 1) SELECT count(*) FROM t WHERE id = 102;
SELECT count(*) FROM t WHERE id = 102;
CREATE TABLE log (id bigint, what text);
WITH d AS (DELETE FROM t WHERE id IN (6, 7) RETURNING id) INSERT INTO log SELECT id, 'deleted' FROM d;
WITH l AS (INSERT INTO log VALUES (8, 'to update') RETURNING id) UPDATE t SET s = 'logged' FROM l WHERE t.id = l.id;
WITH l AS (DELETE FROM log RETURNING id) INSERT INTO t (id, ts, s) SELECT id + 200, '2025-12-31', 'moved' FROM l;
SELECT * FROM t WHERE id > 99 OR id = 8 ORDER BY id;
WITH i AS (INSERT INTO log SELECT id, s FROM t WHERE id < 3 RETURNING *), j AS (INSERT INTO log SELECT id + 50, what FROM i RETURNING *) SELECT * FROM j ORDER BY id;
SELECT * FROM log ORDER BY id;
WITH m AS MATERIALIZED (SELECT id, a FROM t WHERE id < 12) UPDATE t SET a = m.a * 2 FROM m WHERE t.id = m.id + 1;
WITH m AS NOT MATERIALIZED (SELECT avg(a) AS v FROM t) DELETE FROM t USING m WHERE t.a > m.v * 2;
WITH a AS (SELECT count(*) AS n FROM t), b AS (SELECT max(id) AS m FROM t) INSERT INTO t SELECT b.m + 1, '2025-12-31', a.n, 'counted' FROM a, b RETURNING id, a;
WITH x AS (SELECT 1) DELETE FROM t WHERE id IN (TABLE x);
WITH d AS (DELETE FROM t WHERE id = 12 RETURNING 1 / (id - 12)) SELECT * FROM d;
WITH d AS (DELETE FROM t WHERE id = 13 RETURNING id), i AS (INSERT INTO log SELECT 1 / (id - 13), 'x' FROM d) SELECT 1;
SELECT id FROM t WHERE id IN (12, 13) ORDER BY id;
SELECT * FROM t ORDER BY id;
