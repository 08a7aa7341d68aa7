//! Rows on their way into the partitions of a table that exists: each goes to a COPY into its own partition.
//!
//! COPY into a partitioned table finds each row's partition by one processor, and collects at most a thousand rows for
//! all partitions together before it writes them (`MAX_BUFFERED_TUPLES` in PostgreSQL's copyfrom.c): with many partitions
//! a few rows at a time. Here parsers find it, and a piece's rows wait until there are many for each
//! partition. The server checks each row against its partition's bounds, so that a mistake here is an error, never a row
//! in the wrong place. Rows whose partition is not known here go to the table itself.

mod bounds;
mod encoder;
mod find;
mod hash;

use std::collections::BTreeMap;

use fullbore_load::plan::columns::Shapes;
use fullbore_parse::Lane;
use fullbore_parse::types::{FieldType, ParseColumn};
use fullbore_pgwire::tcp_info::tcp_info;
use fullbore_pgwire::{QualifiedName, Session, quote_literal};
use fullbore_read::error::Result;

use crate::catalog::{self, Collation};
use crate::error::{failed, refused};
use crate::target::PostgresTable;
use bounds::Bound;
pub use encoder::{RoutedEncoder, parcels};
use find::{Child, Tree};

/// A longer round trip, in microseconds, costs more than it saves: each partition has COPYs of its own.
const ROUND_TRIP_MAX_US: u32 = 5_000;

/// For more partitions than this too few rows of each come together.
const LEAVES_MAX: usize = 4096;

/// What the server says of a piece that went to a partition which is none any more: by it we know our own check.
pub const MOVED: &str = "fullbore: a partition is not the one that was planned";

/// The number of the table itself, among those that rows go to.
pub const PARENT: u32 = 0;

/// A partition without partitions of its own.
#[derive(Debug)]
struct Leaf {
    oid: u32,
    name: QualifiedName,
}

/// Where the rows of a table go.
#[derive(Debug)]
pub struct Routes {
    parent: u32,
    tree: Tree,
    /// By their number, from 1 on.
    leaves: Vec<Leaf>,
    has_others: bool,
}

impl Routes {
    /// Whether there are partitions that rows are not sent to: default ones, and those that rows can't be sent to.
    pub fn has_others(&self) -> bool {
        self.has_others
    }

    /// How many COPYs a row can go to, that into the table itself among them.
    pub fn count(&self) -> usize {
        self.leaves.len() + 1
    }

    /// The partition of a number; none for the table itself.
    pub fn partition(&self, number: usize) -> Option<&QualifiedName> {
        Some(&self.leaves.get(number.checked_sub(1)?)?.name)
    }

    /// The partitions in the order of their numbers.
    pub fn partitions(&self) -> impl Iterator<Item = (u32, &QualifiedName)> {
        self.leaves.iter().map(|leaf| (leaf.oid, &leaf.name))
    }

    /// A statement that fails unless these partitions are what was planned. Rows have locked them.
    pub fn assertion(&self, numbers: impl Iterator<Item = usize>) -> Result<Option<String>> {
        let mut leaves = Vec::new();
        for number in numbers {
            let Some(leaf) = number.checked_sub(1).and_then(|place| self.leaves.get(place)) else {
                continue;
            };
            let name = quote_literal(&leaf.name.to_string()).map_err(failed)?;
            leaves.push(format!("({}::oid, {name})", leaf.oid));
        }
        if leaves.is_empty() {
            return Ok(None);
        }
        Ok(Some(format!(
            "SELECT (CASE WHEN (SELECT count(*) FROM (VALUES {}) AS leaf (oid, name)
                                 WHERE to_regclass(leaf.name)::oid = leaf.oid
                                   AND EXISTS (SELECT FROM pg_partition_ancestors(leaf.oid)
                                                WHERE relid = {}::oid)) = {}
                          THEN '1' ELSE '{MOVED}' END)::integer",
            leaves.join(", "),
            self.parent,
            leaves.len()
        )))
    }
}

/// What the catalog says of a table of the tree.
struct Node {
    oid: u32,
    name: QualifiedName,
    bound: String,
    is_leaf: bool,
    /// Rows can be sent to it.
    is_open: bool,
}

/// What a table of the tree is partitioned by.
struct PartitionKey {
    strategy: char,
    columns: Vec<String>,
    /// Columns, compared as their types are.
    is_plain: bool,
}

/// The routes of a table, or why the server has to find them.
pub fn of(
    session: &mut Session,
    target: &PostgresTable,
    shapes: &Shapes,
) -> Result<std::result::Result<Routes, String>> {
    let why_not = |why: &str| Ok(Err(why.to_owned()));
    let relation = &target.relation;
    if shapes.lane == Lane::Text {
        return why_not("rows go as text");
    }
    if relation.is_changed_before || relation.row_security {
        return why_not("triggers or policies may have a say");
    }
    let columns = &shapes.typed.columns;
    let is_sent = |name: &str| columns.iter().any(|sent| sent.name == name);
    if relation.columns.iter().any(|column| !column.is_generated && !is_sent(&column.name)) {
        return why_not("partitions may have other defaults for the columns that are not loaded");
    }
    let round_trip = session.socket().ok().and_then(|socket| tcp_info(&socket).ok());
    if round_trip.is_some_and(|way| way.min_rtt != u32::MAX && way.min_rtt > ROUND_TRIP_MAX_US) {
        return why_not("it is far away");
    }
    if has_statement_triggers(session, relation.oid)? {
        return why_not("triggers of the table are for whole statements");
    }
    let (nodes, keys) = (nodes(session, relation.oid)?, keys(session, relation.oid)?);
    let count = nodes.values().flatten().filter(|node| node.is_leaf).count();
    if !(2..=LEAVES_MAX).contains(&count) {
        return why_not(&format!("it has {count}"));
    }
    let is_utf8 = catalog::is_utf8(session).map_err(failed)?;
    let mut planting =
        Planting { target, columns, nodes, keys, is_utf8, leaves: Vec::new(), has_others: false };
    let mut tree = Tree::default();
    Ok(planting.level(&mut tree, relation.oid).map(|_| Routes {
        parent: relation.oid,
        tree,
        leaves: planting.leaves,
        has_others: planting.has_others,
    }))
}

fn has_statement_triggers(session: &mut Session, oid: u32) -> Result<bool> {
    let rows = session
        .query(&format!(
            "SELECT EXISTS (SELECT FROM pg_trigger
                             WHERE tgrelid IN (SELECT relid FROM pg_partition_tree({oid}))
                               -- Of INSERT, not for each row.
                               AND tgtype & 5 = 4 AND tgenabled <> 'D') AS found"
        ))
        .map_err(refused)?;
    Ok(rows.first().is_some_and(|row| row.flag("found")))
}

/// The tables of a tree by their parents.
fn nodes(session: &mut Session, oid: u32) -> Result<BTreeMap<u32, Vec<Node>>> {
    let rows = session
        .query(&format!(
            "SELECT c.oid, t.parentrelid::oid AS parent, n.nspname, c.relname, t.isleaf,
                    c.relkind = 'r' AND NOT c.relrowsecurity AND has_table_privilege(c.oid, 'INSERT')
                        AND has_schema_privilege(n.oid, 'USAGE') AS is_open,
                    pg_get_expr(c.relpartbound, c.oid) AS bound
               FROM pg_partition_tree({oid}) t
               JOIN pg_class c ON c.oid = t.relid
               JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE t.level > 0
              ORDER BY n.nspname, c.relname"
        ))
        .map_err(refused)?;
    let mut nodes = BTreeMap::<u32, Vec<Node>>::new();
    for row in &rows {
        let name = QualifiedName::new(row.get("nspname"), row.get("relname").unwrap_or_default());
        nodes.entry(row.number("parent").unwrap_or_default()).or_default().push(Node {
            oid: row.number("oid").unwrap_or_default(),
            name: name.map_err(refused)?,
            bound: row.text("bound"),
            is_leaf: row.flag("isleaf"),
            is_open: row.flag("is_open"),
        });
    }
    Ok(nodes)
}

/// The keys of a tree's partitioned tables.
fn keys(session: &mut Session, oid: u32) -> Result<BTreeMap<u32, PartitionKey>> {
    let rows = session
        .query(&format!(
            "SELECT p.partrelid::oid AS oid, p.partstrat,
                    string_agg(coalesce(a.attname, ''), E'\\x01' ORDER BY k.place) AS columns,
                    bool_and(a.attname IS NOT NULL AND o.opcdefault
                             AND k.coll IN (0, a.attcollation)) AS is_plain
               FROM pg_partitioned_table p
              CROSS JOIN unnest(p.partattrs::int2[], p.partclass::oid[], p.partcollation::oid[])
                    WITH ORDINALITY AS k(attnum, class, coll, place)
               LEFT JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = k.attnum
               LEFT JOIN pg_opclass o ON o.oid = k.class
              WHERE p.partrelid IN (SELECT relid FROM pg_partition_tree({oid}))
              GROUP BY p.partrelid, p.partstrat"
        ))
        .map_err(refused)?;
    let key = |row: &fullbore_pgwire::Row| PartitionKey {
        strategy: row.text("partstrat").chars().next().unwrap_or('?'),
        columns: row.text("columns").split('\u{1}').map(str::to_owned).collect(),
        is_plain: row.flag("is_plain"),
    };
    Ok(rows.iter().map(|row| (row.number("oid").unwrap_or_default(), key(row))).collect())
}

/// A tree that is being made.
struct Planting<'a> {
    target: &'a PostgresTable,
    columns: &'a [ParseColumn],
    nodes: BTreeMap<u32, Vec<Node>>,
    keys: BTreeMap<u32, PartitionKey>,
    /// Texts are stored as the bytes that they are sent as.
    is_utf8: bool,
    leaves: Vec<Leaf>,
    has_others: bool,
}

impl Planting<'_> {
    /// Adds a partitioned table with all that is below it; its place in the tree.
    fn level(&mut self, tree: &mut Tree, oid: u32) -> std::result::Result<usize, String> {
        let key =
            self.keys.remove(&oid).ok_or("the server does not say what it is partitioned by")?;
        if !key.is_plain {
            return Err("its key is an expression, or has an order of its own".into());
        }
        let places = key.columns.iter().map(|name| self.place(name, key.strategy));
        let places = places.collect::<std::result::Result<Vec<_>, _>>()?;
        let types: Vec<FieldType> =
            places.iter().map(|place| self.columns[*place].field_type.clone()).collect();
        let level = tree.begin(key.strategy, &places, &types)?;
        for node in self.nodes.remove(&oid).unwrap_or_default() {
            // Rows of no other partition go to the table itself, and from there to the default one.
            let Some(bound) = Bound::parse(&node.bound)
                .ok_or_else(|| format!("the bounds of {} are not understood", node.name))?
            else {
                self.has_others = true;
                continue;
            };
            let child = match node.is_leaf {
                false => Some(Child::Level(self.level(tree, node.oid)?)),
                true if node.is_open => {
                    self.leaves.push(Leaf { oid: node.oid, name: node.name.clone() });
                    Some(Child::Leaf(self.leaves.len() as u32))
                }
                true => {
                    self.has_others = true;
                    None
                }
            };
            if let Some(child) = child {
                let added = tree.add(level, &bound, &types, child);
                added.map_err(|why| format!("{}: {why}", node.name))?;
            }
        }
        tree.end(level);
        Ok(level)
    }

    /// The place of a key's column among those that are sent, where its values are told apart here as there.
    fn place(&self, name: &str, strategy: char) -> std::result::Result<usize, String> {
        let place = self.columns.iter().position(|column| column.name == name);
        let column = self.target.relation.columns.iter().find(|column| column.name == name);
        let (Some(place), Some(column)) = (place, column) else {
            return Err(format!("key {name} is not loaded"));
        };
        let kind = &column.catalog_type;
        let is_hashed = strategy == 'h';
        let is_known = kind.schema == "pg_catalog"
            && match (kind.name.as_str(), &self.columns[place].field_type) {
                ("int2" | "int4" | "int8" | "date" | "uuid" | "bool", _) => true,
                // Others are rounded by the server.
                ("timestamp" | "timestamptz", _) => matches!(kind.modifier, -1 | 6),
                ("numeric", FieldType::Decimal { .. }) => !is_hashed,
                // The bytes that the server hashes and orders are those of the database's encoding.
                ("text" | "varchar", _) if !self.is_utf8 && strategy != 'l' => false,
                ("text" | "varchar", _) => match column.collation {
                    Collation::OfBytes => true,
                    Collation::Named(_) => strategy != 'r',
                    Collation::Nondeterministic => false,
                },
                _ => false,
            };
        match is_known {
            true => Ok(place),
            false => Err(format!("key {name} has type {}", column.type_name)),
        }
    }
}
