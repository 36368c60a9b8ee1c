SELECT schema_name::pg_catalog.text, table_name::pg_catalog.text, foreign_table::pg_catalog.text
  FROM coldfront.tiered_views
 WHERE (schema_name OPERATOR(pg_catalog.=) $1::pg_catalog.name AND table_name OPERATOR(pg_catalog.=) $2::pg_catalog.name)
    OR ('coldfront_cold' OPERATOR(pg_catalog.=) $1::pg_catalog.name AND foreign_table OPERATOR(pg_catalog.=) $2::pg_catalog.name)
 LIMIT 1
