-- columns: id bigint, ts timestamptz, a integer, s text, d numeric(12,3)
-- load: INSERT INTO t SELECT i, '2025-06-01'::timestamptz + i * interval '12 minutes', i % 97, md5(i::text), i * 0.125 FROM generate_series(1, 30000) i
SELECT count(*), sum(a), sum(d), min(s), max(s), min(ts), max(ts) FROM t;
SELECT count(*), sum(length(s)), md5(string_agg(s, '' ORDER BY id)) FROM t;
SELECT a, count(*), sum(d) FROM t GROUP BY a ORDER BY a LIMIT 5;
SELECT id, s FROM t WHERE s < '0008' ORDER BY s;
SELECT count(*) FROM t WHERE ts >= '2026-01-01' AND a < 10;
SELECT id, a FROM t ORDER BY s LIMIT 5 OFFSET 1000;
UPDATE t SET a = a + 100 WHERE id % 2 = 0;
SELECT count(*), sum(a) FROM t;
DELETE FROM t WHERE id % 3 = 0;
SELECT count(*), sum(a), sum(id) FROM t;
INSERT INTO t SELECT id + 100000, ts, a, s, d FROM t WHERE id % 5 = 0;
UPDATE t SET s = upper(s), d = d * 2 WHERE id > 100000;
SELECT count(*), sum(d), md5(string_agg(s, '' ORDER BY id)) FROM t;
SELECT count(*) FROM t x JOIN t y ON y.id = x.id + 100000;
DELETE FROM t WHERE id IN (SELECT id FROM t WHERE a BETWEEN 100 AND 150);
SELECT count(*), sum(a), sum(id), sum(d) FROM t;
INSERT INTO t SELECT i, '2025-12-31', 1, repeat('x', 2000), 1 FROM generate_series(200001, 202000) i;
SELECT count(*), sum(length(s)) FROM t WHERE id > 200000;
SELECT sum(n) FROM (SELECT 1000 / (id - 30001) AS n FROM t WHERE id < 200000) q;
SELECT count(*) FROM t WHERE 1 / (id - 200000) >= 0;
