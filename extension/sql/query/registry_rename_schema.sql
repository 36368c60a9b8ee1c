UPDATE coldfront.tiered_views
   SET schema_name = $2::pg_catalog.name
 WHERE schema_name OPERATOR(pg_catalog.=) $1::pg_catalog.name
