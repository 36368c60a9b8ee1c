-- columns: id bigint, ts timestamptz, a inet
-- load: INSERT INTO t VALUES (1,'2025-01-01','10.0.0.1'),(2,'2026-01-01','10.0.0.0/8'),(3,'2025-02-01','::1'),(4,'2026-02-01',NULL)
SELECT id, a, host(a), masklen(a) FROM t ORDER BY id;
SELECT id FROM t WHERE a << '10.0.0.0/7' ORDER BY id;
SELECT id FROM t ORDER BY a;
