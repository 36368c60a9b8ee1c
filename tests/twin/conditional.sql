-- columns: id bigint, ts timestamptz, a integer, b integer, s text, d numeric(10,2)
-- load: INSERT INTO t SELECT i, '2025-03-01'::timestamptz + i * interval '40 days', i % 4, nullif(i % 3, 0), CASE WHEN i % 5 > 0 THEN 's' || i END, i * 1.25 FROM generate_series(0, 14) i
SELECT id, CASE WHEN a > 2 THEN 'big' WHEN a = 0 THEN 'zero' ELSE 'some' END, CASE a WHEN 1 THEN 1.5 WHEN 2 THEN 2 END FROM t ORDER BY id;
SELECT id, CASE WHEN a = 0 THEN 0 ELSE 12 / a END FROM t ORDER BY id;
SELECT id FROM t WHERE CASE WHEN a = 0 THEN false ELSE 12 / a > 5 END ORDER BY id;
SELECT id FROM t WHERE a <> 0 AND 12 / nullif(a, 0) = 6 ORDER BY id;
SELECT id, coalesce(b, a, 9), coalesce(s, '-'), coalesce(NULL, d, 0), nullif(a, 1), nullif(s, 's1') FROM t ORDER BY id;
SELECT id, greatest(a, b), least(a, b, 1), greatest(s, 's3'), least(d, 3) FROM t ORDER BY id;
SELECT CASE WHEN a > 1 THEN 'hi' ELSE 'lo' END AS k, count(*), sum(d) FROM t GROUP BY k ORDER BY k;
SELECT sum(CASE WHEN b IS NULL THEN d END), count(CASE WHEN a > 1 THEN 1 END), sum((a > 1)::int) FROM t;
SELECT id, CASE WHEN s IS NULL THEN 1 ELSE length(s) END FROM t ORDER BY CASE WHEN b IS NULL THEN 0 ELSE 1 END, id DESC;
SELECT id FROM t WHERE a BETWEEN 1 AND 2 AND b NOT BETWEEN 2 AND 3 ORDER BY id;
SELECT id FROM t WHERE (a, b) IN ((1, 1), (2, 2), (0, NULL)) ORDER BY id;
SELECT id FROM t WHERE (a > 1 OR b = 1) AND NOT (s = 's4') ORDER BY id;
SELECT id FROM t WHERE (a, b) > (1, 1) ORDER BY id;
SELECT id FROM t WHERE ROW(a, s) IS DISTINCT FROM ROW(1, 's1') ORDER BY id;
SELECT id FROM t WHERE true ORDER BY id LIMIT 1;
SELECT id FROM t WHERE false;
SELECT id FROM t WHERE NULL;
SELECT id FROM t WHERE 1 = 1 AND id = 3;
SELECT id FROM t WHERE id = 3 AND id = 4;
SELECT id FROM t WHERE a;
SELECT id, (a > 1 AND b > 0), (a > 1 OR b > 0), (a > 1) IS TRUE, a::bool AND NOT b::bool FROM t ORDER BY id;
SELECT id, CASE WHEN id < 100 THEN 1 ELSE 1 / 0 END FROM t WHERE id < 3 ORDER BY id;
-- unordered
UPDATE t SET s = CASE WHEN a = 0 THEN 'none' WHEN b IS NULL THEN NULL ELSE upper(s) END RETURNING id;
UPDATE t SET d = CASE id WHEN 1 THEN 10 WHEN 2 THEN 20 ELSE d END WHERE id < 4;
DELETE FROM t WHERE CASE WHEN a = 0 THEN false ELSE 12 / a = 12 END;
SELECT * FROM t ORDER BY id;
