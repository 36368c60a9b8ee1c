-- columns: id bigint, ts timestamptz, a integer, s text, d numeric(10,2)
-- load: INSERT INTO t SELECT i, '2025-12-01'::timestamptz + i * interval '1 day', i % 3, nullif('k' || i % 2, 'k1'), i * 1.5 FROM generate_series(1, 60) i
SELECT a, s, count(*), sum(d) FROM t GROUP BY GROUPING SETS ((a, s), (a), ()) ORDER BY a, s, count(*);
SELECT a, s, sum(d), grouping(a, s) FROM t GROUP BY ROLLUP (a, s) ORDER BY grouping(a, s), a, s;
SELECT a, s, count(*), grouping(a), grouping(s) FROM t GROUP BY CUBE (a, s) ORDER BY 4, 5, 1, 2;
SELECT a, s, count(*) FROM t GROUP BY a, ROLLUP (s) ORDER BY a, s, 3;
SELECT a, count(*) FROM t GROUP BY GROUPING SETS (a, a) ORDER BY a;
SELECT a, s, sum(d) FROM t GROUP BY GROUPING SETS ((a), (s)) HAVING sum(d) > 900 ORDER BY a, s;
SELECT date_trunc('month', ts) m, a, count(*) FROM t GROUP BY ROLLUP (date_trunc('month', ts), a) ORDER BY m, a;
SELECT count(*) FROM t WHERE false GROUP BY GROUPING SETS ((), (a));
SELECT coalesce(s, 'all'), avg(d) FILTER (WHERE a > 0) FROM t GROUP BY ROLLUP (s) ORDER BY grouping(s), s;
SELECT DISTINCT grouping(a) FROM t GROUP BY ROLLUP (a) ORDER BY 1;
