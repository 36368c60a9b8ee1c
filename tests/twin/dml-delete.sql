-- columns: id bigint, ts timestamptz, a integer, s text
-- load: INSERT INTO t SELECT i, '2025-10-01'::timestamptz + i * interval '3 days', i % 7, 's' || i % 4 FROM generate_series(1, 60) i
DELETE FROM t WHERE id = 1;
DELETE FROM t WHERE id = 1;
-- unordered
DELETE FROM t WHERE id IN (2, 40, 999) RETURNING id, s;
-- unordered
DELETE FROM t WHERE a = 3 RETURNING *;
DELETE FROM t AS x WHERE x.id = 4 RETURNING x.id + 1 AS n;
DELETE FROM t USING t AS o WHERE o.id = t.id + 1 AND o.a = 0;
DELETE FROM t USING (VALUES (5), (6), (6)) v(k) WHERE t.id = v.k;
-- unordered
DELETE FROM t USING generate_series(50, 52) g WHERE t.id = g RETURNING t.id, g;
DELETE FROM t WHERE id IN (SELECT id + 2 FROM t WHERE a = 1);
DELETE FROM t WHERE EXISTS (SELECT 1 FROM t o WHERE o.id = t.id * 2);
DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM t o WHERE o.s = t.s AND o.id <> t.id);
DELETE FROM t WHERE id = (SELECT max(id) FROM t);
DELETE FROM t WHERE id = ANY (array[31, 32, 33]);
DELETE FROM t WHERE s LIKE 's1' AND ts < '2026-01-01';
DELETE FROM t WHERE ts >= '2026-02-01' AND a % 2 = 1;
DELETE FROM t WHERE false;
DELETE FROM t WHERE a IS NULL;
DELETE FROM t WHERE 10 / (a - 4) > 1;
DELETE FROM t WHERE id = (SELECT id FROM t);
DELETE FROM t WHERE nope = 1;
DELETE FROM t WHERE s;
SELECT * FROM t ORDER BY id;
WITH gone AS (DELETE FROM t WHERE a = 2 RETURNING id) SELECT count(*), min(id) FROM gone;
WITH keep AS MATERIALIZED (SELECT min(id) AS id FROM t GROUP BY s) DELETE FROM t WHERE id NOT IN (SELECT id FROM keep);
SELECT * FROM t ORDER BY id;
DELETE FROM t;
DELETE FROM t;
SELECT count(*) FROM t;
INSERT INTO t VALUES (1, '2025-12-31', 1, 'again'), (2, '2026-01-01', 2, 'again');
DELETE FROM ONLY t WHERE id = 1;
DELETE FROM t RETURNING old.id, new.id;
SELECT * FROM t;
