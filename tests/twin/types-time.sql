-- columns: id bigint, ts timestamptz, i time
-- load: INSERT INTO t VALUES (1,'2025-01-01','00:00:00'),(2,'2026-01-01','23:59:59.999999'),(3,'2025-02-01','12:34:56.789'),(4,'2026-02-01',NULL),(5,'2025-03-01','01:02:03.000001')
SELECT id, i FROM t ORDER BY id;
SELECT id FROM t ORDER BY i DESC, id;
SELECT id FROM t WHERE i = '12:34:56.789' ORDER BY id;
SELECT id FROM t WHERE i < '12:00' ORDER BY id;
SELECT min(i), max(i), count(i) FROM t;
SELECT id, i + interval '2 hours', i - interval '1 microsecond', i - time '01:00', date '2025-01-01' + i FROM t ORDER BY id;
SELECT id, extract(hour FROM i), extract(minute FROM i), extract(second FROM i), extract(microseconds FROM i), extract(epoch FROM i) FROM t ORDER BY id;
SELECT extract(day FROM i) FROM t WHERE id = 3;
SELECT id, i::text, i::time(0), i::interval, date_trunc('minute', i), to_char(i, 'HH24:MI:SS.US') FROM t ORDER BY id;
SELECT i, count(*) FROM t GROUP BY i ORDER BY i;
-- refuse-ok: 22008 22003
INSERT INTO t VALUES (6, '2025-04-01', '24:00:00');
-- refuse-ok: 22008 22003
INSERT INTO t VALUES (7, '2025-04-01', '23:59:59.9999999');
-- refuse-ok: 22008 22003
UPDATE t SET i = '24:00' WHERE id = 1;
SELECT id, i, i > '23:59:59.999999', i = '24:00' FROM t ORDER BY i, id;
INSERT INTO t VALUES (8, '2025-04-01', '25:00:00');
INSERT INTO t VALUES (8, '2025-04-01', '04:05 PM'), (9, '2026-04-01', '040506'), (10, '2026-04-01', '2003-04-12 04:05:06'), (11, '2026-04-01', 'allballs');
SELECT id, i FROM t WHERE id >= 8 ORDER BY id;
-- unordered
UPDATE t SET i = i + interval '13 hours' WHERE id IN (2, 3) RETURNING id, i;
-- unordered
DELETE FROM t WHERE i < '05:00' RETURNING id;
SELECT id, i FROM t ORDER BY id;
