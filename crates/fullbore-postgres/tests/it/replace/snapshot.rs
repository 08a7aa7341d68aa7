//! All that the catalog says of a table, for a look before and after.

use fullbore_testing::{TestCluster, TestDatabase, output_of};

/// A line for each thing that the catalog knows of the table, without object ids.
const SNAPSHOT: &str = r#"
    WITH t AS (SELECT c.* FROM pg_class c WHERE oid = '{table}'::regclass),
    sequences AS (
        SELECT d.deptype, a.attname, c.oid, c.relname, c.relacl, c.relowner, c.relpersistence
          FROM t JOIN pg_depend d ON d.refobjid = t.oid AND d.classid = 'pg_class'::regclass
          JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'S'
          JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid),
    parts AS (
        SELECT 'pg_class'::regclass AS classid, oid, relname AS name FROM t
        UNION ALL SELECT 'pg_class'::regclass, c.oid, c.relname
          FROM t JOIN pg_index i ON i.indrelid = t.oid JOIN pg_class c ON c.oid = i.indexrelid
        UNION ALL SELECT 'pg_class'::regclass, oid, relname FROM sequences
        UNION ALL SELECT 'pg_constraint'::regclass, c.oid, c.conname
          FROM t JOIN pg_constraint c ON c.conrelid = t.oid
        UNION ALL SELECT 'pg_statistic_ext'::regclass, s.oid, s.stxname
          FROM t JOIN pg_statistic_ext s ON s.stxrelid = t.oid)
    SELECT 'table' AS kind, relname::text AS name,
           concat_ws(' ', relnamespace::regnamespace, reltype::regtype, relowner::regrole, relam,
                     reltablespace, relpersistence, relreplident, relrowsecurity,
                     (SELECT typarray::regtype FROM pg_type WHERE oid = reltype)) AS definition
      FROM t
    UNION ALL
    SELECT 'option', o::text, '' FROM t, unnest(reloptions) o
    UNION ALL
    SELECT 'toast option', o::text, ''
      FROM t JOIN pg_class x ON x.oid = t.reltoastrelid, unnest(x.reloptions) o
    UNION ALL
    SELECT 'grant', coalesce(relacl, acldefault('r', relowner))::text, '' FROM t
    UNION ALL
    SELECT 'column', attname,
           concat_ws(' ', row_number() OVER (ORDER BY attnum), format_type(atttypid, atttypmod),
                     attcollation, attnotnull, attidentity, attgenerated, attstorage,
                     attcompression, attstattarget, attoptions, attacl,
                     pg_get_expr(d.adbin, d.adrelid))
      FROM t JOIN pg_attribute a ON a.attrelid = t.oid AND attnum > 0 AND NOT attisdropped
      LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = attnum
    UNION ALL
    -- Those that stand for partitions of another table have names of the server's choice.
    SELECT 'constraint', CASE conparentid WHEN 0 THEN conname ELSE 'for a partition' END,
           concat_ws(' ', contype, pg_get_constraintdef(c.oid), conindid::regclass, convalidated,
                     condeferrable, condeferred, conislocal, coninhcount, connoinherit)
      FROM t JOIN pg_constraint c ON c.conrelid = t.oid
    UNION ALL
    SELECT 'index', c.relname,
           concat_ws(' ', pg_get_indexdef(c.oid), c.relowner::regrole, c.reltablespace,
                     c.relpersistence, c.reloptions, indisunique, indisprimary, indisexclusion,
                     indimmediate, indisclustered, indisvalid, indisreplident,
                     (SELECT array_agg(attstattarget ORDER BY attnum) FROM pg_attribute
                       WHERE attrelid = c.oid))
      FROM t JOIN pg_index i ON i.indrelid = t.oid JOIN pg_class c ON c.oid = i.indexrelid
    UNION ALL
    SELECT 'sequence', q.relname,
           concat_ws(' ', deptype, attname, relowner::regrole, relpersistence,
                     coalesce(relacl, acldefault('s', relowner)), s.data_type, s.start_value,
                     s.min_value, s.max_value, s.increment_by, s.cycle, s.cache_size, s.last_value)
      FROM sequences q JOIN pg_sequences s ON format('%I.%I', s.schemaname, s.sequencename)::regclass = q.oid
    UNION ALL
    SELECT 'statistics', s.stxname,
           concat_ws(' ', pg_get_statisticsobjdef(s.oid), stxowner::regrole, stxstattarget)
      FROM t JOIN pg_statistic_ext s ON s.stxrelid = t.oid
    UNION ALL
    SELECT 'comment on ' || p.classid, p.name, concat_ws(' ', a.attname, d.description)
      FROM parts p JOIN pg_description d ON d.classoid = p.classid AND d.objoid = p.oid
      LEFT JOIN pg_attribute a ON a.attrelid = p.oid AND a.attnum = nullif(d.objsubid, 0)
    ORDER BY 1, 2, 3"#;

/// What the catalog says of a table, in our own words.
pub fn of_table(database: &TestDatabase<'_>, table: &str) -> String {
    let snapshot = database.psql(&SNAPSHOT.replace("{table}", table));
    assert!(snapshot.lines().count() > 3, "{snapshot}");
    snapshot
}

/// The same in pg_dump's words, for the whole database.
pub fn by_pg_dump(cluster: &TestCluster, database: &TestDatabase<'_>) -> String {
    let mut command = std::process::Command::new(cluster.cluster().installation.program("pg_dump"));
    command.args(["--schema-only", "--dbname", database.url()]);
    let output = output_of(command);
    assert_eq!(output.code, 0, "{}", output.stderr);
    // Newer versions write a random word against injection.
    let lines = output.stdout.lines().filter(|line| !line.contains("restrict"));
    lines.map(|line| format!("{line}\n")).collect()
}
