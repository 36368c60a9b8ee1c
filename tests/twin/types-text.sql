-- columns: id bigint, ts timestamptz, s text, v varchar
-- load: INSERT INTO t VALUES (1,'2025-01-01','',''),(2,'2026-01-01',NULL,NULL),(3,'2025-02-01','O''Brien "q" \N \\ $q$ ; -- /* ','it''s'),(4,'2026-02-01',E'line1\nline2\ttab\r\u0001','x'),(5,'2025-03-01','Ünïcödé ß 漢字 🙂 é','ÄÖÜ'),(6,'2026-03-01',repeat('long ',30000),'l'),(7,'2025-04-01','  spaces  ','  '),(8,'2026-04-01','null','NULL')
SELECT id, left(s, 60), v FROM t ORDER BY id;
SELECT id, length(s), octet_length(s), char_length(v), md5(s) FROM t ORDER BY id;
SELECT id FROM t WHERE s = '' ORDER BY id;
SELECT id FROM t WHERE s IS NULL ORDER BY id;
SELECT id FROM t WHERE s = 'O''Brien "q" \N \\ $q$ ; -- /* ' ORDER BY id;
SELECT id FROM t WHERE s = E'line1\nline2\ttab\r\u0001' ORDER BY id;
SELECT id FROM t WHERE s LIKE '%漢字%' ORDER BY id;
SELECT id FROM t WHERE s > 'a' ORDER BY id;
SELECT id, upper(v), lower(v), initcap(v), reverse(v) FROM t WHERE id < 9 ORDER BY id;
SELECT id, upper(s), lower(s) FROM t WHERE id = 5;
SELECT id, substr(s, 2, 4), substring(s from 3), substring(s from -1 for 4), left(s, -2) = s, right(s, 3) FROM t WHERE id IN (3, 5, 7) ORDER BY id;
SELECT substring(s from 1 for -1) FROM t WHERE id = 5;
SELECT id, position('e' in s), strpos(s, 'q'), split_part(s, ' ', 2), split_part(s, ' ', -1) FROM t WHERE id IN (3, 5, 7) ORDER BY id;
SELECT id, trim(s), ltrim(s), rtrim(s), btrim(s, ' s'), lpad(v, 5, 'ab'), rpad(v, 3), repeat(v, 2) FROM t WHERE id IN (3, 5, 7) ORDER BY id;
SELECT id, replace(s, 'e', 'E'), translate(s, 'eoc', 'E0'), overlay(v placing 'zz' from 1 for 1) FROM t WHERE id IN (3, 5) ORDER BY id;
SELECT id, s || v, v || NULL, concat(s, NULL, v), concat_ws(',', v, NULL, id), format('%s-%L-%I', v, v, 'a b') FROM t WHERE id NOT IN (4, 6) ORDER BY id;
SELECT id, quote_literal(s), quote_nullable(v), ascii(v), chr(65), starts_with(s, 'O') FROM t WHERE id NOT IN (4, 6) ORDER BY id;
SELECT id, encode(convert_to(v, 'UTF8'), 'hex'), to_hex(length(s)), octet_length(v) FROM t ORDER BY id;
SELECT id, s::varchar(3), v::char(4), left(s, 5)::name FROM t WHERE id IN (3, 5) ORDER BY id;
SELECT s::int FROM t WHERE id = 8;
SELECT min(v), max(v), count(s), count(DISTINCT v) FROM t;
SELECT string_agg(v, '|' ORDER BY id), string_agg(v, NULL ORDER BY id), array_agg(v ORDER BY id) FROM t;
INSERT INTO t VALUES (9, '2025-05-01', U&'d\0061t\+000061', E'\x41\102\\'), (10, '2026-05-01', $q$dollar 'quoted' $$ text$q$, 'a'
'b'), (11, '2026-05-01', 'two'
 ' lines', 'z');
INSERT INTO t VALUES (13, '2025-05-01', 'a' 'b', 'x');
SELECT id, s, v FROM t WHERE id > 8 ORDER BY id;
INSERT INTO t VALUES (12, '2025-05-01', E'a\000b', 'x');
-- unordered
UPDATE t SET s = s || '!' , v = upper(v) WHERE id IN (5, 7) RETURNING id, s, v;
UPDATE t SET s = NULL WHERE s = '';
SELECT id, s IS NULL, v = '' FROM t ORDER BY id;
DELETE FROM t WHERE s LIKE 'long%';
SELECT id, unistr('\0041'), normalize(v, NFD) = v FROM t ORDER BY id;
