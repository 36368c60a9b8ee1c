-- columns: id bigint, ts timestamptz, n integer, s text, x double precision
-- load: INSERT INTO t SELECT i, '2025-01-01'::timestamptz + i * interval '20 days', nullif(i * 7 % 5, 2), nullif(chr(97 + i * 3 % 7), 'd'), nullif(i % 4, 1) / 2.0 FROM generate_series(0, 29) i
SELECT id, n FROM t ORDER BY n, id LIMIT 5;
SELECT id, n FROM t ORDER BY n DESC, id LIMIT 8;
SELECT id, n FROM t ORDER BY n DESC NULLS LAST, id DESC LIMIT 8;
SELECT id, n FROM t ORDER BY n NULLS FIRST, id LIMIT 8;
SELECT id, s FROM t ORDER BY s DESC, n DESC, id OFFSET 3 LIMIT 7;
SELECT id, x FROM t ORDER BY x DESC, id FETCH FIRST 9 ROWS ONLY;
SELECT n FROM t ORDER BY n DESC FETCH FIRST 2 ROWS WITH TIES;
SELECT id FROM t ORDER BY n % 3 DESC, -id LIMIT 6;
SELECT id, n AS k FROM t ORDER BY k DESC, 1 LIMIT 6;
SELECT id FROM t ORDER BY (n IS NULL), n USING >, id LIMIT 6;
SELECT id, s, rank() OVER (ORDER BY s DESC), row_number() OVER (ORDER BY n DESC, id) FROM t ORDER BY id LIMIT 10;
SELECT id, first_value(n) OVER w, last_value(n) OVER w FROM t WINDOW w AS (PARTITION BY s ORDER BY n DESC, id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) ORDER BY id;
SELECT array_agg(n ORDER BY n DESC, id), array_agg(s ORDER BY s DESC, id), string_agg(s, '' ORDER BY n DESC, id) FROM t;
SELECT s, array_agg(id ORDER BY n DESC NULLS LAST, id) FROM t GROUP BY s ORDER BY s DESC;
SELECT DISTINCT ON (s) s, n, id FROM t ORDER BY s DESC, n DESC, id;
SELECT n, count(*) FROM t GROUP BY n ORDER BY count(*) DESC, n DESC;
SELECT * FROM (SELECT id, n FROM t ORDER BY n DESC, id LIMIT 4) q ORDER BY id;
SELECT id FROM t WHERE n IN (SELECT n FROM t ORDER BY n DESC NULLS LAST LIMIT 1) ORDER BY id;
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY n), mode() WITHIN GROUP (ORDER BY s), percentile_cont(0.25) WITHIN GROUP (ORDER BY x) FROM t;
UPDATE t SET n = NULL WHERE id IN (SELECT id FROM t ORDER BY n DESC NULLS LAST, id LIMIT 2);
DELETE FROM t WHERE id = (SELECT id FROM t ORDER BY s DESC NULLS LAST, id DESC LIMIT 1);
SELECT id, n, s FROM t ORDER BY n DESC, s DESC, id;
