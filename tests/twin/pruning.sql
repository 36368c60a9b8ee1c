-- columns: id bigint, ts timestamptz, a integer, s text, b numeric(38,0), x double precision, d date
-- load: INSERT INTO t SELECT i, '2025-10-01'::timestamptz + i * interval '1 day', i, 'a long common prefix ' || lpad(i::text, 4, '0'), i * 10::numeric ^ 30, i, date '2025-01-01' + i FROM generate_series(1, 50) i
-- load: INSERT INTO t SELECT i, '2026-01-01'::timestamptz + i * interval '1 day', NULL, NULL, NULL, NULL, NULL FROM generate_series(51, 60) i
-- load: INSERT INTO t SELECT i, '2026-03-01'::timestamptz + i * interval '1 day', -i, 'zz' || chr(55203) || repeat('z', 20) || i, -i, 'NaN', '1900-01-01' FROM generate_series(61, 70) i
-- load: INSERT INTO t VALUES (71, '2026-06-01', 2147483647, '', 99999999999999999999999999999999999999, 'Infinity', '9999-12-31'), (72, '2026-06-02', -2147483648, repeat('ÿ', 40), 0, '-Infinity', '0001-01-01')
SELECT count(*) FROM t WHERE a IS NULL;
SELECT count(*) FROM t WHERE a IS NOT NULL;
SELECT id FROM t WHERE id % 8 = 2 ORDER BY id;
SELECT count(*) FROM t WHERE a > 2000000000;
SELECT count(*) FROM t WHERE a < -2000000000;
SELECT count(*) FROM t WHERE a BETWEEN 10 AND 12 OR a IS NULL;
SELECT id FROM t WHERE s = 'a long common prefix 0042';
SELECT count(*) FROM t WHERE s > 'a long common prefix 0042' AND s < 'b';
SELECT count(*) FROM t WHERE s >= 'zz';
SELECT count(*) FROM t WHERE s LIKE 'a long common prefix 00%';
SELECT count(*) FROM t WHERE s LIKE 'zz%';
SELECT id FROM t WHERE s = '' OR s > repeat('ÿ', 39) ORDER BY id;
SELECT id FROM t WHERE b = 42 * 10::numeric ^ 30 ORDER BY id;
SELECT count(*) FROM t WHERE b > 10::numeric ^ 31;
SELECT count(*) FROM t WHERE b < 0;
SELECT id FROM t WHERE b = 99999999999999999999999999999999999999;
SELECT count(*) FROM t WHERE x = 'NaN';
SELECT count(*) FROM t WHERE x > 49;
SELECT count(*) FROM t WHERE x < 2;
SELECT count(*) FROM t WHERE NOT (x <= 49);
SELECT count(*) FROM t WHERE d < '1950-01-01';
SELECT count(*) FROM t WHERE d >= '9999-12-31';
SELECT min(a), max(a), min(s), max(b), min(x), max(x), min(d), max(d) FROM t;
SELECT count(*) FROM t WHERE ts >= '2025-11-01' AND ts < '2025-12-01';
SELECT count(*) FROM t WHERE date_trunc('month', ts) = '2025-11-01';
SELECT count(*) FROM t WHERE ts::date = '2025-11-05';
SELECT count(*) FROM t WHERE extract(year FROM ts) = 2026;
SELECT count(*) FROM t WHERE id < 71 AND (a + 1 = 5 OR -a = 65 OR abs(a) = 66);
SELECT count(*) FROM t WHERE a IN (1, 50, -61, 2147483647);
SELECT count(*) FROM t WHERE a <> 5;
SELECT count(*) FROM t WHERE a IS DISTINCT FROM 5;
DELETE FROM t WHERE a IS NULL AND id < 55;
DELETE FROM t WHERE s LIKE 'zz%' AND b < -65;
UPDATE t SET a = NULL WHERE s = 'a long common prefix 0007';
SELECT count(*), count(a), sum(id) FROM t;
SELECT id FROM t WHERE a IS NULL ORDER BY id;
