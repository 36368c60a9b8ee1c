-- columns: id bigint, ts timestamptz, a integer, s text
-- load: INSERT INTO t SELECT i, '2025-12-15'::timestamptz + i * interval '1 day', nullif(i % 6, 5), 's' || i % 4 FROM generate_series(1, 30) i
SELECT id FROM t WHERE a = (SELECT max(a) FROM t) ORDER BY id;
SELECT id, (SELECT count(*) FROM t u WHERE u.a = t.a), (SELECT max(u.id) FROM t u WHERE u.id < t.id) FROM t WHERE id < 8 ORDER BY id;
SELECT id FROM t o WHERE EXISTS (SELECT FROM t i WHERE i.a = o.a AND i.id > o.id + 20) ORDER BY id;
SELECT id FROM t o WHERE NOT EXISTS (SELECT FROM t i WHERE i.a = o.a AND i.id > o.id) ORDER BY id;
SELECT id FROM t WHERE a IN (SELECT a FROM t WHERE s = 's1') AND id < 10 ORDER BY id;
SELECT id FROM t WHERE a NOT IN (SELECT a FROM t WHERE s = 's1' AND a IS NOT NULL) ORDER BY id;
SELECT id FROM t WHERE (a, s) IN (SELECT a, s FROM t WHERE id < 3) ORDER BY id;
SELECT id FROM t WHERE a > ALL (SELECT a FROM t WHERE id < 4) ORDER BY id;
SELECT id FROM t WHERE a < ANY (SELECT a FROM t WHERE id = 2) ORDER BY id;
SELECT id FROM t WHERE a = SOME (array(SELECT id::int FROM t WHERE id < 3)) ORDER BY id;
SELECT array(SELECT id FROM t WHERE a = 3 ORDER BY id), (SELECT string_agg(s, ',' ORDER BY id) FROM t WHERE id < 4);
SELECT (SELECT id FROM t WHERE id = -1), (SELECT s FROM t WHERE id = 4);
SELECT (SELECT id FROM t WHERE a = 1);
SELECT (SELECT id, s FROM t WHERE id = 1);
SELECT q.a, q.n FROM (SELECT a, count(*) AS n FROM t GROUP BY a) q WHERE q.n > 4 ORDER BY q.a;
SELECT id, CASE WHEN EXISTS (SELECT 1 FROM t u WHERE u.id = t.id * 2) THEN 'yes' ELSE 'no' END FROM t WHERE id > 13 AND id < 18 ORDER BY id;
SELECT s, (SELECT id FROM t u WHERE u.s = t.s ORDER BY id DESC LIMIT 1) FROM t GROUP BY s ORDER BY s;
SELECT id FROM t WHERE id = (SELECT min(id) FROM t WHERE a = (SELECT max(a) FROM t WHERE s = (SELECT min(s) FROM t)));
SELECT id FROM t WHERE a = (SELECT 1 / 0) ORDER BY id;
SELECT count(*) FROM t WHERE id > (SELECT avg(id) FROM t) AND ts > (SELECT min(ts) + interval '5 days' FROM t);
SELECT l.id, l.d FROM t, LATERAL (SELECT t.id, t.ts - (SELECT min(ts) FROM t) AS d) l WHERE t.id IN (1, 9) ORDER BY 1;
SELECT id FROM (SELECT * FROM t WHERE a = 2 OFFSET 0) q WHERE id > 10 ORDER BY id;
SELECT x FROM (SELECT id AS x FROM t UNION SELECT a FROM t) q WHERE x < 4 ORDER BY x;
SELECT EXISTS (SELECT 1 FROM t WHERE id = 5), 5 IN (SELECT id FROM t), 500 IN (SELECT id FROM t), 5 IN (SELECT a FROM t);
SELECT id FROM t t1 WHERE (SELECT count(*) FROM t t2 WHERE t2.s = t1.s AND t2.id <= t1.id) = 2 ORDER BY id;
