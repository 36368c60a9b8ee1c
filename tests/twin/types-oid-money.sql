-- columns: id bigint, ts timestamptz, o oid, m money
-- load: INSERT INTO t VALUES (1,'2025-01-01',4294967295,'$1,234.56'),(2,'2026-01-01',0,'-$0.01'),(3,'2025-02-01',NULL,NULL)
SELECT * FROM t ORDER BY id;
SELECT id FROM t WHERE o > 2147483647 ORDER BY id;
SELECT sum(m) FROM t;
