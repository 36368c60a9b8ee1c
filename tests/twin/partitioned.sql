-- columns: id bigint, ts timestamptz, p timestamp, a integer, s text, d date
-- partition: month(p), truncate(2, s)
-- load: INSERT INTO t SELECT i, '2025-06-01'::timestamptz + i * interval '5 days', '2025-06-01'::timestamp + i * interval '5 days', i % 4, substr('abcdef', 1 + i % 3, 3) || i, date '2025-06-01' + i FROM generate_series(1, 60) i
SELECT count(*), min(p), max(p), count(DISTINCT s) FROM t;
SELECT id, p, s FROM t WHERE p >= '2025-12-25' AND p < '2026-01-10' ORDER BY id;
SELECT date_trunc('month', p), count(*) FROM t GROUP BY 1 ORDER BY 1;
SELECT id FROM t WHERE p = '2025-06-06' OR s LIKE 'bc1%' ORDER BY id;
INSERT INTO t VALUES (100, '2025-12-31', NULL, 1, NULL, NULL), (101, '2025-12-31', '1969-12-31 23:59:59', 1, 'x', NULL), (102, '2025-12-31', '0044-03-15 BC', 1, 'Ü/=%20', NULL), (103, '2025-12-31', '9999-12-31 23:59:59.999999', 1, 'a b', NULL);
SELECT id, p, s FROM t WHERE id >= 100 ORDER BY id;
SELECT id FROM t WHERE p IS NULL OR s IS NULL;
SELECT id FROM t WHERE p < '1970-01-01' ORDER BY id;
-- unordered
UPDATE t SET p = p + interval '1 month' WHERE id < 5 RETURNING id, p;
UPDATE t SET p = NULL WHERE id = 6;
UPDATE t SET p = '2026-06-01', s = 'zz' WHERE id = 100;
UPDATE t SET s = upper(s) WHERE a = 2;
DELETE FROM t WHERE p >= '2025-09-01' AND p < '2025-10-01';
DELETE FROM t WHERE s LIKE 'ab%';
DELETE FROM t WHERE p IS NULL RETURNING id;
INSERT INTO t SELECT id + 1000, ts, p + interval '1 year', a, s, d FROM t WHERE id < 30;
SELECT id, p, s FROM t WHERE s = 'Ü/=%20' OR s = 'a b' ORDER BY id;
SELECT * FROM t ORDER BY id;
