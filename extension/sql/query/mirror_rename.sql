SELECT coldfront._mirror_rename($1, $2, $3::pg_catalog.name, $4::pg_catalog.name)
