-- columns: id bigint, ts timestamptz, a integer, s text, d numeric(10,2), f boolean, k bytea
-- modes: decoupled
COPY t (id, ts, a) FROM STDIN (ON_ERROR ignore);
40	2025-01-01	1
41	2025-01-01	x
42	2026-01-01	3
\.
SELECT id, ts, a FROM t ORDER BY id;
