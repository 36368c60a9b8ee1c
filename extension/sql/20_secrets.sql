-- Credentials of the object store and of the catalog. Kept in a table that only superusers can read and that no dump
-- holds; the engine keeps them in memory only.

CREATE TABLE coldfront.storage_secret (
    -- 'storage' or 'catalog'
    purpose text PRIMARY KEY CHECK (purpose IN ('storage', 'catalog')),
    payload jsonb NOT NULL
);
COMMENT ON TABLE coldfront.storage_secret IS 'Credentials; superusers only';
REVOKE ALL ON coldfront.storage_secret FROM PUBLIC;

CREATE FUNCTION coldfront._announce_secret_change() RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', '_announce_secret_change_wrapper';

CREATE FUNCTION coldfront._on_secret_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM coldfront._announce_secret_change();
    RETURN NULL;
END
$$;

CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON coldfront.storage_secret
    FOR EACH STATEMENT EXECUTE FUNCTION coldfront._on_secret_change();

-- Writes one credential. SECURITY DEFINER so that coldfront_admin may set what it cannot read.
CREATE FUNCTION coldfront._store_secret(p_purpose text, p_payload jsonb) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO coldfront.storage_secret (purpose, payload) VALUES (p_purpose, p_payload)
    ON CONFLICT (purpose) DO UPDATE SET payload = EXCLUDED.payload;
$$;

CREATE FUNCTION coldfront.set_storage_secret(
    key text, secret text, endpoint text DEFAULT NULL, region text DEFAULT 'us-east-1',
    url_style text DEFAULT 'path', use_ssl boolean DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF key IS NULL OR secret IS NULL THEN
        RAISE EXCEPTION 'coldfront: key and secret must not be NULL' USING ERRCODE = '22004';
    END IF;
    IF url_style NOT IN ('path', 'vhost') THEN
        RAISE EXCEPTION 'coldfront: url_style must be path or vhost' USING ERRCODE = '22023';
    END IF;
    PERFORM coldfront._store_secret('storage', jsonb_build_object('S3', jsonb_build_object(
        'key', key, 'secret', secret, 'endpoint', endpoint, 'region', region, 'url_style', url_style,
        'use_ssl', coalesce(use_ssl, endpoint IS NULL OR endpoint NOT LIKE 'http://%'))));
END
$$;
COMMENT ON FUNCTION coldfront.set_storage_secret IS 'Sets the S3 credentials of the lake''s object store';

CREATE FUNCTION coldfront.set_storage_secret_azure(connection_string text) RETURNS void
    LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT coldfront._store_secret('storage',
        jsonb_build_object('Azure', jsonb_build_object('connection_string', connection_string)));
$$;
COMMENT ON FUNCTION coldfront.set_storage_secret_azure IS 'Sets the Azure credentials of the lake''s object store';

CREATE FUNCTION coldfront.set_storage_secret_vended(kind text DEFAULT 's3') RETURNS void
    LANGUAGE plpgsql STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF kind NOT IN ('s3', 'azure', 'gcs') THEN
        RAISE EXCEPTION 'coldfront: kind must be s3, azure or gcs' USING ERRCODE = '22023';
    END IF;
    PERFORM coldfront._store_secret('storage', jsonb_build_object('Vended', jsonb_build_object('kind', kind)));
END
$$;
COMMENT ON FUNCTION coldfront.set_storage_secret_vended IS 'Uses the credentials that the catalog hands out with each table';

CREATE FUNCTION coldfront.set_catalog_secret(
    client_id text, client_secret text, token_url text DEFAULT NULL, scope text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF client_id IS NULL OR client_secret IS NULL THEN
        RAISE EXCEPTION 'coldfront: client_id and client_secret must not be NULL' USING ERRCODE = '22004';
    END IF;
    PERFORM coldfront._store_secret('catalog', jsonb_build_object('OAuth2', jsonb_build_object(
        'client_id', client_id, 'client_secret', client_secret, 'token_url', token_url, 'scope', scope)));
END
$$;
COMMENT ON FUNCTION coldfront.set_catalog_secret IS 'Sets the OAuth2 client credentials for the Iceberg catalog';

CREATE FUNCTION coldfront.set_catalog_token(bearer text) RETURNS void
    LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT coldfront._store_secret('catalog', jsonb_build_object('Bearer', jsonb_build_object('token', bearer)));
$$;
COMMENT ON FUNCTION coldfront.set_catalog_token IS 'Sets a bearer token for the Iceberg catalog';
