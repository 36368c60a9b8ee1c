-- columns: id bigint, ts timestamptz, "select" integer, "a b" text, "d.e" integer, "q""q" text, "it's" integer, "pivot" integer, "qualify" text, "lambda" integer, "ünï" text, "UPPER" integer, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk" integer, "$1" integer, "a\b" text
-- load: INSERT INTO t SELECT i, '2025-12-28'::timestamptz + i * interval '1 day', i, 'ab' || i, i * 2, 'q' || i, i * 3, i % 2, 'y' || i, i + 1, 'u' || i, -i, i * 5, i * 7, 'bs' || i FROM generate_series(1, 8) i
SELECT * FROM t ORDER BY id;
SELECT "select", "a b", "d.e", "q""q", "it's" FROM t WHERE "select" > 6 ORDER BY "d.e" DESC;
SELECT t."UPPER", t."ünï" AS "x""y", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk" AS k FROM t WHERE "UPPER" = -3;
SELECT "pivot", count(*), sum("it's"), max("qualify") FROM t GROUP BY "pivot" ORDER BY "pivot";
SELECT id FROM t WHERE "a b" = 'ab2' OR "q""q" LIKE 'q3' OR "$1" = 35 OR "a\b" = 'bs4' ORDER BY id;
SELECT id FROM t WHERE "lambda" IN (2, 3) AND "d.e" < 5 ORDER BY id;
SELECT upper FROM t;
SELECT "Select" FROM t;
SELECT t."d"."e" FROM t;
INSERT INTO t ("q""q", id, "a b", ts, "select") VALUES ('Q', 20, 'A', '2025-12-31', 1) RETURNING "q""q", "a b", "lambda";
UPDATE t SET "a b" = "q""q" || 'x', "select" = "d.e" WHERE "it's" = 9 RETURNING "a b", "select";
UPDATE t SET "pivot" = s."pivot" + 10 FROM (SELECT id AS "the id", "pivot" FROM t) s WHERE s."the id" = t.id AND "UPPER" < -6;
DELETE FROM t WHERE "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk" = 5 RETURNING "a b";
SELECT "a b" || "qualify" AS "from", row_number() OVER (ORDER BY "UPPER", id) AS "order" FROM t ORDER BY "order";
SELECT x."select", y."d.e" FROM t x JOIN t y ON x."d.e" = y."select" ORDER BY 1, 2;
SELECT to_jsonb(t) - 'ts' FROM t WHERE id = 2;
SELECT * FROM t ORDER BY id;
