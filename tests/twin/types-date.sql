-- columns: id bigint, ts timestamptz, d date
-- load: INSERT INTO t VALUES (1,'2025-01-01','0044-03-15 BC'),(2,'2026-01-01','0001-01-01'),(3,'2025-02-01','1582-10-10'),(4,'2026-02-01','1900-02-28'),(5,'2025-03-01','1969-12-31'),(6,'2026-03-01','1970-01-01'),(7,'2025-04-01','2000-02-29'),(8,'2026-04-01','2024-02-29'),(9,'2025-05-01','9999-12-31'),(10,'2026-05-01',NULL),(11,'2025-06-01','4713-01-01 BC'),(12,'2026-06-01','2025-12-29'),(13,'2026-06-01','20000-01-01')
SELECT id, d FROM t ORDER BY id;
SELECT id FROM t ORDER BY d, id;
SELECT id FROM t ORDER BY d DESC, id;
SELECT id FROM t WHERE d < '0001-01-01' ORDER BY id;
SELECT id FROM t WHERE d = '0044-03-15 BC' ORDER BY id;
SELECT id FROM t WHERE d BETWEEN '1900-01-01' AND '2024-02-29' ORDER BY id;
SELECT id FROM t WHERE d > '1969-12-31'::timestamp ORDER BY id;
SELECT id FROM t WHERE d >= '2000-02-29 12:00:00+00'::timestamptz ORDER BY id;
SELECT min(d), max(d), count(d), count(DISTINCT d) FROM t;
SELECT id, d + 1, d - 1, d - date '2000-01-01', d + interval '1 month', d + time '01:02' FROM t WHERE id NOT IN (11) ORDER BY id;
SELECT id, extract(year FROM d), extract(month FROM d), extract(day FROM d), extract(dow FROM d), extract(isodow FROM d), extract(doy FROM d), extract(week FROM d), extract(isoyear FROM d) FROM t ORDER BY id;
SELECT id, extract(century FROM d), extract(decade FROM d), extract(millennium FROM d), extract(quarter FROM d), extract(epoch FROM d), extract(julian FROM d) FROM t ORDER BY id;
SELECT extract(hour FROM d) FROM t WHERE id = 7;
SELECT id, date_trunc('month', d), date_trunc('century', d), date_trunc('week', d), date_trunc('millennium', d), date_trunc('decade', d) FROM t WHERE id <> 11 ORDER BY id;
SELECT id, to_char(d, 'YYYY-MM-DD BC Day DDD WW IYYY IW Q J'), to_char(d, 'FMMonth DD, YYYY') FROM t ORDER BY id;
SELECT id, age(d, date '2025-01-01') FROM t WHERE id IN (5, 7, 8) ORDER BY id;
SELECT id, d::text, d::timestamp, d::timestamptz, isfinite(d) FROM t ORDER BY id;
SELECT d + 2147483647 FROM t WHERE id = 7;
SELECT make_date(extract(year FROM d)::int, 2, 29) FROM t WHERE id IN (7, 8) ORDER BY id;
SELECT make_date(extract(year FROM d)::int, 2, 29) FROM t WHERE id = 4;
SELECT d, count(*) FROM t WHERE d > '2000-01-01' GROUP BY d ORDER BY d;
INSERT INTO t VALUES (20, '2025-01-01', '2025-02-29');
INSERT INTO t VALUES (20, '2025-01-01', '13/13/2025');
INSERT INTO t VALUES (20, '2025-01-01', 'epoch'), (21, '2026-01-01', 'January 8, 1999'), (22, '2026-01-01', '20250131'), (23, '2026-01-01', '2025-001');
SELECT id, d FROM t WHERE id >= 20 ORDER BY id;
-- refuse-ok: 22008 22003
INSERT INTO t VALUES (30, '2025-01-01', 'infinity');
-- refuse-ok: 22008 22003
INSERT INTO t VALUES (31, '2025-01-01', '-infinity');
-- refuse-ok: 22008 22003
INSERT INTO t VALUES (32, '2025-01-01', '2025-01-01'), (33, '2025-01-01', 'infinity'), (34, '2025-01-01', '2025-01-02');
-- refuse-ok: 22008 22003
UPDATE t SET d = 'infinity' WHERE id IN (5, 6);
-- refuse-ok: 22008 22003
INSERT INTO t VALUES (35, '2025-01-01', '5874897-12-31');
SELECT id, d, isfinite(d), d = 'infinity' FROM t WHERE id >= 30 OR id IN (5, 6) ORDER BY d, id;
SELECT count(*) FROM t WHERE d < 'infinity';
SELECT count(*) FROM t WHERE d > '-infinity';
-- unordered
UPDATE t SET d = d + 1 WHERE id IN (5, 7, 8) RETURNING id, d;
-- unordered
DELETE FROM t WHERE d < '1600-01-01' RETURNING id;
SET DateStyle = 'SQL, DMY';
SELECT id, d FROM t WHERE id < 13 ORDER BY id;
SELECT id FROM t WHERE d = '31/12/9999' ORDER BY id;
