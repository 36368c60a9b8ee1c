-- columns: id bigint, ts timestamptz, a integer, d numeric(10,2), s text
-- load: INSERT INTO t SELECT i, '2025-12-15'::timestamptz + i * interval '17 hours', i % 4, nullif(i * 7 % 11, 3) * 1.1, 's' || i % 3 FROM generate_series(1, 40) i
SELECT id, row_number() OVER (ORDER BY id DESC) FROM t ORDER BY id LIMIT 5;
SELECT id, rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, cume_dist() OVER w, ntile(3) OVER w FROM t WINDOW w AS (PARTITION BY a ORDER BY s, d) ORDER BY id;
SELECT id, lag(d) OVER w, lead(d, 2, -1) OVER w, first_value(d) OVER w, last_value(d) OVER w, nth_value(d, 2) OVER w FROM t WINDOW w AS (PARTITION BY a ORDER BY id) ORDER BY id;
SELECT id, sum(d) OVER (ORDER BY id), avg(d) OVER (ORDER BY id ROWS 2 PRECEDING), count(*) OVER (PARTITION BY s), max(d) OVER (PARTITION BY a ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING) FROM t ORDER BY id;
SELECT id, sum(a) OVER (ORDER BY id RANGE BETWEEN 3 PRECEDING AND CURRENT ROW), count(*) OVER (ORDER BY ts RANGE BETWEEN '1 day' PRECEDING AND '1 day' FOLLOWING), sum(a) OVER (ORDER BY a GROUPS 1 PRECEDING) FROM t ORDER BY id;
SELECT id, sum(a) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) FROM t ORDER BY id;
SELECT * FROM (SELECT id, a, row_number() OVER (PARTITION BY a ORDER BY d DESC, id) AS rn FROM t) q WHERE rn <= 2 ORDER BY a, rn;
SELECT a, sum(d), sum(sum(d)) OVER (ORDER BY a), rank() OVER (ORDER BY sum(d) DESC) FROM t GROUP BY a ORDER BY a;
SELECT id, count(*) FILTER (WHERE a > 1) OVER (ORDER BY id), string_agg(s, '') OVER (PARTITION BY a ORDER BY id ROWS 1 PRECEDING) FROM t ORDER BY id LIMIT 10;
SELECT DISTINCT a, count(*) OVER (PARTITION BY a) FROM t ORDER BY a;
SELECT id, d - lag(d) OVER (ORDER BY ts), ts - lag(ts) OVER (ORDER BY ts) FROM t ORDER BY id LIMIT 6;
SELECT id, ntile(0) OVER (ORDER BY id) FROM t;
SELECT id FROM t WHERE row_number() OVER () = 1;
DELETE FROM t WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY s ORDER BY id) AS n FROM t) q WHERE n > 4);
SELECT id, s, row_number() OVER (PARTITION BY s ORDER BY id) FROM t ORDER BY id;
