-- columns: id bigint, ts timestamptz, a integer, s text
-- load: INSERT INTO t VALUES (1, '2025-01-01', 1, 'a'), (2, '2026-01-01', NULL, 'b "q", c'), (3, '2025-02-01', 3, NULL), (4, '2026-02-01', NULL, NULL)
SELECT t FROM t ORDER BY id;
SELECT t.*::text, (t).id, (t.*) IS NULL, t IS NOT NULL FROM t ORDER BY id;
SELECT count(t), count(t.*), count(DISTINCT (a, s)) FROM t;
SELECT row(t.*), row(id, s) = row(1, 'a'), (id, a) < (2, 2) FROM t ORDER BY id;
SELECT to_jsonb(t), row_to_json(t) FROM t ORDER BY id;
SELECT jsonb_agg(t ORDER BY id DESC) FROM t;
SELECT array_agg(t ORDER BY id) FROM t WHERE id < 3;
SELECT x FROM (SELECT id, s FROM t) x ORDER BY id;
SELECT x.t FROM (SELECT t FROM t ORDER BY id LIMIT 1) x;
SELECT t.id, u.s FROM t, LATERAL (SELECT t.*) u ORDER BY 1;
CREATE FUNCTION label(t) RETURNS text LANGUAGE sql AS $$ SELECT $1.id || ':' || coalesce($1.s, '?') $$;
SELECT label(t), t.label FROM t ORDER BY id;
SELECT id FROM t WHERE label(t) LIKE '1:%';
SELECT (jsonb_populate_record(NULL::t, '{"id": 9, "s": "json"}')).*;
INSERT INTO t SELECT (jsonb_populate_record(NULL::t, '{"id": 9, "ts": "2025-12-31", "s": "json"}')).* RETURNING *;
INSERT INTO t SELECT (r).* FROM (SELECT t AS r FROM t WHERE id = 1) q;
UPDATE t SET s = t::text WHERE id = 9 RETURNING t;
DELETE FROM t WHERE t = row(3, '2025-02-01'::timestamptz, 3, NULL)::t;
DELETE FROM t WHERE id = 2 RETURNING t, (t).s;
SELECT DISTINCT t FROM t ORDER BY t;
SELECT t, count(*) FROM t GROUP BY t ORDER BY t;
SELECT id FROM t ORDER BY t.*;
SELECT x.id FROM t x JOIN t y ON x = y ORDER BY 1;
SELECT pg_typeof(id), pg_typeof(ts), pg_typeof(a), pg_typeof(s) FROM t LIMIT 1;
SELECT FROM t WHERE id = 1;
SELECT *, * FROM t ORDER BY id LIMIT 1;
SELECT 1 AS one, t.* FROM t ORDER BY id LIMIT 1;
