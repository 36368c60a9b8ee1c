-- columns: id bigint, ts timestamptz, a integer, s text
-- load: INSERT INTO t SELECT i, '2025-12-20'::timestamptz + i * interval '1 day', i % 5, 's' || i FROM generate_series(1, 30) i
CREATE TABLE copy AS SELECT * FROM t WHERE a = 1;
SELECT count(*), min(s) FROM copy;
CREATE TABLE counts AS SELECT a, count(*) AS n FROM t GROUP BY a WITH NO DATA;
SELECT * FROM counts;
SELECT id, s INTO into_copy FROM t WHERE id < 3;
SELECT * FROM into_copy ORDER BY id;
CREATE TEMP TABLE tmp AS TABLE t;
SELECT count(*) FROM tmp;
CREATE VIEW v AS SELECT id, upper(s) AS up, a FROM t WHERE a > 1;
SELECT * FROM v WHERE id < 10 ORDER BY id;
SELECT v.up, t.s FROM v JOIN t USING (id) WHERE t.id = 3;
CREATE MATERIALIZED VIEW m AS SELECT a, count(*) AS n FROM t GROUP BY a;
DELETE FROM t WHERE a = 4;
SELECT * FROM m ORDER BY a;
REFRESH MATERIALIZED VIEW m;
SELECT * FROM m ORDER BY a;
CREATE FUNCTION f(n int) RETURNS TABLE (id bigint, s text) LANGUAGE sql STABLE AS $$ SELECT id, s FROM t WHERE a = n ORDER BY id $$;
SELECT * FROM f(1) LIMIT 3;
CREATE FUNCTION add(k bigint) RETURNS bigint LANGUAGE sql AS $$ INSERT INTO t (id, ts) VALUES (k, '2025-12-31') RETURNING id $$;
SELECT add(200), add(201);
SELECT id, add(id + 300) FROM t WHERE id IN (1, 2) ORDER BY id;
CREATE TRIGGER tr AFTER INSERT ON copy FOR EACH ROW EXECUTE FUNCTION nope();
CREATE FUNCTION mirror() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (NEW.id + 1000, NEW.ts, NEW.a, 'mirrored'); RETURN NEW; END $$;
CREATE TRIGGER tr AFTER INSERT ON copy FOR EACH ROW EXECUTE FUNCTION mirror();
INSERT INTO copy SELECT * FROM t WHERE id IN (2, 3);
SELECT * FROM t ORDER BY id;
