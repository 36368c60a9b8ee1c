UPDATE coldfront.tiered_views
   SET hot_table = $3::pg_catalog.name
 WHERE schema_name OPERATOR(pg_catalog.=) $1::pg_catalog.name
   AND table_name OPERATOR(pg_catalog.=) $2::pg_catalog.name
