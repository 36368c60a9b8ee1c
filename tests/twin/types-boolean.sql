-- columns: id bigint, ts timestamptz, f boolean, g boolean
-- load: INSERT INTO t SELECT i, '2025-01-01'::timestamptz + i * interval '2 months', CASE i % 3 WHEN 0 THEN true WHEN 1 THEN false END, CASE i / 3 WHEN 0 THEN true WHEN 1 THEN false END FROM generate_series(0, 8) i
SELECT id, f, g, f AND g, f OR g, NOT f, f = g, f <> g FROM t ORDER BY id;
SELECT id, f IS TRUE, f IS NOT TRUE, f IS FALSE, f IS NOT FALSE, f IS UNKNOWN, f IS NOT UNKNOWN, f IS NULL FROM t ORDER BY id;
SELECT id FROM t WHERE f ORDER BY id;
SELECT id FROM t WHERE NOT f ORDER BY id;
SELECT id FROM t WHERE f = true AND g IS NOT FALSE ORDER BY id;
SELECT id FROM t WHERE f OR g ORDER BY id;
SELECT id FROM t WHERE (f AND g) IS NULL ORDER BY id;
SELECT id FROM t WHERE f IS DISTINCT FROM g ORDER BY id;
SELECT id FROM t ORDER BY f, g DESC, id;
SELECT f, count(*), bool_and(g), bool_or(g), every(g) FROM t GROUP BY f ORDER BY f;
SELECT id, f::int, f::text, f > g, f::int + 1 FROM t ORDER BY id;
SELECT max(f::int), count(*) FILTER (WHERE f), count(f), sum(CASE WHEN f THEN 1 ELSE 0 END) FROM t;
SELECT max(f) FROM t;
INSERT INTO t VALUES (10, '2025-01-01', 'yes', 'off'), (11, '2026-01-01', '1', 'f'), (12, '2026-01-01', 't', NULL);
INSERT INTO t VALUES (13, '2025-01-01', 'maybe', 'off');
INSERT INTO t VALUES (13, '2025-01-01', 1, 0);
UPDATE t SET f = NOT f, g = (id > 5) WHERE id < 7;
-- unordered
UPDATE t SET f = (v.x = 1) FROM (VALUES (7, 1), (8, 2)) v(id, x) WHERE v.id = t.id RETURNING t.id, f;
SELECT * FROM t ORDER BY id;
DELETE FROM t WHERE f;
SELECT * FROM t ORDER BY id;
