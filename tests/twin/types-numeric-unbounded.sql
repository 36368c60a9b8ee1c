-- columns: id bigint, ts timestamptz, n numeric
-- load: INSERT INTO t VALUES (1,'2025-01-01',1234567890123456789012345678901234567890.123456789),(2,'2026-01-01',0.1),(3,'2025-02-01',1e-30),(4,'2026-02-01',NULL)
SELECT id, n, scale(n) FROM t ORDER BY id;
SELECT sum(n), max(n) FROM t;
SELECT id FROM t WHERE n = 0.1 ORDER BY id;
UPDATE t SET n = n * 10 WHERE id = 3;
SELECT id, n FROM t ORDER BY n;
