-- columns: id bigint, ts timestamptz, c timetz
-- load: INSERT INTO t VALUES (1,'2025-01-01','09:00:00+04'),(2,'2026-01-01','05:00:00+00'),(3,'2025-02-01','23:59:59.999999-12'),(4,'2026-02-01',NULL)
SELECT id, c FROM t ORDER BY id;
SELECT id FROM t WHERE c = '09:00:00+04' ORDER BY id;
SELECT id FROM t ORDER BY c, id;
SET TimeZone = 'America/New_York';
UPDATE t SET c = c + interval '1 hour' WHERE id = 1;
SELECT id, c FROM t ORDER BY id;
