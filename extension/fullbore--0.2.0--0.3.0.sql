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

-- An index that says of which values a partition surely has no row. Lookups by "=" leave such partitions out:
--   CREATE INDEX ON events USING fullbore_filter (id);
CREATE FUNCTION fullbore.filter_handler(internal) RETURNS index_am_handler
    AS 'MODULE_PATHNAME', 'fullbore_filter_handler'
    LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE ACCESS METHOD fullbore_filter TYPE INDEX HANDLER fullbore.filter_handler;

COMMENT ON ACCESS METHOD fullbore_filter IS
    'says which values a partition surely does not have, so that lookups leave it out';

CREATE OPERATOR CLASS fullbore.smallint_filter DEFAULT FOR TYPE smallint USING fullbore_filter AS STORAGE smallint;
CREATE OPERATOR CLASS fullbore.integer_filter DEFAULT FOR TYPE integer USING fullbore_filter AS STORAGE integer;
CREATE OPERATOR CLASS fullbore.bigint_filter DEFAULT FOR TYPE bigint USING fullbore_filter AS STORAGE bigint;
CREATE OPERATOR CLASS fullbore.text_filter DEFAULT FOR TYPE text USING fullbore_filter AS STORAGE text;
CREATE OPERATOR CLASS fullbore.character_filter DEFAULT FOR TYPE character USING fullbore_filter AS STORAGE character;
CREATE OPERATOR CLASS fullbore.uuid_filter DEFAULT FOR TYPE uuid USING fullbore_filter AS STORAGE uuid;
CREATE OPERATOR CLASS fullbore.numeric_filter DEFAULT FOR TYPE numeric USING fullbore_filter AS STORAGE numeric;
CREATE OPERATOR CLASS fullbore.date_filter DEFAULT FOR TYPE date USING fullbore_filter AS STORAGE date;
CREATE OPERATOR CLASS fullbore.timestamp_filter DEFAULT FOR TYPE timestamp USING fullbore_filter AS STORAGE timestamp;
CREATE OPERATOR CLASS fullbore.timestamptz_filter DEFAULT FOR TYPE timestamptz USING fullbore_filter AS STORAGE timestamptz;
CREATE OPERATOR CLASS fullbore.bytea_filter DEFAULT FOR TYPE bytea USING fullbore_filter AS STORAGE bytea;
