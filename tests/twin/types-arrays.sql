-- columns: id bigint, ts timestamptz, a integer[], b text[], c numeric[]
-- load: INSERT INTO t VALUES (1,'2025-01-01','{1,2,NULL}','{a,"b,c","q\"q",NULL,"NULL",""}','{1234567890123456789012345678901234567890,0.1}'),(2,'2026-01-01','{}','{}','{}'),(3,'2025-02-01',NULL,NULL,NULL),(4,'2026-02-01','{{1,2},{3,4}}','{{a,b}}','{NaN}')
SELECT * FROM t ORDER BY id;
SELECT id FROM t WHERE a @> '{1}' ORDER BY id;
SELECT id FROM t WHERE a @> array[NULL]::int[] ORDER BY id;
SELECT id FROM t WHERE b && '{a,zz}' ORDER BY id;
SELECT id FROM t WHERE a <@ '{1,2,3,4}' ORDER BY id;
SELECT id, a[1], b[2], c[1] FROM t ORDER BY id;
