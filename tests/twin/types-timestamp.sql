-- columns: id bigint, ts timestamptz, p timestamp, q timestamptz
-- load: INSERT INTO t VALUES (1,'2025-01-01','0044-03-15 12:00:00 BC','0044-03-15 12:00:00+00 BC'),(2,'2026-01-01','0001-01-01','0001-12-31 23:59:59.999999+00 BC'),(3,'2025-02-01','1969-12-31 23:59:59.999999','1969-12-31 23:59:59.999999+00'),(4,'2026-02-01','1970-01-01','1970-01-01+00'),(5,'2025-03-01','2000-02-29 13:14:15.5','2000-02-29 13:14:15.5+02'),(6,'2026-03-01','9999-12-31 23:59:59.999999','9999-12-31 23:59:59.999999+00'),(7,'2025-04-01',NULL,NULL),(8,'2026-04-01','2025-03-30 02:30','2025-03-30 02:30+01'),(9,'2025-05-01','1900-01-01 00:00:00.000001','1900-01-01 00:00:00.000001-08'),(10,'2026-05-01','2025-12-29 00:00','2026-01-01 00:00+00')
SELECT id, p, q FROM t ORDER BY id;
SELECT id FROM t ORDER BY p, id;
SELECT id FROM t ORDER BY q DESC, id;
SELECT id FROM t WHERE p = '1969-12-31 23:59:59.999999' ORDER BY id;
SELECT id FROM t WHERE q < '1970-01-01 00:00+00' ORDER BY id;
SELECT id FROM t WHERE p >= '2000-02-29' AND p < '2000-03-01'::date ORDER BY id;
SELECT id FROM t WHERE q BETWEEN '2000-02-29 11:14:15.5+00' AND '2025-03-30 01:30+00' ORDER BY id;
SELECT id FROM t WHERE p = q ORDER BY id;
SELECT id FROM t WHERE q > p ORDER BY id;
SELECT min(p), max(p), min(q), max(q), count(DISTINCT q) FROM t;
SELECT id, date_trunc('microseconds', p), date_trunc('second', p), date_trunc('hour', p), date_trunc('day', q), date_trunc('week', p), date_trunc('month', p), date_trunc('quarter', q) FROM t ORDER BY id;
SELECT id, date_trunc('year', p), date_trunc('decade', p), date_trunc('century', p), date_trunc('millennium', p) FROM t ORDER BY id;
SELECT date_trunc('fortnight', p) FROM t WHERE id = 5;
SELECT id, extract(year FROM p), extract(century FROM p), extract(decade FROM p), extract(millennium FROM p), extract(epoch FROM p), extract(epoch FROM q), extract(microseconds FROM p), extract(milliseconds FROM p), extract(second FROM p) FROM t ORDER BY id;
SELECT id, extract(dow FROM p), extract(isodow FROM q), extract(week FROM p), extract(isoyear FROM p), extract(doy FROM q), extract(julian FROM p), date_part('epoch', q) FROM t ORDER BY id;
SELECT id, extract(timezone FROM q), extract(timezone_hour FROM q) FROM t ORDER BY id;
SELECT id, p + interval '1 month', p - interval '1 day 1 microsecond', q + interval '1 year', p + interval '1 month' - interval '1 month' = p FROM t ORDER BY id;
SELECT id, p - timestamp '2000-01-01', q - timestamptz '2000-01-01 00:00+00', age(p, timestamp '2000-01-31') FROM t ORDER BY id;
SELECT id, p::date, p::time, q::date, q::time, p::timestamptz, q::timestamp, p::text, q::text FROM t ORDER BY id;
SELECT id, p AT TIME ZONE 'America/New_York', q AT TIME ZONE 'America/New_York', q AT TIME ZONE '+05:30', q AT TIME ZONE interval '1 hour' FROM t ORDER BY id;
SELECT id, to_char(p, 'YYYY-MM-DD HH24:MI:SS.US BC'), to_char(q, 'Dy DD Mon YYYY HH12:MI AM TZ') FROM t ORDER BY id;
SELECT id, date_bin('15 minutes', p, '2001-01-01'), p::timestamp(0), q::timestamptz(3) FROM t WHERE id IN (3, 5, 8, 9) ORDER BY id;
SELECT id, isfinite(p), (p, p + interval '1 h') OVERLAPS (timestamp '2000-01-01', timestamp '2001-01-01') FROM t ORDER BY id;
SELECT p + interval '300000 years' FROM t WHERE id = 5;
-- refuse-ok: 22008 22003
INSERT INTO t VALUES (20, '2025-01-01', 'infinity', '2025-01-01');
-- refuse-ok: 22008 22003
INSERT INTO t VALUES (21, '2025-01-01', '2025-01-01', '-infinity');
-- refuse-ok: 22008 22003
UPDATE t SET q = 'infinity' WHERE id = 4;
-- refuse-ok: 22008 22003
INSERT INTO t VALUES (22, '2025-01-01', '294276-12-31 23:59:59.999999', '2025-01-01');
-- refuse-ok: 22008 22003
INSERT INTO t VALUES (23, '2025-01-01', '4713-01-01 00:00:00 BC', '4713-01-01 00:00:00+00 BC');
SELECT id, p FROM t WHERE id >= 20 ORDER BY id;
SELECT count(*) FROM t WHERE q < 'infinity';
SELECT id FROM t WHERE p = 'infinity' OR q = '-infinity' ORDER BY id;
INSERT INTO t VALUES (30, '2025-01-01', '2025-02-30 00:00', NULL);
INSERT INTO t VALUES (30, '2025-01-01', 'epoch', 'epoch'), (31, '2026-01-01', '2025-06-30 23:59:60', '2025-06-30 24:00:00+00'), (32, '2026-01-01', '2025-01-01 00:00:00.1234565', '2025-01-01T00:00:00Z');
SELECT id, p, q FROM t WHERE id >= 30 ORDER BY id;
-- unordered
UPDATE t SET p = p + interval '1 day', q = q AT TIME ZONE 'UTC' WHERE id IN (3, 4, 5) RETURNING id, p, q;
-- unordered
DELETE FROM t WHERE p < '1000-01-01' RETURNING id, p;
