-- columns: id bigint, ts timestamptz, a integer, s text, d numeric(10,2), f boolean, k bytea
COPY t FROM STDIN;
1	2025-01-01 00:00:00+00	10	plain	1.50	t	\\x00ff
2	2026-01-01 12:00:00+02	\N	tab\there	\N	f	\\x
3	2025-02-01	-5	back\\slash	-0.01	\N	\N
4	2026-02-01	0	new\nline	99999999.99	true	\\x5c2e
5	2025-03-01	1		0	no	abc
\.
SELECT * FROM t ORDER BY id;
COPY (SELECT * FROM t ORDER BY id) TO STDOUT;
COPY (SELECT id, s, d FROM t ORDER BY id) TO STDOUT WITH (FORMAT csv, HEADER, FORCE_QUOTE *);
COPY (SELECT id, upper(s) FROM t WHERE id < 3 ORDER BY id) TO STDOUT (DELIMITER '|', NULL 'none');
COPY t (id, s, ts) FROM STDIN WITH (FORMAT csv, HEADER true);
id,s,ts
6,"quoted ""x"", y",2025-04-01
7,,2026-04-01
8,"",2026-04-02
"9","multi
line",2025-05-01
\.
SELECT id, s, a, d FROM t WHERE id > 5 ORDER BY id;
-- unordered
COPY t TO STDOUT;
-- unordered
COPY t (s, id) TO STDOUT (FORMAT csv);
COPY t FROM STDIN;
20	2025-01-01	1	ok	1	t	a
21	2025-01-01	notanumber	bad	1	t	a
\.
SELECT count(*) FROM t WHERE id >= 20;
COPY t FROM STDIN;
22	2025-01-01	1
\.
COPY t FROM STDIN;
22	2025-01-01	1	x	1	t	a	extra
\.
COPY t (id, nope) FROM STDIN;
1	2
\.
COPY t (id, ts) FROM STDIN WHERE id > 31;
30	2025-01-01
31	2025-01-01
32	2026-01-01
33	2026-01-01
\.
BEGIN;
COPY t (id, ts) FROM STDIN;
50	2025-01-01
51	2026-01-01
\.
SELECT count(*) FROM t WHERE id >= 50;
ROLLBACK;
BEGIN;
COPY t (id, ts, s) FROM STDIN;
60	2025-01-01	kept
\.
UPDATE t SET s = s || '!' WHERE id = 60;
COMMIT;
COPY t (id, ts) FROM STDIN;
\.
COPY (DELETE FROM t WHERE id = 33 RETURNING id, ts) TO STDOUT;
SELECT id, ts, a, s, d FROM t ORDER BY id;
