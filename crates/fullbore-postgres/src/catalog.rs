//! What the server's catalog says of a target.

use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionError, QualifiedName, Row, Session, quote_literal};
use fullbore_read::error::Result as Done;

use crate::error::refused;
use crate::types::CatalogType;

/// Transaction ids in rows have 32 bits; those that count epochs have 64.
pub const XID_BITS: u64 = 0xffff_ffff;

/// A table that rows are to be loaded into.
#[derive(Debug, Clone)]
pub struct Relation {
    pub oid: u32,
    pub name: QualifiedName,
    pub owner: u32,
    /// It belongs to the very role of this session.
    pub is_mine: bool,
    /// `r` table, `p` partitioned table, `v` view, `f` foreign table ...
    pub kind: char,
    pub columns: Vec<Column>,
    /// Of a partitioned table: strategy (`r` range) and its key columns.
    pub partition_key: Option<(char, Vec<String>)>,
    /// Of a partition: what its parents hold its rows to.
    pub partition_constraint: Option<String>,
    pub row_security: bool,
    /// A trigger of it, or of a partition, may change rows before they are checked.
    pub is_changed_before: bool,
    /// It asks something of its rows beyond their types: CHECKs, triggers.
    pub has_checks: bool,
    /// A crash of the server empties it.
    pub is_unlogged: bool,
    /// Where it is, or its partitions are made, if not where the database is.
    pub tablespace: Option<String>,
    pub rows_estimated: f64,
    /// What it is made of, as [`SIGNATURE`] says it.
    pub signature: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub type_name: String,
    pub catalog_type: CatalogType,
    pub is_not_null: bool,
    /// Generated, so that it can't be loaded.
    pub is_generated: bool,
    pub is_identity: bool,
    /// It has a value of its own where none is given.
    pub has_default: bool,
    /// Its type has a binary form. COPY asks that of every column of a table, sent or not (`BeginCopyFrom` in
    /// PostgreSQL's copyfrom.c).
    pub has_binary_input: bool,
    /// Of an identity column: the sequence that fills it, quoted.
    pub sequence: Option<String>,
    /// What decides which of its texts comes first.
    pub collation: Collation,
}

/// How text is ordered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Collation {
    /// By its bytes, or the column has none.
    #[default]
    OfBytes,
    /// By this one, quoted, with its schema.
    Named(String),
    /// Texts that differ may be equal.
    Nondeterministic,
}

/// A number that differs where tables `c` differ in kind, persistence or columns: their places, names,
/// types, collations, whether they can be NULL or are generated. A column that was added and dropped again
/// leaves it as it was.
pub const SIGNATURE: &str = "hashtextextended(concat_ws(' ', c.relkind, c.relpersistence,
    (SELECT string_agg(concat_ws(' ', s.attnum, quote_ident(s.attname), s.atttypid, s.atttypmod,
                                 s.attcollation, s.attnotnull, 'g', s.attgenerated, 'i', s.attidentity),
                       ',' ORDER BY s.attnum)
       FROM pg_attribute s WHERE s.attrelid = c.oid AND s.attnum > 0 AND NOT s.attisdropped)), 0)";

/// Which table a name without a schema is, by the role's own search path.
fn resolved(session: &mut Session, name: &QualifiedName) -> Result<String, ConnectionError> {
    let literal = quote_literal(&name.to_string())?;
    if name.schema().is_some() {
        return Ok(format!("to_regclass({literal})"));
    }
    let rows = session.query(&format!(
        "{OF_ROLE}SELECT pg_catalog.to_regclass({literal})::pg_catalog.oid AS oid"
    ))?;
    let oid = rows.first().and_then(|row| row.get("oid")?.parse::<u32>().ok());
    Ok(oid.map_or_else(|| "NULL::oid".to_owned(), |oid| format!("{oid}::oid")))
}

/// The tables of these names that are there.
pub fn oids(session: &mut Session, names: &[String]) -> Done<Vec<u32>> {
    let mut oids = Vec::new();
    for name in names {
        let name = QualifiedName::parse(name).map_err(refused)?;
        let oid = resolved(session, &name).map_err(refused)?;
        let rows = session.query(&format!("SELECT {oid} AS oid")).map_err(refused)?;
        oids.extend(rows.first().and_then(|row| row.number::<u32>("oid")));
    }
    Ok(oids)
}

/// Looks a table up, by the role's own search path where its schema is not named; `None` where there is
/// none.
pub fn relation(
    session: &mut Session,
    name: &QualifiedName,
) -> Result<Option<Relation>, ConnectionError> {
    let oid = resolved(session, name)?;
    let found = session.query(&format!(
        "SELECT c.oid, n.nspname, c.relname, c.relkind, c.relowner,
                c.relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user) AS is_mine,
                c.relrowsecurity, c.reltuples,
                (SELECT spcname FROM pg_tablespace s WHERE s.oid = c.reltablespace) AS tablespace,
                {SIGNATURE} AS signature,
                c.relpersistence = 'u' AS is_unlogged, c.relchecks > 0 OR c.relhastriggers AS checks,
                EXISTS (SELECT FROM pg_trigger
                         WHERE (tgrelid = c.oid
                                OR tgrelid IN (SELECT relid FROM pg_partition_tree(c.oid)))
                           -- For each row, before it, of INSERT.
                           AND tgtype & 7 = 7 AND tgenabled <> 'D') AS before,
                p.partstrat,
                CASE WHEN c.relispartition THEN pg_get_partition_constraintdef(c.oid) END
                    AS partition_constraint,
                (SELECT string_agg(coalesce(a.attname, ''), E'\\x01' ORDER BY k.place)
                   FROM unnest(p.partattrs::int2[]) WITH ORDINALITY AS k(attnum, place)
                   LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
                ) AS partition_columns
           FROM pg_class c
           JOIN pg_namespace n ON n.oid = c.relnamespace
           LEFT JOIN pg_partitioned_table p ON p.partrelid = c.oid
          WHERE c.oid = {oid}"
    ))?;
    let Some(row) = found.first() else { return Ok(None) };
    let oid: u32 = row.number("oid").unwrap_or_default();
    let partition_key = row.get("partstrat").and_then(|s| s.chars().next()).map(|strategy| {
        let columns = row.text("partition_columns");
        (strategy, columns.split('\u{1}').map(str::to_owned).collect())
    });
    Ok(Some(Relation {
        oid,
        name: QualifiedName::new(row.get("nspname"), &row.text("relname"))?,
        owner: row.number("relowner").unwrap_or_default(),
        is_mine: row.flag("is_mine"),
        kind: row.text("relkind").chars().next().unwrap_or('?'),
        columns: columns(session, oid)?,
        partition_key,
        partition_constraint: row.get("partition_constraint").map(str::to_owned),
        row_security: row.flag("relrowsecurity"),
        is_changed_before: row.flag("before"),
        has_checks: row.flag("checks"),
        is_unlogged: row.flag("is_unlogged"),
        tablespace: row.get("tablespace").map(str::to_owned),
        rows_estimated: row.number("reltuples").unwrap_or_default(),
        signature: row.text("signature"),
    }))
}

fn columns(session: &mut Session, oid: u32) -> Result<Vec<Column>, ConnectionError> {
    let found = session.query(&format!(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS type_name, a.atttypmod,
                a.attnotnull, a.attgenerated <> '' AS is_generated, a.attidentity <> '' AS is_identity,
                a.atthasdef OR t.typdefault IS NOT NULL AS has_default, t.typreceive <> 0 AS has_binary_input,
                CASE WHEN a.attidentity <> ''
                     THEN pg_get_serial_sequence(a.attrelid::regclass::text, a.attname) END AS sequence,
                tn.nspname AS type_schema, t.typname, t.typtype,
                CASE WHEN t.typlen = -1 AND t.typsubscript = 'array_subscript_handler'::regproc
                     THEN t.typelem END AS element_oid,
                en.nspname AS element_schema, e.typname AS element_name, e.typtype AS element_kind,
                (SELECT string_agg(l.enumlabel, E'\\x01' ORDER BY l.enumsortorder)
                   FROM pg_enum l
                  WHERE l.enumtypid = CASE WHEN t.typtype = 'e' THEN t.oid ELSE e.oid END) AS labels,
                quote_ident(cn.nspname) || '.' || quote_ident(c.collname) AS collation, c.collisdeterministic AS is_exact,
                -- The default one is the database's; 14 knows no other provider there, and the server's own
                -- compare bytes.
                c.oid IS NULL OR CASE c.collprovider
                    WHEN 'd' THEN (SELECT coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') = 'b'
                                       OR coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') = 'c'
                                          AND d.datcollate IN ('C', 'POSIX')
                                     FROM pg_database d WHERE d.datname = current_database())
                    WHEN 'b' THEN true
                    WHEN 'c' THEN c.collcollate IN ('C', 'POSIX')
                    ELSE false END AS is_of_bytes
           FROM pg_attribute a
           JOIN pg_type t ON t.oid = a.atttypid
           JOIN pg_namespace tn ON tn.oid = t.typnamespace
           LEFT JOIN pg_type e ON e.oid = t.typelem
           LEFT JOIN pg_namespace en ON en.oid = e.typnamespace
           LEFT JOIN pg_collation c ON c.oid = a.attcollation
           LEFT JOIN pg_namespace cn ON cn.oid = c.collnamespace
          WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped
          ORDER BY a.attnum"
    ))?;
    Ok(found.iter().map(column).collect())
}

fn column(row: &Row) -> Column {
    let labels: Vec<String> = row
        .get("labels")
        .map(|l| l.split('\u{1}').map(str::to_owned).collect())
        .unwrap_or_default();
    let element = row.get("element_oid").map(|oid| {
        let element = CatalogType {
            schema: row.text("element_schema"),
            name: row.text("element_name"),
            kind: row.text("element_kind"),
            modifier: -1,
            labels: labels.clone(),
            element: None,
        };
        (Box::new(element), oid.parse().unwrap_or(0))
    });
    Column {
        name: row.text("attname"),
        type_name: row.text("type_name"),
        catalog_type: CatalogType {
            schema: row.text("type_schema"),
            name: row.text("typname"),
            kind: row.text("typtype"),
            modifier: row.number("atttypmod").unwrap_or_default(),
            labels,
            element,
        },
        is_not_null: row.flag("attnotnull"),
        is_generated: row.flag("is_generated"),
        is_identity: row.flag("is_identity"),
        has_default: row.flag("has_default"),
        has_binary_input: row.flag("has_binary_input"),
        sequence: row.get("sequence").map(str::to_owned),
        collation: match (row.flag("is_of_bytes"), row.flag("is_exact")) {
            (true, _) => Collation::OfBytes,
            (false, true) => Collation::Named(row.text("collation")),
            (false, false) => Collation::Nondeterministic,
        },
    }
}

/// Whether the database stores texts as the bytes that they are sent as.
pub fn is_utf8(session: &mut Session) -> Result<bool, ConnectionError> {
    let asked = "SELECT getdatabaseencoding() IN ('UTF8', 'SQL_ASCII') AS is_utf8";
    let rows = session.query(asked)?;
    Ok(rows.first().is_some_and(|row| row.flag("is_utf8")))
}

/// Plain tables, no partitions, in whose names a text stands.
pub fn tables_with(
    session: &mut Session,
    text: &str,
) -> Result<Vec<QualifiedName>, ConnectionError> {
    let found = session.query(&format!(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE c.relkind = 'r' AND NOT c.relispartition AND strpos(c.relname, {}) > 0",
        quote_literal(text)?
    ))?;
    let names = found
        .iter()
        .map(|row| QualifiedName::new(row.get("nspname"), row.get("relname").unwrap_or_default()));
    names.collect()
}

/// The first version whose publications can cover a schema.
pub const PUBLISHES_SCHEMAS: u32 = 150_000;

/// The names of publications that cover all tables: they would publish staging tables too.
pub fn publications_for_all_tables(session: &mut Session) -> Result<Vec<String>, ConnectionError> {
    let found = session.query("SELECT pubname FROM pg_publication WHERE puballtables")?;
    Ok(found.iter().map(|row| row.text("pubname")).collect())
}

/// The logical slots of this database that show tables whether they are published or not, by name and
/// plugin; those of publications count where one covers all tables.
pub fn logical_slots_of_all_tables(
    session: &mut Session,
) -> Result<Vec<(String, String)>, ConnectionError> {
    let found = session.query(
        "SELECT s.slot_name, s.plugin FROM pg_catalog.pg_replication_slots AS s
          WHERE s.slot_type = 'logical' AND s.database = current_database()
            AND (s.plugin <> 'pgoutput'
                 OR EXISTS (SELECT FROM pg_catalog.pg_publication WHERE puballtables))
          ORDER BY s.slot_name",
    )?;
    Ok(found.iter().map(|row| (row.text("slot_name"), row.text("plugin"))).collect())
}

/// The options of a column that are its user's, as SQL: a server may keep its own beside them, as Debian's
/// 15.20 keeps the version of its catalog entry in every column (`pg_attver`).
pub const COLUMN_OPTIONS: &str = "('n_distinct', 'n_distinct_inherited')";

/// An index or constraint to be built on a new table as it is on another one.
#[derive(Debug, Clone)]
pub struct IndexDefinition {
    pub oid: u32,
    pub name: String,
    /// What follows `CREATE [UNIQUE] INDEX ... ON table `.
    pub tail: String,
    pub is_unique: bool,
    /// Every row is found by it, and a unique one lets in no other with the same key.
    pub is_valid: bool,
    /// Empty for the database's default.
    pub tablespace: String,
    /// Storage parameters, `fillfactor='70'`.
    pub options: String,
    /// For the index behind a constraint.
    pub constraint: Option<IndexConstraint>,
}

impl IndexDefinition {
    /// The name that its owner knows: of the constraint behind it, or its own.
    pub fn known(&self) -> &str {
        self.constraint.as_ref().map_or(&self.name, |constraint| &constraint.name)
    }
}

/// A constraint that is kept by an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexConstraint {
    pub name: String,
    /// `PRIMARY KEY (a, b) DEFERRABLE`.
    pub definition: String,
    /// `PRIMARY KEY` or `UNIQUE`, where a unique index that is there already can become it.
    pub attaches: Option<String>,
    /// ` DEFERRABLE INITIALLY DEFERRED`, or nothing.
    pub timing: String,
}

/// The condition that an index `i` is over these columns alone, and over all rows.
pub fn index_is_over(columns: &[String]) -> Result<String, ConnectionError> {
    let names = columns.iter().map(|name| quote_literal(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(format!(
        "(i.indpred IS NULL AND i.indexprs IS NULL AND NOT i.indisexclusion
          AND (SELECT array_agg(a.attname::text ORDER BY a.attname) FROM pg_catalog.pg_attribute a
                WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]))
            = (SELECT array_agg(name ORDER BY name COLLATE \"C\") FROM unnest(ARRAY[{}]::text[]) AS name))",
        names.join(", ")
    ))
}

/// The indexes of a table, those behind constraints among them.
pub fn indexes(session: &mut Session, oid: u32) -> Result<Vec<IndexDefinition>, ConnectionError> {
    Ok(indexes_of(session, &[oid])?.into_iter().map(|(_, index)| index).collect())
}

/// The indexes of tables, each with its table.
pub fn indexes_of(
    session: &mut Session,
    tables: &[u32],
) -> Result<Vec<(u32, IndexDefinition)>, ConnectionError> {
    let tables: Vec<String> = tables.iter().map(u32::to_string).collect();
    // pg_get_indexdef names the table; what stands before its access method is cut off by length.
    // Constraints that are kept as exclusions (WITHOUT OVERLAPS too) can't take over an index.
    let found = session.query(&format!(
        "SELECT ic.oid, ic.relname AS name, i.indrelid, i.indisunique, i.indisvalid,
                con.conname, pg_get_constraintdef(con.oid) AS constraint_definition,
                CASE WHEN i.indisexclusion THEN NULL
                     WHEN con.contype = 'p' THEN 'PRIMARY KEY'
                     WHEN con.contype = 'u' THEN 'UNIQUE' END AS attaches,
                CASE WHEN con.condeferrable THEN ' DEFERRABLE' ELSE '' END
                || CASE WHEN con.condeferred THEN ' INITIALLY DEFERRED' ELSE '' END AS timing,
                (SELECT spcname FROM pg_tablespace s WHERE s.oid = ic.reltablespace) AS tablespace,
                (SELECT string_agg(format('%I=%L', option_name, option_value), ', ')
                   FROM pg_options_to_table(ic.reloptions)) AS options,
                substr(pg_get_indexdef(ic.oid),
                       length('CREATE ' || CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END
                              || 'INDEX ' || quote_ident(ic.relname) || ' ON '
                              || CASE WHEN c.relkind = 'p' THEN 'ONLY ' ELSE '' END
                              || quote_ident(n.nspname) || '.' || quote_ident(c.relname) || ' ') + 1
                      ) AS tail
           FROM pg_index i
           JOIN pg_class ic ON ic.oid = i.indexrelid
           JOIN pg_class c ON c.oid = i.indrelid
           JOIN pg_namespace n ON n.oid = c.relnamespace
           LEFT JOIN pg_constraint con ON con.conindid = i.indexrelid AND con.contype IN ('p', 'u', 'x')
          WHERE i.indrelid = ANY (ARRAY[{}]::oid[]) AND i.indislive
          ORDER BY i.indrelid, ic.relname",
        tables.join(", ")
    ))?;
    let index = |row: &Row| IndexDefinition {
        oid: row.number("oid").unwrap_or_default(),
        name: row.text("name"),
        tail: row.text("tail"),
        is_unique: row.flag("indisunique"),
        is_valid: row.flag("indisvalid"),
        tablespace: row.text("tablespace"),
        options: row.text("options"),
        constraint: row.get("conname").map(|name| IndexConstraint {
            name: name.to_owned(),
            definition: row.text("constraint_definition"),
            attaches: row.get("attaches").map(str::to_owned),
            timing: row.text("timing"),
        }),
    };
    Ok(found.iter().map(|row| (row.number("indrelid").unwrap_or_default(), index(row))).collect())
}
