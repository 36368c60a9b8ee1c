-- columns: id bigint, ts timestamptz, a integer, s text
-- load: INSERT INTO t SELECT i, '2025-12-15'::timestamptz + i * interval '1 day', nullif(i % 5, 4), 's' || i FROM generate_series(1, 30) i
CREATE TABLE h (k integer, name text);
INSERT INTO h VALUES (0, 'zero'), (1, 'one'), (2, 'two'), (2, 'deux'), (9, 'nine'), (NULL, 'null');
SELECT t.id, h.name FROM t JOIN h ON h.k = t.a WHERE t.id < 8 ORDER BY 1, 2;
SELECT t.id, h.name FROM t LEFT JOIN h ON h.k = t.a WHERE t.id < 6 ORDER BY 1, 2;
SELECT t.id, h.name FROM t RIGHT JOIN h ON h.k = t.a AND t.id < 4 ORDER BY 2, 1;
SELECT count(*), count(t.id), count(h.k) FROM t FULL JOIN h ON h.k = t.a;
SELECT count(*) FROM t CROSS JOIN h;
SELECT count(*) FROM t, h WHERE t.id > h.k;
SELECT x.id, y.id FROM t x JOIN t y ON y.id = x.id * 2 AND y.a = 2 ORDER BY 1;
SELECT x.id FROM t x JOIN t y USING (id) JOIN t z USING (id) WHERE z.a = 1 ORDER BY 1;
SELECT count(*) FROM t NATURAL JOIN (SELECT id, s FROM t WHERE id < 10) q;
SELECT h.name, l.id FROM h, LATERAL (SELECT id FROM t WHERE t.a = h.k ORDER BY id DESC LIMIT 2) l ORDER BY 1, 2;
SELECT h.name, l.n FROM h LEFT JOIN LATERAL (SELECT count(*) AS n FROM t WHERE t.a = h.k) l ON true ORDER BY 1;
SELECT t.id, g FROM t, generate_series(1, t.a) g WHERE t.id < 5 ORDER BY 1, 2;
SELECT h.name, count(t.id), max(t.s) FROM h LEFT JOIN t ON t.a = h.k GROUP BY h.name ORDER BY 1;
SELECT t.id FROM t LEFT JOIN h ON h.k = t.a WHERE h.k IS NULL ORDER BY t.id LIMIT 8;
SELECT t.id, v.x FROM t JOIN (VALUES (3, 'c'), (4, 'd')) v(i, x) ON v.i = t.id ORDER BY 1;
SELECT a.id, b.id, h.name FROM t a JOIN t b ON a.a = b.a AND a.id < b.id JOIN h ON h.k = b.a WHERE a.id < 3 AND b.id < 12 ORDER BY 1, 2, 3;
SELECT (SELECT count(*) FROM h WHERE h.k = t.a), count(*) FROM t GROUP BY 1 ORDER BY 1;
SELECT t.* FROM t JOIN h ON h.k = t.a AND h.name LIKE '%e' WHERE t.ts BETWEEN '2025-12-30' AND '2026-01-03' ORDER BY t.id;
SELECT id, s, name FROM t, h WHERE s = 's1' AND name = 'one';
SELECT x.s || y.s FROM t x, t y WHERE x.id = 1 AND y.id = 30;
SELECT ambiguous.id FROM t ambiguous, t WHERE id = 1;
SELECT h.name FROM h WHERE h.k IN (SELECT a FROM t) ORDER BY 1;
SELECT t.id FROM t WHERE t.a IN (SELECT k FROM h WHERE name > 'o') ORDER BY id LIMIT 5;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT t.id, h.name FROM t JOIN h ON h.k = t.a WHERE t.id < 8 ORDER BY 1, 2;
SELECT count(*) FROM h JOIN t ON t.id = h.k;
SET enable_nestloop = off;
RESET enable_mergejoin;
SELECT t.id, h.name FROM t JOIN h ON h.k = t.a WHERE t.id < 8 ORDER BY 1, 2;
UPDATE h SET name = t.s FROM t WHERE t.id = h.k;
SELECT * FROM h ORDER BY k, name;
DELETE FROM h USING t WHERE t.id = h.k AND t.a = 1;
-- unordered
INSERT INTO h SELECT id, s FROM t WHERE id > 27 RETURNING *;
