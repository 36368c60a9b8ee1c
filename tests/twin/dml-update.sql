-- columns: id bigint, ts timestamptz, a integer, b integer, s text, d numeric(10,2)
-- load: INSERT INTO t SELECT i, '2025-11-01'::timestamptz + i * interval '5 days', i, i % 5, 's' || i, i * 1.1 FROM generate_series(1, 25) i
UPDATE t SET a = 0 WHERE id = 1;
UPDATE t SET a = a + 1, b = a, s = s || a WHERE id BETWEEN 10 AND 14;
UPDATE t SET (b, a) = (a, b) WHERE id = 2;
UPDATE t SET (a, s) = (SELECT max(id)::int, 'sub' FROM t) WHERE id = 3;
UPDATE t SET (a, s) = ROW(DEFAULT, 'x') WHERE id = 4;
UPDATE t SET s = DEFAULT WHERE id = 5;
UPDATE t SET a = NULL, s = NULL WHERE id = 6 RETURNING *;
-- unordered
UPDATE t SET d = d * 2 WHERE b = 0 RETURNING id, d, d / 2 AS half, s AS "the s";
UPDATE t SET a = x.a FROM (SELECT id, a * 10 AS a FROM t WHERE id < 9) x WHERE t.id = x.id + 10;
UPDATE t AS q SET s = 'alias' WHERE q.id = 7 RETURNING q.id, q.s;
UPDATE t SET b = (SELECT count(*) FROM t u WHERE u.b = t.b) WHERE id > 20;
UPDATE t SET s = h.w FROM (VALUES (8, 'eight'), (9, 'nine'), (99, 'none')) h(k, w) WHERE t.id = h.k;
UPDATE t SET a = o.a FROM t o WHERE o.id = t.id - 1 AND t.id IN (15, 16);
-- unordered
UPDATE t SET a = v.n FROM generate_series(1, 3) v(n) WHERE t.id = v.n * 7 RETURNING t.id, v.n, t.a;
UPDATE t SET s = 'in' WHERE id IN (SELECT id FROM t WHERE a > 100);
UPDATE t SET s = 'exists' WHERE EXISTS (SELECT 1 FROM t u WHERE u.id = t.id + 1 AND u.b = 0);
UPDATE t SET d = d WHERE id = 1;
UPDATE t SET d = 1 WHERE false;
UPDATE t SET d = 1 WHERE NULL;
UPDATE t SET id = id + 1000 WHERE id > 23;
UPDATE t SET ts = ts + interval '10 days' WHERE id IN (11, 12, 13);
-- unordered
UPDATE t SET ts = ts + interval '60 days', s = 'moved' WHERE id IN (1, 10, 14) RETURNING id, ts;
UPDATE t SET a = b, b = a;
UPDATE t SET a = a + 1 RETURNING count(*);
UPDATE t SET a = 1 / (id - 12);
UPDATE t SET d = d * 1e8;
UPDATE t SET a = s::int WHERE id = 8;
UPDATE t SET nope = 1;
UPDATE t SET a = 1, a = 2;
UPDATE t SET t.a = 1;
UPDATE t SET a = 'x';
SELECT * FROM t ORDER BY id;
UPDATE t SET s = upper(old.s) FROM t old WHERE old.id = t.id AND t.id < 10;
UPDATE t SET a = a + 1 WHERE id = 8 RETURNING old.a, new.a, old.s = new.s AS same;
WITH big AS (SELECT id FROM t WHERE d > 20) UPDATE t SET s = 'cte' FROM big WHERE big.id = t.id;
WITH m AS MATERIALIZED (SELECT id, max(a) OVER () AS top FROM t) UPDATE t SET a = m.top FROM m WHERE m.id = t.id AND t.id % 2 = 0;
UPDATE t SET a = (SELECT a FROM t WHERE id < 5) WHERE id = 9;
UPDATE t SET b = 7 WHERE ts >= '2026-01-01' AND ts < '2026-02-01';
UPDATE t SET b = 8 WHERE ts < '2026-01-05' AND id % 3 = 0;
SELECT * FROM t ORDER BY id;
UPDATE t SET s = 'all', a = id;
SELECT count(*), sum(a), count(DISTINCT s) FROM t;
