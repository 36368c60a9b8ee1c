-- columns: id bigint, ts timestamptz, j uuid, k bytea
-- load: INSERT INTO t VALUES (1,'2025-01-01','00000000-0000-0000-0000-000000000001','\x00112233445566778899aabbccddeeff'),(2,'2026-01-01','ffffffff-ffff-ffff-ffff-fffffffffffe','\xffeeddccbbaa99887766554433221100'),(3,'2025-02-01','12345678-9abc-def0-1234-56789abcdef0',''),(4,'2026-02-01',NULL,NULL),(5,'2025-03-01','80000000-0000-0000-0000-000000000000','\x00'),(6,'2026-03-01','7fffffff-ffff-ffff-ffff-ffffffffffff','\x5c27005c22')
SELECT id, j, k FROM t ORDER BY id;
SELECT id FROM t ORDER BY j, id;
SELECT id FROM t ORDER BY k DESC, id;
SELECT id FROM t WHERE j = '12345678-9abc-def0-1234-56789abcdef0' ORDER BY id;
SELECT id FROM t WHERE j = '{123456789ABCDEF0123456789ABCDEF0}' ORDER BY id;
SELECT id FROM t WHERE j > '7fffffff-ffff-ffff-ffff-fffffffffffe' ORDER BY id;
SELECT id FROM t WHERE k = '\x00' ORDER BY id;
SELECT id FROM t WHERE k > '\x11' ORDER BY id;
SELECT id FROM t WHERE k = '' ORDER BY id;
SELECT id FROM t WHERE k LIKE '%\x5c22'::bytea ORDER BY id;
SELECT count(DISTINCT j), count(k) FROM t;
SELECT min(j), max(j) FROM t;
SELECT id, length(k), octet_length(k), md5(k), encode(k, 'hex'), encode(k, 'base64'), encode(k, 'escape') FROM t ORDER BY id;
SELECT id, substring(k from 2 for 3), k || '\xff', position('\x5c'::bytea in k), sha256(k) FROM t ORDER BY id;
SELECT get_byte(k, 0) FROM t WHERE id = 3;
SELECT id, get_byte(k, 0), set_byte(k, 0, 65) FROM t WHERE length(k) > 0 ORDER BY id;
SELECT id, j::text, upper(j::text), j = j::text::uuid FROM t ORDER BY id;
SET bytea_output = 'escape';
SELECT id, k FROM t ORDER BY id;
RESET bytea_output;
INSERT INTO t VALUES (7, '2025-04-01', 'not-a-uuid', '');
INSERT INTO t VALUES (7, '2025-04-01', NULL, '\xzz');
INSERT INTO t VALUES (7, '2025-04-01', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'a\\b\000c'), (8, '2026-04-01', 'a0eebc999c0b4ef8bb6d6bb9bd380a12', decode('3q2+7w==', 'base64'));
SELECT id, j, k FROM t WHERE id >= 7 ORDER BY id;
DELETE FROM t WHERE j = '00000000-0000-0000-0000-000000000001';
SELECT id, j, k FROM t ORDER BY id;
DELETE FROM t WHERE k = '\xffeeddccbbaa99887766554433221100' RETURNING *;
SELECT id, j, k FROM t ORDER BY id;
-- unordered
UPDATE t SET j = 'ffffffff-ffff-ffff-ffff-ffffffffffff', k = k || k WHERE id IN (5, 6) RETURNING id, j, k;
SELECT id, j, k FROM t ORDER BY id;
INSERT INTO t SELECT 100, '2025-05-05', NULL, string_agg(decode(lpad(to_hex(i), 2, '0'), 'hex'), '' ORDER BY i) FROM generate_series(0, 255) i;
SELECT k, length(k) FROM t WHERE id = 100;
