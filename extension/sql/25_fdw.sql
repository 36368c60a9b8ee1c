-- The access path: a foreign data wrapper and its one server.

CREATE FUNCTION coldfront._fdw_handler() RETURNS fdw_handler
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'coldfront_fdw_handler';
CREATE FUNCTION coldfront._fdw_validator(text[], oid) RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'coldfront_fdw_validator_wrapper';

CREATE FOREIGN DATA WRAPPER coldfront HANDLER coldfront._fdw_handler VALIDATOR coldfront._fdw_validator;
CREATE SERVER coldfront FOREIGN DATA WRAPPER coldfront;
COMMENT ON SERVER coldfront IS 'The ColdFront engine';
