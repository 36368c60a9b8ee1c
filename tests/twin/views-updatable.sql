-- columns: id bigint, ts timestamptz, a integer, s text
-- modes: decoupled
-- load: INSERT INTO t SELECT i, '2025-12-20'::timestamptz + i * interval '1 day', i % 5, 's' || i FROM generate_series(1, 30) i
CREATE VIEW simple AS SELECT id, ts, s FROM t WHERE id > 10;
UPDATE simple SET s = 'by view' WHERE id = 12;
DELETE FROM simple WHERE id IN (5, 13);
INSERT INTO simple VALUES (100, '2025-12-31', 'by view');
SELECT id, s FROM simple WHERE s = 'by view' ORDER BY id;
CREATE VIEW checked AS SELECT * FROM t WHERE a < 3 WITH CHECK OPTION;
INSERT INTO checked VALUES (101, '2025-12-31', 4, 'refused');
INSERT INTO checked VALUES (102, '2025-12-31', 2, 'taken');
CREATE FUNCTION g() RETURNS bigint BEGIN ATOMIC UPDATE t SET a = 9 WHERE id = 1; SELECT count(*) FROM t WHERE a = 9; END;
SELECT g();
SELECT * FROM t ORDER BY id;
