-- Tables that can't be loaded directly, and what their owners are told.
CREATE FUNCTION pg_temp.refusal(oid) RETURNS text LANGUAGE sql AS $$
    SELECT format(E'%s: %s\n%s\n%s', r ->> 'code', r ->> 'message', r ->> 'detail', r ->> 'hint')
    FROM (SELECT fullbore.descriptor($1)::jsonb -> 'refusal') AS s(r)
    WHERE r <> 'null'
$$;
\pset format unaligned
\pset tuples_only on
CREATE VIEW a_view AS SELECT 1 AS k;
CREATE TEMP TABLE a_temp (k int4);
CREATE TABLE parted (k int4) PARTITION BY RANGE (k);
CREATE TABLE a_partition PARTITION OF parted FOR VALUES FROM (1) TO (2);
CREATE TABLE parent (k int4);
CREATE TABLE child () INHERITS (parent);
CREATE TABLE dropped (k int4, l int4);
ALTER TABLE dropped DROP COLUMN l;
CREATE TABLE generated (k int4, l int4 GENERATED ALWAYS AS (k + 1) STORED);
CREATE TABLE missing (k int4);
INSERT INTO missing VALUES (1);
ALTER TABLE missing ADD COLUMN l int4 DEFAULT 5;
CREATE TABLE indexed (k int4 PRIMARY KEY);
CREATE INDEX by_next ON indexed ((k + 1));
CREATE TABLE triggered (k int4 REFERENCES indexed);
CREATE TABLE ruled (k int4);
CREATE RULE nothing AS ON INSERT TO ruled DO INSTEAD NOTHING;
CREATE TABLE secured (k int4);
ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
CREATE TABLE published (k int4);
SET client_min_messages = error;
CREATE PUBLICATION pub FOR TABLE published;
RESET client_min_messages;
SELECT pg_temp.refusal('a_view'::regclass);
SELECT pg_temp.refusal('a_temp'::regclass);
SELECT pg_temp.refusal('parted'::regclass);
SELECT coalesce(pg_temp.refusal('a_partition'::regclass), 'a partition is fine');
SELECT pg_temp.refusal('child'::regclass);
SELECT pg_temp.refusal('dropped'::regclass);
SELECT pg_temp.refusal('generated'::regclass);
SELECT pg_temp.refusal('missing'::regclass);
SELECT pg_temp.refusal('indexed'::regclass);
SELECT pg_temp.refusal('triggered'::regclass);
SELECT pg_temp.refusal('ruled'::regclass);
SELECT pg_temp.refusal('secured'::regclass);
SELECT pg_temp.refusal('published'::regclass);
SELECT pg_temp.refusal('pg_catalog.pg_class'::regclass);
SELECT coalesce(pg_temp.refusal('parent'::regclass), 'a parent is fine');
-- All tables, where a publication says so.
SET client_min_messages = error;
DROP PUBLICATION pub;
CREATE PUBLICATION everything FOR ALL TABLES;
RESET client_min_messages;
SELECT pg_temp.refusal('parent'::regclass);
DROP PUBLICATION everything;
-- A partition, where its parent is published.
SET client_min_messages = error;
CREATE PUBLICATION of_parent FOR TABLE parted;
RESET client_min_messages;
SELECT pg_temp.refusal('a_partition'::regclass);
DROP PUBLICATION of_parent;
DROP VIEW a_view;
DROP TABLE parted, parent, child, dropped, generated, missing, triggered, indexed, ruled, secured,
    published;
