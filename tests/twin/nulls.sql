-- columns: id bigint, ts timestamptz, a integer, b integer, s text
-- modes: decoupled
-- load: INSERT INTO t VALUES (1,'2025-01-01',1,NULL,'x'),(2,'2026-01-01',NULL,NULL,NULL),(3,'2025-02-01',NULL,3,''),(4,'2026-02-01',4,4,'y'),(5,'2025-03-01',0,0,NULL)
SELECT id, a = b, a <> b, a < b, NOT (a = b), a IS DISTINCT FROM b, a IS NOT DISTINCT FROM b FROM t ORDER BY id;
SELECT id FROM t WHERE a = NULL ORDER BY id;
SELECT id FROM t WHERE a IS NULL AND b IS NOT NULL ORDER BY id;
SELECT id FROM t WHERE a <> 1 ORDER BY id;
SELECT id FROM t WHERE NOT (a = 1) ORDER BY id;
SELECT id FROM t WHERE a NOT IN (1, 2) ORDER BY id;
SELECT id FROM t WHERE a NOT IN (1, NULL) ORDER BY id;
SELECT id FROM t WHERE a IN (1, NULL) ORDER BY id;
SELECT id FROM t WHERE a NOT IN (SELECT b FROM t) ORDER BY id;
SELECT id FROM t WHERE a NOT IN (SELECT b FROM t WHERE b IS NOT NULL) ORDER BY id;
SELECT id FROM t WHERE a = ANY (array[1, NULL]) ORDER BY id;
SELECT id FROM t WHERE a <> ALL (array[1, NULL]) ORDER BY id;
SELECT id FROM t WHERE (a, b) IS NULL ORDER BY id;
SELECT id FROM t WHERE (a, b) IS NOT NULL ORDER BY id;
SELECT id FROM t WHERE (a, b) = (4, 4) ORDER BY id;
SELECT id FROM t WHERE (a, b) < (4, 5) ORDER BY id;
SELECT id FROM t WHERE coalesce(a, b, -1) = -1 ORDER BY id;
SELECT id, coalesce(a, b, 0), nullif(a, b), greatest(a, b), least(a, b), num_nulls(a, b, s), num_nonnulls(a, s) FROM t ORDER BY id;
SELECT id, a + b, a || s, s || 'z', concat(a, s), a BETWEEN 0 AND b, a BETWEEN SYMMETRIC 4 AND 0 FROM t ORDER BY id;
SELECT id, CASE a WHEN NULL THEN 'null' WHEN 1 THEN 'one' ELSE 'other' END, CASE WHEN a IS NULL THEN 'null' END FROM t ORDER BY id;
SELECT count(*), count(a), count(b), count(s), sum(a), avg(b), min(s), max(s), count(DISTINCT a), bool_or(a = b) FROM t;
SELECT sum(a), min(a), max(a), avg(a), count(a), string_agg(s, ','), array_agg(a) FROM t WHERE a IS NULL AND id = 2;
SELECT a, count(*) FROM t GROUP BY a ORDER BY a;
SELECT DISTINCT b FROM t ORDER BY b NULLS FIRST;
SELECT x.id, y.id FROM t x LEFT JOIN t y ON x.a = y.b ORDER BY 1, 2;
SELECT id FROM t WHERE s = '' OR s IS NULL ORDER BY id;
SELECT id FROM t WHERE length(s) IS NULL ORDER BY id;
UPDATE t SET a = NULL WHERE a = 0 RETURNING id, a;
UPDATE t SET s = coalesce(s, 'none'), b = nullif(b, 4);
DELETE FROM t WHERE a IS NULL AND b IS NULL;
DELETE FROM t WHERE a = NULL;
INSERT INTO t VALUES (6, '2025-04-01', NULL, NULL, NULL), (7, NULL, NULL, NULL, NULL);
SELECT * FROM t ORDER BY id;
