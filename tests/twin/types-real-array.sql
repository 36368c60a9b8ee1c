-- columns: id bigint, ts timestamptz, a real[]
-- load: INSERT INTO t VALUES (1,'2025-01-01','{1,2.5,-3}'),(2,'2026-01-01','{}'),(3,'2025-02-01',NULL),(4,'2026-02-01','{NULL,1}'),(5,'2025-03-01','{NaN,Infinity,-0}'),(6,'2026-03-01',array_fill(0.25::real, array[1536]))
SELECT id, a FROM t WHERE id < 6 ORDER BY id;
SELECT id, a[1], a[2], a[99], a[2:3], array_length(a, 1), cardinality(a), array_ndims(a) FROM t WHERE id < 6 ORDER BY id;
SELECT array_length(a, 1), a[1536] FROM t WHERE id = 6;
SELECT id FROM t WHERE a @> '{1}' ORDER BY id;
SELECT id FROM t WHERE a <@ '{1,2.5,-3,7}' ORDER BY id;
SELECT id FROM t WHERE a && '{2.5,0.25}' ORDER BY id;
SELECT id FROM t WHERE a = '{1,2.5,-3}' ORDER BY id;
SELECT id FROM t WHERE 1 = ANY (a) ORDER BY id;
SELECT id FROM t WHERE 0.5 > ALL (a) ORDER BY id;
SELECT id FROM t WHERE a IS NULL OR a = '{}' ORDER BY id;
SELECT id, a || 9::real, array_prepend(0::real, a), array_position(a, 1), array_remove(a, NULL), array_to_string(a, ',', 'n') FROM t WHERE id < 6 ORDER BY id;
SELECT t.id, u.x, u.n FROM t, unnest(t.a) WITH ORDINALITY u(x, n) WHERE id < 6 ORDER BY 1, 3;
SELECT id FROM t WHERE id < 6 ORDER BY a, id;
SELECT a, count(*) FROM t WHERE id < 6 GROUP BY a ORDER BY a;
SELECT id, a::text, a::float8[], a::text::real[] = a FROM t WHERE id < 6 ORDER BY id;
-- unordered
INSERT INTO t VALUES (7, '2025-04-01', array[1, NULL, 3]::real[]), (8, '2026-04-01', '{"1e10", 0.1}') RETURNING *;
INSERT INTO t VALUES (9, '2025-04-01', '{1,x}');
-- refuse-ok: 0A000 22003 22023 2202E
INSERT INTO t VALUES (9, '2025-04-01', '{{1,2},{3,4}}');
-- refuse-ok: 0A000 22003 22023 2202E
INSERT INTO t VALUES (10, '2025-04-01', '[0:1]={1,2}');
SELECT id, a, array_dims(a) FROM t WHERE id > 6 ORDER BY id;
UPDATE t SET a = a || 5::real WHERE id = 1 RETURNING a;
UPDATE t SET a[2] = 7 WHERE id = 1;
SELECT id, a FROM t WHERE id < 6 ORDER BY id;
DELETE FROM t WHERE a @> '{NaN}';
SELECT count(*) FROM t;
