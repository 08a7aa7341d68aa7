-- Complain if this file is read by psql instead of ALTER EXTENSION.
\echo Use "ALTER EXTENSION fullbore UPDATE" to load this file. \quit

-- Why an index can't be filled from rows as they are loaded; NULL: it can.
CREATE FUNCTION fullbore.fills(regclass) RETURNS text
    AS 'MODULE_PATHNAME', 'fullbore_fills'
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION fullbore.fills(regclass) IS
    'why an index must be created after the load; NULL: COPY ... (FORMAT fullbore, INDEXES true) fills it';

-- Builds the indexes of a table from the rows that this transaction loaded into it with INDEXES true.
-- Returns those that are left invalid, since their keys are not unique.
CREATE FUNCTION fullbore.finish(regclass) RETURNS regclass[]
    AS 'MODULE_PATHNAME', 'fullbore_finish'
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION fullbore.finish(regclass) IS
    'builds the indexes of a table loaded in this transaction; needs EXECUTE on fullbore.descriptor';

-- The rows that share their key in a unique index that finish() left invalid, however many share it. Where there
-- are none, the index becomes valid.
CREATE FUNCTION fullbore.shared(regclass) RETURNS tid[]
    AS 'MODULE_PATHNAME', 'fullbore_shared'
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION fullbore.shared(regclass) IS
    'rows that share a key in an index that finish() left invalid; none: the index becomes valid';

-- Validates foreign keys of a table that are NOT VALID, all in one pass over it, and returns their names. Keys that do
-- not hold, and those of types that it does not know, are left for VALIDATE CONSTRAINT.
CREATE FUNCTION fullbore.validate(regclass) RETURNS text[]
    AS 'MODULE_PATHNAME', 'fullbore_validate'
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION fullbore.validate(regclass) IS
    'validates foreign keys that are NOT VALID in one pass over the table; the names of those that hold';

-- What a query gives, as binary COPY has it but for its header and its end, in stretches of whole rows. The query is
-- run with its caller's rights, search path and snapshot.
CREATE FUNCTION fullbore.rows_of(query text) RETURNS SETOF bytea
    AS 'MODULE_PATHNAME', 'fullbore_rows_of'
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION fullbore.rows_of(text) IS
    'rows of a query as binary COPY has them, many to a stretch: what a server that is copied from is asked for';
