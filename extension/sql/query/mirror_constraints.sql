SELECT coldfront._mirror_constraints($1::pg_catalog.regclass, $2::pg_catalog.regclass, $3)
