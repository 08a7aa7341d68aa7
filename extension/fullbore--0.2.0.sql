-- Complain if this file is read by psql instead of CREATE EXTENSION.
\echo Use "CREATE EXTENSION fullbore" to load this file. \quit

-- The layout that bodies of a table must have, as JSON, and why the table would be refused.
-- Calling it also loads the library, and with it the hook that knows COPY ... (FORMAT fullbore).
CREATE FUNCTION fullbore.descriptor(regclass) RETURNS text
    AS 'MODULE_PATHNAME', 'fullbore_descriptor'
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION fullbore.descriptor(regclass) IS
    'layout of a table''s rows for COPY ... (FORMAT fullbore); EXECUTE on it is the right to load directly';

-- Takes over all rows of the second table, which stay in it, too. The first one must be new in this
-- transaction, as for a direct COPY, and both must have one layout. Returns the number of rows.
CREATE FUNCTION fullbore.adopt(regclass, regclass) RETURNS bigint
    AS 'MODULE_PATHNAME', 'fullbore_adopt'
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION fullbore.adopt(regclass, regclass) IS
    'copies rows into a new table of the same layout; needs EXECUTE on fullbore.descriptor';

-- The DBA grants direct loads:
--   GRANT USAGE ON SCHEMA fullbore TO loader;
--   GRANT EXECUTE ON FUNCTION fullbore.descriptor(regclass) TO loader;
REVOKE ALL ON FUNCTION fullbore.descriptor(regclass) FROM PUBLIC;
