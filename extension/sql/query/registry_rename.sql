UPDATE coldfront.tiered_views
   SET schema_name = $3::pg_catalog.name, table_name = $4::pg_catalog.name
 WHERE schema_name OPERATOR(pg_catalog.=) $1::pg_catalog.name
   AND table_name OPERATOR(pg_catalog.=) $2::pg_catalog.name
