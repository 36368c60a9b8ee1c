-- columns: id bigint, ts timestamptz, s text
-- load: INSERT INTO t VALUES (1, '2025-01-01', 'see public.t now'), (2, '2026-01-01', 'x::jsonb')
INSERT INTO t VALUES (3, '2025-01-01', 'see twin.t now'), (4, '2026-01-01', 'UPDATE t SET s = NULL; --'), (5, '2025-02-01', '$q$'), (6, '2026-02-01', $q$it's $$ $1 $2$q$);
INSERT INTO t VALUES (7, '2025-03-01', '$q$; DROP TABLE t; --'), (8, '2026-03-01', '''); DROP TABLE t; --'), (9, '2025-04-01', '"t"'), (10, '2026-04-01', 'coldfront_cold."t"');
INSERT INTO t VALUES (11, '2025-05-01', E'\\''\n\t\u0041'), (12, '2026-05-01', '/* not a comment */ -- nor this'), (13, '2025-06-01', '{"a": "b::int"}'), (14, '2026-06-01', '%s %I %L %%'), (15, '2026-06-01', '?|{}[]()');
INSERT /* into t select */ INTO t /* t */ VALUES (16, '2025-07-01', 'comment') -- t t t
;
SELECT id, s FROM t ORDER BY id;
SELECT id FROM t WHERE s = '$q$' OR s = 'x::jsonb' OR s = '"t"' ORDER BY id;
SELECT id FROM t WHERE s = $q$'); DROP TABLE t; --$q$ ORDER BY id;
SELECT id, 'FROM t' AS "FROM t", 't.s' AS "t.s", s = 'see twin.t now' FROM t WHERE id < 5 ORDER BY id;
SELECT id FROM t WHERE s LIKE '%DROP TABLE%' ORDER BY id;
SELECT id, length(s), ascii(s) FROM t WHERE s ~ '[\\\x27]' ORDER BY id;
UPDATE t SET s = s || '; DELETE FROM t' WHERE id = 1 RETURNING s;
UPDATE t SET s = replace(s, '''', '"') WHERE s LIKE '%''%';
UPDATE t SET s = '$coldfront$ $cf$ $body$ $$' WHERE id = 2;
PREPARE p(text) AS UPDATE t SET s = $1 WHERE id = 3 RETURNING s;
EXECUTE p('$1');
EXECUTE p('''; DROP TABLE t; --');
EXECUTE p($x$\' OR 1=1 --$x$);
EXECUTE p(NULL);
DO $do$ BEGIN EXECUTE 'UPDATE t SET s = ' || quote_literal($q$do 'it' $a$ $$ $q$) || ' WHERE id = 4'; END $do$;
DELETE FROM t WHERE s = $q$do 'it' $a$ $$ $q$ RETURNING id;
SELECT id, s FROM t ORDER BY id;
-- the splitter reads standard strings only, so no quote is escaped here
SET standard_conforming_strings = off;
SET escape_string_warning = off;
INSERT INTO t VALUES (20, '2025-01-01', 'a\x\\c');
SELECT id, s FROM t WHERE s = 'a\x\\c';
RESET standard_conforming_strings;
SELECT id, s FROM t WHERE id = 20;
SELECT U&'\0074' AS u, id FROM t WHERE s = U&'"t"' ORDER BY id;
SELECT "t".id, t."s" FROM "t" WHERE "t"."id" = 9;
SELECT id FROM T WHERE T.S IS NULL ORDER BY ID;
