-- columns: id bigint, ts timestamptz, a numeric(38,10), b numeric(38,0), c numeric(20,6), d numeric(5,5), e numeric(9,2)
-- load: INSERT INTO t VALUES (1,'2025-01-01',9999999999999999999999999999.9999999999,99999999999999999999999999999999999999,12345678901234.567891,0.99999,-0.01),(2,'2026-01-01',-9999999999999999999999999999.9999999999,-99999999999999999999999999999999999999,-0.000001,-0.00001,1234567.89),(3,'2025-02-01',0,0,0,0,0),(4,'2026-02-01',NULL,NULL,NULL,NULL,NULL),(5,'2025-03-01',0.1,1,1.10,0.5,2.5),(6,'2026-03-01',1,2,-1.25,0.25,3.5)
SELECT * FROM t ORDER BY id;
SELECT id, a::text, scale(a), scale(e), b + 1, trim_scale(a) FROM t ORDER BY id;
SELECT id FROM t WHERE a = 0.1 ORDER BY id;
SELECT id FROM t WHERE a > 1e27 ORDER BY id;
SELECT id FROM t WHERE c = 1.1 OR c = 12345678901234.567891 ORDER BY id;
SELECT id FROM t WHERE b = 99999999999999999999999999999999999999 ORDER BY id;
SELECT id FROM t WHERE b > 1e38 ORDER BY id;
SELECT id FROM t WHERE b < 1e40 ORDER BY id;
SELECT id FROM t WHERE e = 2.499999999 OR e < -0.005 ORDER BY id;
SELECT id FROM t WHERE e IN (2.5, 3.50, 7) ORDER BY id;
SELECT sum(a), sum(b), sum(c), avg(c), avg(e), min(a), max(b), count(c) FROM t;
SELECT sum(b), avg(b) FROM t WHERE id IN (1, 5, 6);
SELECT id, e / 3, e / 0.95, e * e, c + a, e - d, e % 2, -e FROM t ORDER BY id;
SELECT id, round(e), round(e, 1), trunc(e, 1), ceil(e), floor(e), abs(e), sign(e), round(e, -1) FROM t ORDER BY id;
SELECT round(2.5), round(3.5), round(-2.5), e::int, (e + 1)::int FROM t WHERE id IN (5, 6) ORDER BY id;
SELECT id, div(e, 2), mod(e, 2), power(e, 2), sqrt(abs(e)) FROM t WHERE id IN (3, 5, 6) ORDER BY id;
SELECT e / 0 FROM t WHERE id = 5;
SELECT id, b::bigint FROM t WHERE id > 2 ORDER BY id;
SELECT b::bigint FROM t WHERE id = 1;
SELECT id, e::float8, c::real FROM t ORDER BY id;
SELECT id, to_char(e, 'FM9,999,999.00'), width_bucket(e, 0, 10, 5) FROM t ORDER BY id;
SELECT stddev(e), variance(e), var_pop(e), stddev_pop(e) FROM t;
SELECT e, count(*) FROM t GROUP BY e ORDER BY e DESC;
SELECT id, greatest(e, 1), least(c, 0), coalesce(e, 9.999) FROM t ORDER BY id;
INSERT INTO t (id, ts, e) VALUES (7, '2025-04-01', 12345678.90);
INSERT INTO t (id, ts, d) VALUES (7, '2025-04-01', 1);
INSERT INTO t (id, ts, b) VALUES (7, '2025-04-01', 1e38);
INSERT INTO t (id, ts, e, c) VALUES (7, '2025-04-01', 2.345, 0.0000005), (8, '2026-04-01', -2.345, -0.0000005), (9, '2025-04-02', 1e3, '1.5e-3');
SELECT id, c, e FROM t WHERE id >= 7 ORDER BY id;
-- refuse-ok: 22003 22023
INSERT INTO t (id, ts, e) VALUES (10, '2025-04-01', 'NaN');
SELECT id, e FROM t WHERE e = 'NaN' ORDER BY id;
INSERT INTO t (id, ts, e) VALUES (11, '2025-04-01', 'Infinity');
-- refuse-ok: 22003 22023
UPDATE t SET a = 'NaN' WHERE id = 3;
SELECT id, a FROM t WHERE id = 3;
UPDATE t SET e = e * 1.1, a = a + 0.0000000001 WHERE id IN (3, 5);
UPDATE t SET e = e * 100000 WHERE id = 2;
UPDATE t SET b = b + 1 WHERE id = 1;
SELECT * FROM t ORDER BY id;
-- unordered
DELETE FROM t WHERE c = -0.000001 RETURNING id, c;
