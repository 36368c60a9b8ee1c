-- columns: id bigint NOT NULL, ts timestamptz DEFAULT '2025-12-31 00:00:00+00' NOT NULL, a integer DEFAULT 7, s text DEFAULT 'it''s, (x)' NOT NULL, n numeric(8,2) DEFAULT 1.5 + 1, g integer GENERATED ALWAYS AS (a * 2 + length(s)) STORED, c char(4) DEFAULT 'ab', f boolean DEFAULT true
-- load: INSERT INTO t (id) VALUES (1)
SELECT * FROM t;
-- unordered
INSERT INTO t (id, a) VALUES (2, 1), (3, NULL) RETURNING id, a, g, c;
INSERT INTO t (a, id) VALUES (DEFAULT, 4);
INSERT INTO t (id, ts, a, s, n, g) VALUES (5, '2026-01-01', 2, 'five', DEFAULT, DEFAULT);
INSERT INTO t (id, g) VALUES (6, 1);
INSERT INTO t SELECT 6, '2026-01-01', 1, 'x', 1, 1;
INSERT INTO t DEFAULT VALUES;
INSERT INTO t (id, s) VALUES (6, NULL);
INSERT INTO t (id) VALUES (NULL);
INSERT INTO t (id, s) VALUES (6, 'ok'), (7, NULL);
SELECT count(*) FROM t;
INSERT INTO t (id) SELECT i FROM generate_series(10, 12) i;
INSERT INTO t (id, ts, a) SELECT id + 100, ts, a + 1 FROM t WHERE id < 4;
UPDATE t SET a = a + 10 WHERE id IN (1, 2);
UPDATE t SET s = DEFAULT, a = DEFAULT, f = DEFAULT WHERE id = 5;
UPDATE t SET g = 5 WHERE id = 1;
-- PostgreSQL itself refuses this on any view
-- refuse-ok: 428C9
UPDATE t SET g = DEFAULT WHERE id = 1;
UPDATE t SET s = NULL WHERE id = 1;
UPDATE t SET id = NULL;
UPDATE t SET s = s || 'y', a = NULL WHERE id = 4 RETURNING g, s, a;
UPDATE t SET ts = DEFAULT WHERE id = 5;
SELECT id FROM t WHERE g > 20 ORDER BY id;
SELECT g, count(*) FROM t GROUP BY g ORDER BY g;
-- unordered
DELETE FROM t WHERE g IS NULL RETURNING id;
COPY t (id, a) FROM STDIN;
20	3
21	\N
\.
COPY t (id, ts, a, s, n, c, f) FROM STDIN;
22	2026-02-01	1	abc	1	x	f
\.
COPY t (id, g) FROM STDIN;
1	2
\.
PREPARE p(bigint, int) AS INSERT INTO t (id, a) VALUES ($1, $2) RETURNING g;
EXECUTE p(30, 4);
EXECUTE p(NULL, 4);
SELECT * FROM t ORDER BY id;
