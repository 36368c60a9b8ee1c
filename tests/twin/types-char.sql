-- columns: id bigint, ts timestamptz, c char(5), d character varying(5), e char
-- load: INSERT INTO t VALUES (1,'2025-01-01','a','a','x'),(2,'2026-01-01','ab   ','ab   ',' '),(3,'2025-02-01','','',''),(4,'2026-02-01',NULL,NULL,NULL),(5,'2025-03-01','abcde','abcde','é'),(6,'2026-03-01',' x',' x','y')
SELECT *, '|' || c || '|', '[' || d || ']' FROM t ORDER BY id;
SELECT id, length(c), octet_length(c), length(d), bit_length(c), pg_typeof(c), pg_typeof(d), pg_typeof(e) FROM t ORDER BY id;
SELECT id FROM t WHERE c = 'a' ORDER BY id;
SELECT id FROM t WHERE c = 'a    ' ORDER BY id;
SELECT id FROM t WHERE c = 'a'::text ORDER BY id;
SELECT id FROM t WHERE c::text = 'ab' ORDER BY id;
SELECT id FROM t WHERE d = 'ab' ORDER BY id;
SELECT id FROM t WHERE d = 'ab   ' ORDER BY id;
SELECT id FROM t WHERE c = d ORDER BY id;
SELECT id FROM t WHERE c LIKE 'a%' ORDER BY id;
SELECT id FROM t WHERE c LIKE 'ab' ORDER BY id;
SELECT id FROM t WHERE c LIKE 'ab   ' ORDER BY id;
SELECT id FROM t WHERE c ~ '^a +$' ORDER BY id;
SELECT id FROM t WHERE c IN ('ab', 'abcde', 'zz') ORDER BY id;
SELECT id FROM t WHERE c > 'ab' ORDER BY id;
SELECT id FROM t WHERE c BETWEEN 'a' AND 'ab' ORDER BY id;
SELECT id FROM t ORDER BY c, id;
SELECT id FROM t ORDER BY c DESC, id;
SELECT c, count(*) FROM t GROUP BY c ORDER BY c;
SELECT min(c), max(c), min(d), max(d), count(DISTINCT c) FROM t;
SELECT id, upper(c), c || 'z', c || c, concat(c, d), substr(c, 1, 2), reverse(c), md5(c) FROM t ORDER BY id;
SELECT id, c::varchar, c::text || '|', d::char(8) || '|', coalesce(c, 'none'), nullif(c, 'a') FROM t ORDER BY id;
INSERT INTO t VALUES (7, '2025-04-01', 'abcdef', 'a', 'a');
INSERT INTO t VALUES (7, '2025-04-01', 'a', 'abcdef', 'a');
INSERT INTO t VALUES (7, '2025-04-01', 'a', 'a', 'ab');
-- unordered
INSERT INTO t VALUES (7, '2025-04-01', 'abcde     ', 'abcde     ', 'a     '), (8, '2026-04-01', 'ünïçö', 'ünïçö', 'ß') RETURNING *;
INSERT INTO t VALUES (9, '2025-04-01', 'abcdefgh'::char(5), 'abcdefgh'::varchar(5), 'q');
UPDATE t SET c = d WHERE id IN (2, 3);
UPDATE t SET d = c WHERE id = 1;
UPDATE t SET d = repeat('x', 6) WHERE id = 1;
UPDATE t SET c = 'zz' WHERE c = 'a' RETURNING id, c, d;
DELETE FROM t WHERE c = '';
SELECT *, octet_length(d) FROM t ORDER BY id;
