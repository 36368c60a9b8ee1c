SELECT purpose, payload::pg_catalog.text
  FROM coldfront.storage_secret
 ORDER BY purpose
