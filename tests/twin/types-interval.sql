-- columns: id bigint, ts timestamptz, r interval
-- load: INSERT INTO t VALUES (1,'2025-01-01','1 month'),(2,'2026-01-01','30 days'),(3,'2025-02-01','-1 mon +2 days'),(4,'2026-02-01','720:00:00'),(5,'2025-03-01','1 year 2 mons -3 days 04:05:06.789'),(6,'2026-03-01','0'),(7,'2025-04-01',NULL),(8,'2026-04-01','-00:00:00.000001'),(9,'2025-05-01','178000000 years'),(10,'2026-05-01','1 day 25:00:00'),(11,'2026-05-02','-178000000 years')
SELECT id, r FROM t ORDER BY id;
SELECT id FROM t WHERE r = '1 month' ORDER BY id;
SELECT id FROM t WHERE r = interval '30 days' ORDER BY id;
SELECT id FROM t WHERE r < '0' ORDER BY id;
SELECT id FROM t WHERE r >= '1 mon' AND r < '1 year' ORDER BY id;
SELECT id FROM t ORDER BY r, id;
SELECT id FROM t ORDER BY r DESC, id;
SELECT count(*), count(DISTINCT r) FROM t;
SELECT min(id), count(*) FROM t WHERE r IS NOT NULL GROUP BY r ORDER BY 1;
SELECT min(r), max(r), sum(r), avg(r) FROM t WHERE id NOT IN (1, 2, 4, 9, 11);
SELECT a.id, b.id FROM t a JOIN t b ON a.r = b.r AND a.id < b.id ORDER BY 1, 2;
SELECT id, extract(month FROM r), extract(day FROM r), extract(hour FROM r), extract(epoch FROM r), extract(year FROM r) FROM t ORDER BY id;
SELECT id, r + interval '1 day', r * 2, r / 2, -r, justify_days(r), justify_hours(r), justify_interval(r) FROM t WHERE id NOT IN (9, 11) ORDER BY id;
SELECT id, timestamp '2025-01-31' + r, date '2025-01-31' + r FROM t WHERE id NOT IN (9, 11) ORDER BY id;
SELECT id, r::text, to_char(r, 'YYYY MM DD HH24:MI:SS.US'), date_trunc('hour', r) FROM t ORDER BY id;
SET IntervalStyle = 'iso_8601';
SELECT id, r FROM t ORDER BY id;
INSERT INTO t VALUES (20, '2025-06-01', 'P1Y2M3DT4H5M6.5S'), (21, '2026-06-01', '1 2:3:4'), (22, '2026-06-01', '-1-2 +3 -4:05:06');
SET IntervalStyle = 'sql_standard';
SELECT id, r FROM t ORDER BY id;
INSERT INTO t VALUES (23, '2025-06-01', '-1 1:00:00');
RESET IntervalStyle;
SELECT id, r FROM t WHERE id >= 20 ORDER BY id;
INSERT INTO t VALUES (24, '2025-06-01', '1 fortnight of days');
-- refuse-ok: 22008 22003 22015
INSERT INTO t VALUES (25, '2025-06-01', 'infinity');
SELECT id, r FROM t WHERE r = 'infinity' ORDER BY id;
UPDATE t SET r = r + interval '1 mon' WHERE r = '30 days';
SELECT id, r FROM t WHERE id < 5 ORDER BY id;
-- unordered
DELETE FROM t WHERE r = '60 days' RETURNING id;
SELECT id, r FROM t ORDER BY id;
