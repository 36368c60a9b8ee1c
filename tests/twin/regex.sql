-- columns: id bigint, ts timestamptz, s text
-- load: INSERT INTO t VALUES (1,'2025-01-01','trod'),(2,'2026-01-01','foobar foo'),(3,'2025-02-01','123abc456'),(4,'2026-02-01',''),(5,'2025-03-01',NULL),(6,'2026-03-01',E'line1\nLINE2'),(7,'2025-04-01','a.b*c'),(8,'2026-04-01','Ünïcode'),(9,'2025-05-01','aaa bbb aaa')
SELECT id FROM t WHERE s ~ 'ro' ORDER BY id;
SELECT id FROM t WHERE s ~ '^foo' ORDER BY id;
SELECT id FROM t WHERE s ~ 'o$' ORDER BY id;
SELECT id FROM t WHERE s !~ '[0-9]' ORDER BY id;
SELECT id FROM t WHERE s ~* 'FOO' ORDER BY id;
SELECT id FROM t WHERE s !~* 'LINE' ORDER BY id;
SELECT id FROM t WHERE s ~ '\d{3}' ORDER BY id;
SELECT id FROM t WHERE s ~ '(\w)\1\1' ORDER BY id;
SELECT id FROM t WHERE s ~ '^.*$' ORDER BY id;
SELECT id FROM t WHERE s ~ 'line1.LINE2' ORDER BY id;
SELECT id FROM t WHERE s ~ '(?n)line1.LINE2' ORDER BY id;
SELECT id FROM t WHERE s ~ '\mfoo\M' ORDER BY id;
SELECT id FROM t WHERE s ~ '^(?!foo)' ORDER BY id;
SELECT id FROM t WHERE s ~ '[[:alpha:]]+[[:digit:]]' ORDER BY id;
SELECT id FROM t WHERE s ~ 'a\.b\*c' ORDER BY id;
SELECT id FROM t WHERE s ~ '' ORDER BY id;
SELECT id FROM t WHERE s ~ '*' ORDER BY id;
SELECT id FROM t WHERE s ~ '[a' ORDER BY id;
SELECT id FROM t WHERE s ~ NULL ORDER BY id;
SELECT id, regexp_replace(s, 'o', '0'), regexp_replace(s, 'o', '0', 'g'), regexp_replace(s, '(\w)(\w)', '\2\1', 'g') FROM t ORDER BY id;
SELECT regexp_replace(s, '*', 'x') FROM t WHERE id = 1;
SELECT id, regexp_replace(s, 'FOO', '[\&]', 'gi'), regexp_replace(s, 'a', 'X', 1, 2) FROM t ORDER BY id;
SELECT id, substring(s from '\d+'), substring(s from '[a-z]+(\d)'), substring(s, 'z+') FROM t ORDER BY id;
SELECT id, substring(s similar '%#"[0-9]+#"%' escape '#') FROM t ORDER BY id;
SELECT id, regexp_match(s, '(\d+)([a-z]+)'), regexp_substr(s, '[0-9]+', 1, 2), regexp_count(s, 'a'), regexp_instr(s, 'b'), regexp_like(s, 'FOO', 'i') FROM t ORDER BY id;
SELECT id, m FROM t, regexp_matches(s, '[ao]+', 'g') m ORDER BY id, m;
SELECT id, regexp_split_to_array(s, '\s+') FROM t ORDER BY id;
SELECT id, x FROM t, regexp_split_to_table(s, 'a') x WHERE id = 9;
SELECT regexp_replace(s, 'a', 'b', 'q') FROM t WHERE id = 9;
SELECT regexp_replace(s, 'a', 'b', 'zz') FROM t WHERE id = 9;
PREPARE p(text) AS SELECT id FROM t WHERE s ~ $1 ORDER BY id;
EXECUTE p('^a');
EXECUTE p('(');
-- unordered
UPDATE t SET s = regexp_replace(s, '\s', '_', 'g') WHERE s ~ '\s' RETURNING id, s;
DELETE FROM t WHERE s ~ '^\d+';
SELECT id, s FROM t ORDER BY id;
