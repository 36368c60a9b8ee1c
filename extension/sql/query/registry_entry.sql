SELECT schema_name::pg_catalog.text, table_name::pg_catalog.text, foreign_table::pg_catalog.text, hot_table::pg_catalog.text, iceberg_table
  FROM coldfront.tiered_views
 WHERE (schema_name OPERATOR(pg_catalog.=) $1::pg_catalog.name
        AND $2::pg_catalog.name OPERATOR(pg_catalog.=) ANY (ARRAY[table_name, hot_table]))
    OR ('coldfront_cold' OPERATOR(pg_catalog.=) $1::pg_catalog.name AND foreign_table OPERATOR(pg_catalog.=) $2::pg_catalog.name)
 LIMIT 1
