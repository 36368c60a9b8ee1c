-- columns: id bigint, ts timestamptz, a integer, s text, d numeric(8,2)
-- modes: decoupled
-- load: INSERT INTO t VALUES (1, '2025-01-01', 10, 'one', 1.5)
INSERT INTO t (s, id, ts) VALUES ('two', 2, '2026-01-02');
-- unordered
INSERT INTO t (id, ts) VALUES (3, '2025-01-03'), (4, '2026-01-04') RETURNING *;
INSERT INTO t VALUES (5, '2025-01-05');
INSERT INTO t VALUES (6, DEFAULT, DEFAULT, 'six', DEFAULT), (7, '2025-01-07', 7, DEFAULT, 7);
INSERT INTO t DEFAULT VALUES;
INSERT INTO t DEFAULT VALUES RETURNING id, s;
INSERT INTO t SELECT i, '2025-02-01'::timestamptz + i * interval '1 day', i * 2, 'g' || i, i / 3.0 FROM generate_series(10, 14) i;
INSERT INTO t (id, ts, s) SELECT id + 100, ts, upper(s) FROM t WHERE s LIKE 'g%';
-- unordered
INSERT INTO t SELECT * FROM t WHERE id = 1 RETURNING id, a + 1 AS next, s || '!' AS "S!";
INSERT INTO t (id, ts, d) SELECT 20, '2025-01-20', sum(d) FROM t;
INSERT INTO t SELECT id FROM t WHERE false;
INSERT INTO t AS x (id, ts, s) VALUES (30, '2025-01-30', 'alias') RETURNING x.id, x.s;
-- unordered
INSERT INTO t (id, ts, s) (VALUES (31, '2025-01-31'::timestamptz, 'v') UNION ALL SELECT 32, '2026-01-31', 'w') RETURNING id;
WITH src AS (SELECT 40 + i AS id FROM generate_series(1, 2) i) INSERT INTO t (id, ts) SELECT id, '2025-04-01' FROM src;
INSERT INTO t (id, ts, a) VALUES (50, '2025-05-01', (SELECT max(a) FROM t)), (51, '2026-05-01', length('abc') + 1);
INSERT INTO t (id, ts, s) TABLE pg_temp.nothing;
CREATE TEMP TABLE src (id bigint, ts timestamptz, a int, s text, d numeric);
INSERT INTO src VALUES (60, '2025-06-01', 1, 'from heap', 2.345), (61, '2026-06-01', NULL, NULL, NULL);
INSERT INTO t TABLE src;
INSERT INTO t (d, s, id, ts) SELECT d, s, id + 10, ts FROM src ORDER BY id DESC RETURNING id, d;
INSERT INTO t (id, nope) VALUES (1, 2);
INSERT INTO t (id, id) VALUES (1, 2);
INSERT INTO t VALUES (1, '2025-01-01', 1, 'x', 1, 'too many');
INSERT INTO t (id, ts) VALUES (1);
INSERT INTO t (id, ts, a) VALUES (70, '2025-01-01', 'abc');
INSERT INTO t (id, ts, a) SELECT 70, '2025-01-01', s FROM t;
INSERT INTO t (id, ts, d) VALUES (80, '2025-01-01', 1), (81, '2025-01-01', 1234567.89), (82, '2025-01-01', 2);
INSERT INTO t (id, ts, a) SELECT i, '2025-01-01', 10 / (i - 95) FROM generate_series(90, 99) i;
SELECT count(*) FROM t WHERE id BETWEEN 70 AND 99;
-- refuse-ok: 0A000
INSERT INTO t SELECT id, ts, a, s, d FROM t WHERE id > 100 ON CONFLICT DO NOTHING;
INSERT INTO t (id, ts, s) OVERRIDING SYSTEM VALUE VALUES (200, '2025-01-01', 'o');
-- unordered
SELECT * FROM t;
