-- columns: id bigint, ts timestamptz, a integer, s text
-- load: INSERT INTO t SELECT i, '2025-12-25'::timestamptz + i * interval '1 day', i, 's' || i FROM generate_series(1, 14) i
CREATE TABLE src (id bigint, ts timestamptz, a integer, s text);
INSERT INTO src SELECT i, '2025-12-25'::timestamptz + i * interval '1 day', i * 100, 'm' || i FROM generate_series(12, 17) i;
-- refuse-ok: 0A000
MERGE INTO t USING src ON t.id = src.id WHEN MATCHED THEN UPDATE SET a = src.a, s = src.s WHEN NOT MATCHED THEN INSERT VALUES (src.id, src.ts, src.a, src.s);
SELECT * FROM t ORDER BY id;
-- refuse-ok: 0A000
MERGE INTO t USING (VALUES (1, 'up'), (2, 'del'), (50, 'ins')) v(id, what) ON t.id = v.id WHEN MATCHED AND what = 'del' THEN DELETE WHEN MATCHED THEN UPDATE SET s = what WHEN NOT MATCHED THEN INSERT (id, ts, s) VALUES (v.id, '2025-12-31', what);
SELECT * FROM t ORDER BY id;
-- refuse-ok: 0A000
MERGE INTO t USING src ON t.id = src.id WHEN MATCHED AND t.a > 1500 THEN DO NOTHING WHEN NOT MATCHED THEN DO NOTHING;
-- refuse-ok: 0A000
MERGE INTO t USING src ON t.id = src.id WHEN MATCHED THEN DELETE;
-- refuse-ok: 0A000
MERGE INTO t x USING t y ON x.id = y.id + 1 WHEN MATCHED AND y.a > 4 THEN UPDATE SET a = y.a;
-- refuse-ok: 0A000
-- unordered
MERGE INTO t USING src ON t.id = src.id WHEN NOT MATCHED BY SOURCE AND t.id < 5 THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (src.id, src.ts, src.a, src.s) RETURNING merge_action(), t.id, t.s;
-- refuse-ok: 0A000
MERGE INTO t USING (VALUES (5), (5)) v(id) ON t.id = v.id WHEN MATCHED THEN UPDATE SET a = 1;
-- refuse-ok: 0A000
MERGE INTO t USING src ON t.id = src.id WHEN MATCHED THEN UPDATE SET a = 1 / (src.id - 13);
MERGE INTO t USING src ON t.nope = src.id WHEN MATCHED THEN DELETE;
SELECT * FROM t ORDER BY id;
