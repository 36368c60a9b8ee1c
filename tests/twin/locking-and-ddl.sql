-- columns: id bigint, ts timestamptz, s text
-- load: INSERT INTO t VALUES (1, '2025-01-01', 'a'), (2, '2026-01-01', 'b')
-- refuse-ok: 0A000
SELECT id FROM t ORDER BY id FOR UPDATE;
-- refuse-ok: 0A000
SELECT id FROM t WHERE id = 1 FOR SHARE SKIP LOCKED;
BEGIN;
-- refuse-ok: 0A000 42809
LOCK TABLE t IN SHARE MODE;
ROLLBACK;
-- refuse-ok: 0A000
TRUNCATE t;
SELECT count(*) FROM t;
INSERT INTO t VALUES (3, '2025-01-01', 'c');
BEGIN;
-- refuse-ok: 0A000
TRUNCATE t;
ROLLBACK;
SELECT id FROM t ORDER BY id;
-- refuse-ok: 0A000 42809
DROP TABLE t;
SELECT count(*) FROM t;
-- refuse-ok: 0A000 42809
DROP VIEW t;
SELECT count(*) FROM t;
