-- columns: id bigint, ts timestamptz, "Aa" integer, "aA" integer, aa integer
-- load: INSERT INTO t VALUES (1, '2025-01-01', 1, 2, 3), (2, '2026-01-01', 4, 5, 6)
SELECT * FROM t ORDER BY id;
SELECT "aA", aa, "Aa" FROM t WHERE "Aa" = 4;
UPDATE t SET "Aa" = aa, aa = "aA" WHERE id = 1;
SELECT * FROM t ORDER BY id;
