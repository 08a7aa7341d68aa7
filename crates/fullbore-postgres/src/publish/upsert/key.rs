//! The key by which rows are merged: an index of the target must hold it to be unique.

use fullbore_load::job::{OnConflict, Upsert};
use fullbore_load::plan::lineage::ORDER_COLUMN;
use fullbore_pgwire::{QualifiedName, Row, Session, quote_identifier};
use fullbore_read::error::{Error, Result};

use crate::catalog::Relation;
use crate::error::{failed, refuse, refused};

/// A column of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    pub quoted: String,
    /// The operator by which its index finds equal values, with its schema.
    pub equals: String,
}

/// How rows are merged with those of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merging {
    pub asked: Upsert,
    /// In the order of the index.
    pub key: Vec<KeyColumn>,
}

/// The unique indexes that hold for all rows at any time, each with its columns in their order. Strategy 3 of a B-tree
/// is equality.
const INDEXES: &str = "
    SELECT bool_or(i.indisprimary) AS is_primary, string_agg(a.attname, E'\\x01' ORDER BY k.place) AS columns,
           string_agg(format('OPERATOR(%I.%s)', n.nspname, o.oprname), E'\\x01' ORDER BY k.place) AS operators
      FROM pg_index i, unnest(i.indkey::int2[], i.indclass::oid[]) WITH ORDINALITY AS k(attnum, class, place)
      JOIN pg_opclass c ON c.oid = k.class
      JOIN pg_amop p ON p.amopfamily = c.opcfamily AND p.amopstrategy = 3
                    AND p.amoplefttype = c.opcintype AND p.amoprighttype = c.opcintype
      JOIN pg_operator o ON o.oid = p.amopopr
      JOIN pg_namespace n ON n.oid = o.oprnamespace
      JOIN pg_attribute a ON a.attnum = k.attnum
     WHERE i.indrelid = {oid} AND a.attrelid = i.indrelid AND k.place <= i.indnkeyatts
       AND i.indisunique AND i.indisvalid AND i.indisready AND i.indimmediate
       AND i.indpred IS NULL AND i.indexprs IS NULL
     GROUP BY i.indexrelid ORDER BY bool_or(i.indisprimary) DESC, i.indexrelid";

/// Finds how rows are merged; refuses what can't be, by name.
pub fn find(session: &mut Session, relation: &Relation, asked: &Upsert) -> Result<Merging> {
    let name = &relation.name;
    let has = |column: &str| relation.columns.iter().any(|known| known.name == column);
    let newest = match &asked.on_conflict {
        OnConflict::Newest(column) => Some(column),
        OnConflict::Update | OnConflict::Nothing => None,
    };
    if let Some(missing) = asked.key.iter().chain(newest).find(|column| !has(column)) {
        let known: Vec<&str> = relation.columns.iter().map(|column| column.name.as_str()).collect();
        return Err(refuse(
            format!("{name} has no column {missing:?}; it has {}", known.join(", ")),
            "check --key and --on-conflict",
        ));
    }
    if has(ORDER_COLUMN) {
        return Err(refuse(
            format!("{name} has a column {ORDER_COLUMN:?}, which staging tables of upsert use"),
            "rename the column",
        ));
    }
    if asked.delete_missing {
        let may = format!("SELECT has_table_privilege({}, 'DELETE') AS may", relation.oid);
        let found = session.query(&may).map_err(refused)?;
        if !found.first().is_some_and(|row| row.flag("may")) {
            return Err(refuse(
                format!("permission denied: this role lacks DELETE privilege on {name}"),
                "grant it to the role, or omit --delete-missing",
            ));
        }
    }
    let indexes = unique_indexes(session, &relation.oid.to_string())?;
    let is_it = |index: &&UniqueIndex| match asked.key.is_empty() {
        true => index.is_primary,
        false => index.equals(&asked.key).is_some(),
    };
    let Some(index) = indexes.iter().find(is_it) else {
        return Err(no_key(name, &asked.key, &indexes));
    };
    let key = index.columns.iter().zip(&index.operators).map(|(name, equals)| {
        let quoted = quote_identifier(name).map_err(failed)?;
        Ok(KeyColumn { quoted, equals: equals.clone() })
    });
    let key = key.collect::<Result<_>>()?;
    Ok(Merging { asked: Upsert { key: index.columns.clone(), ..asked.clone() }, key })
}

/// A unique index that holds for all rows at any time.
pub struct UniqueIndex {
    is_primary: bool,
    /// In their order.
    columns: Vec<String>,
    /// The operator by which each is found equal, with its schema.
    operators: Vec<String>,
}

impl UniqueIndex {
    /// The operators of a key's columns, where the index is over these alone.
    pub fn equals(&self, key: &[String]) -> Option<Vec<&str>> {
        let of = |name: &String| {
            let place = self.columns.iter().position(|column| column == name)?;
            self.operators.get(place).map(String::as_str)
        };
        if self.columns.len() == key.len() { key.iter().map(of).collect() } else { None }
    }
}

/// The unique indexes of a table, that of its primary key first; `oid` is SQL.
pub fn unique_indexes(session: &mut Session, oid: &str) -> Result<Vec<UniqueIndex>> {
    let found = session.query(&INDEXES.replace("{oid}", oid)).map_err(refused)?;
    let list = |row: &Row, name: &str| -> Vec<String> {
        row.text(name).split('\u{1}').map(str::to_owned).collect()
    };
    let of = |row: &Row| UniqueIndex {
        is_primary: row.flag("is_primary"),
        columns: list(row, "columns"),
        operators: list(row, "operators"),
    };
    Ok(found.iter().map(of).collect())
}

fn no_key(name: &QualifiedName, asked: &[String], indexes: &[UniqueIndex]) -> Error {
    if asked.is_empty() {
        return refuse(
            format!("{name} has no primary key to tell its rows apart by"),
            "name the columns of another unique index with --key a,b",
        );
    }
    let list = asked.join(", ");
    let known: Vec<String> =
        indexes.iter().map(|index| format!("({})", index.columns.join(", "))).collect();
    let known = match known.is_empty() {
        true => "it has none".to_owned(),
        false => format!("it has them on {}", known.join(", ")),
    };
    refuse(
        format!("no unique index of {name} is on ({list}); {known}"),
        format!("CREATE UNIQUE INDEX ON {name} ({list}), or name another key with --key"),
    )
}

impl Merging {
    /// The condition that rows `a` and `b` have one key.
    pub fn same_key(&self, a: &str, b: &str) -> String {
        let equal = self
            .key
            .iter()
            .map(|KeyColumn { quoted, equals, .. }| format!("{a}.{quoted} {equals} {b}.{quoted}"));
        equal.collect::<Vec<_>>().join(" AND ")
    }

    /// The key as a list, each column after a prefix such as `s.`.
    pub fn list(&self, prefix: &str) -> String {
        let columns = self.key.iter().map(|column| format!("{prefix}{}", column.quoted));
        columns.collect::<Vec<_>>().join(", ")
    }
}
