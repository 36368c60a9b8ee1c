-- columns: id bigint, ts timestamptz, s text
-- load: INSERT INTO t VALUES (1, '2025-01-01', 'a'), (2, '2026-01-01', 'b')
-- refuse-ok: 0A000
INSERT INTO t VALUES (1, '2025-01-01', 'again') ON CONFLICT DO NOTHING;
-- refuse-ok: 0A000
INSERT INTO t VALUES (1, '2025-01-01', 'again') ON CONFLICT (id) DO NOTHING;
-- refuse-ok: 0A000
INSERT INTO t VALUES (1, '2025-01-01', 'again') ON CONFLICT (id) DO UPDATE SET s = excluded.s;
-- refuse-ok: 0A000
INSERT INTO t VALUES (1, '2025-01-01', 'again') ON CONFLICT DO UPDATE SET s = excluded.s;
SELECT id, s FROM t ORDER BY id, s;
