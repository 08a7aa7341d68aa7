-- What a client is told of a table; object ids and versions differ from server to server.
CREATE TABLE t (k int8 NOT NULL, v varchar(20), n numeric(12,2), j jsonb);
SELECT d -> 'protocol' AS protocol, d -> 'extension' AS extension, d -> 'block_bytes' AS block,
       d -> 'maxalign' AS maxalign, d -> 'body_bytes_max' AS body, d -> 'refusal' AS refusal
FROM (SELECT fullbore.descriptor('t'::regclass)::jsonb) AS s(d);
SELECT c ->> 'number' AS number, c ->> 'name' AS name, c ->> 'type' AS type,
       c ->> 'modifier' AS modifier, c ->> 'length' AS length, c ->> 'align' AS align,
       c ->> 'storage' AS storage, c ->> 'not_null' AS not_null, c ->> 'form' AS form
FROM jsonb_array_elements(fullbore.descriptor('t'::regclass)::jsonb -> 'columns') AS c;
-- Tables of one shape have one hash, of another shape another.
CREATE TABLE u (LIKE t);
CREATE TABLE w (k int8, v varchar(20), n numeric(12,2), j jsonb);
SELECT fullbore.descriptor('t'::regclass)::jsonb -> 'hash'
       = fullbore.descriptor('u'::regclass)::jsonb -> 'hash' AS same,
       fullbore.descriptor('t'::regclass)::jsonb -> 'hash'
       = fullbore.descriptor('w'::regclass)::jsonb -> 'hash' AS other;
-- Every form there is.
CREATE TYPE mood AS ENUM ('sad', 'so "so"');
CREATE DOMAIN positive AS int4 CHECK (VALUE > 0);
CREATE TABLE forms (a bool, b int2, c int4, d int8, e float4, f float8, g date, h time(3),
    i timestamp, j timestamptz(0), k uuid, l text, m varchar, n char(3), o bytea, p json,
    q numeric, r mood, s oid, x1 positive, x2 int4[], x3 jsonb, x4 interval, x5 timetz);
SELECT string_agg(format('%s %s', c ->> 'name', c -> 'form'), ', ' ORDER BY (c ->> 'number')::int)
FROM jsonb_array_elements(fullbore.descriptor('forms'::regclass)::jsonb -> 'columns') AS c;
SELECT jsonb_path_query_array(fullbore.descriptor('forms'::regclass)::jsonb,
                              '$.columns[*].labels[*][0]') AS labels;
DROP TABLE t, u, w, forms;
DROP TYPE mood;
DROP DOMAIN positive;
