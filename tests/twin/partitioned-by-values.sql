-- columns: id bigint, ts timestamptz, region text, n integer, d date, u uuid
-- partition: region, bucket(4, id), d
-- load: INSERT INTO t SELECT i, '2025-12-01'::timestamptz + i * interval '1 day', (array['eu', 'us', 'a/b', '..', NULL])[1 + i % 5], i, date '2025-12-30' + i % 3, '00000000-0000-0000-0000-000000000001' FROM generate_series(1, 40) i
SELECT region, d, count(*), sum(n) FROM t GROUP BY region, d ORDER BY region, d;
SELECT id FROM t WHERE region = 'eu' AND d = '2025-12-31' ORDER BY id;
SELECT id FROM t WHERE region IS NULL ORDER BY id;
SELECT id FROM t WHERE region <> 'us' AND id IN (1, 2, 3, 4, 5, 6) ORDER BY id;
SELECT count(*) FROM t WHERE region IN ('a/b', '..') AND d > '2025-12-30';
-- unordered
UPDATE t SET region = 'moved', d = d + 1 WHERE region = 'a/b' RETURNING id;
UPDATE t SET n = n + 1 WHERE region IS NULL;
DELETE FROM t WHERE region = '..' AND d = '2025-12-30';
-- some object stores refuse the path segment of an empty partition value
-- refuse-ok: 42501
INSERT INTO t VALUES (100, '2025-12-31', '', 1, NULL, NULL), (101, '2025-12-31', ' ', 1, '2026-01-01', NULL), (102, '2025-12-31', repeat('long', 50), 1, '0044-03-15 BC', NULL);
SELECT id, left(region, 8), d FROM t WHERE id >= 100 ORDER BY id;
SELECT id FROM t WHERE region = '' OR d < '0001-01-01' ORDER BY id;
DELETE FROM t WHERE region = '';
SELECT * FROM t ORDER BY id;
