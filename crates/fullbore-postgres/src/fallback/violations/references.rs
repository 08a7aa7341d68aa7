//! Finds rows whose referenced row is missing.

use fullbore_pgwire::{ConnectionError, Row, Session, quote_literal};
use fullbore_read::error::Result;
use fullbore_record::terms::Publish;

use super::{Checked, REMOVED, Reason};
use crate::error::failed;

/// A foreign key of the target.
struct ForeignKey {
    name: String,
    /// The other table, or `None` for the target itself.
    parent: Option<String>,
    parent_oid: u32,
    parent_shown: String,
    columns: Vec<String>,
    parent_columns: Vec<String>,
    /// `OPERATOR(schema.=)` each, with the other table's column on the left.
    operators: Vec<String>,
    is_full: bool,
}

/// Marks the end of each name in a list.
const SEPARATOR: char = '\u{1}';

fn foreign_keys(
    session: &mut Session,
    table: &Checked<'_>,
) -> Result<Vec<ForeignKey>, ConnectionError> {
    // A key that is only promised (NOT VALID) is asked of rows that join the target, not of those that
    // replace it. Since 18 a key may not be enforced at all, or be about periods.
    let valid = if table.joins_target() { "true" } else { "convalidated" };
    let names = |relation: &str, keys: &str| {
        format!(
            "(SELECT string_agg(quote_ident(a.attname), E'\\x01' ORDER BY k.place)
                FROM unnest({keys}) WITH ORDINALITY AS k(number, place)
                JOIN pg_attribute a ON a.attrelid = {relation} AND a.attnum = k.number)"
        )
    };
    let rows = session.query(&format!(
        "SELECT conname, confrelid AS parent_oid,
                CASE c.relkind WHEN 'p' THEN '' ELSE 'ONLY ' END || confrelid::regclass AS parent, c.relname AS parent_shown,
                conrelid = confrelid AS is_itself, confmatchtype = 'f' AS is_full,
                {} AS columns, {} AS parent_columns,
                (SELECT string_agg(format('OPERATOR(%I.%s)', n.nspname, o.oprname), E'\\x01'
                                   ORDER BY k.place)
                   FROM unnest(conpfeqop) WITH ORDINALITY AS k(operator, place)
                   JOIN pg_operator o ON o.oid = k.operator
                   JOIN pg_namespace n ON n.oid = o.oprnamespace) AS operators
           FROM pg_constraint con JOIN pg_class c ON c.oid = con.confrelid
          WHERE conrelid = to_regclass({}) AND contype = 'f' AND conparentid = 0 AND {valid}
            AND to_jsonb(con) ->> 'conenforced' IS DISTINCT FROM 'false'
            AND to_jsonb(con) ->> 'conperiod' IS DISTINCT FROM 'true'
          ORDER BY conname",
        names("conrelid", "conkey"),
        names("confrelid", "confkey"),
        quote_literal(&table.target.name().to_string())?
    ))?;
    Ok(rows.iter().map(foreign_key).collect())
}

fn foreign_key(row: &Row) -> ForeignKey {
    let text = |name: &str| row.get(name).unwrap_or_default().to_owned();
    let list = |name: &str| text(name).split(SEPARATOR).map(str::to_owned).collect();
    ForeignKey {
        name: text("conname"),
        parent: (!row.flag("is_itself")).then(|| text("parent")),
        parent_oid: text("parent_oid").parse().unwrap_or(0),
        parent_shown: text("parent_shown"),
        columns: list("columns"),
        parent_columns: list("parent_columns"),
        operators: list("operators"),
        is_full: row.flag("is_full"),
    }
}

impl ForeignKey {
    /// Where the rows are that the table's own may refer to.
    fn parents(&self, table: &Checked<'_>) -> Vec<String> {
        let own = table.heaps.iter().map(ToString::to_string);
        match &self.parent {
            // The run may be about to show rows of the other table, too.
            Some(parent) => {
                let loaded = table.others.iter();
                let loaded: Vec<_> =
                    loaded.filter(|other| other.target.relation.oid == self.parent_oid).collect();
                let heaps = loaded.iter().flat_map(|other| &other.heaps).map(ToString::to_string);
                // One that is replaced keeps none of its rows.
                let is_replaced =
                    loaded.iter().any(|other| other.target.publish == Publish::Replace);
                heaps.chain((!is_replaced).then(|| parent.clone())).collect()
            }
            None if table.joins_target() => own.chain([table.target.alone()]).collect(),
            None => own.collect(),
        }
    }

    /// What is true of a row `h` that refers to nothing.
    fn broken(&self, table: &Checked<'_>) -> String {
        let is = |what: &str, joined: &str| {
            let each: Vec<String> =
                self.columns.iter().map(|column| format!("h.{column} {what}")).collect();
            format!("({})", each.join(joined))
        };
        let same: Vec<String> = self
            .columns
            .iter()
            .zip(&self.parent_columns)
            .zip(&self.operators)
            .map(|((column, parent), operator)| format!("p.{parent} {operator} h.{column}"))
            .collect();
        let missing: Vec<String> = self
            .parents(table)
            .iter()
            .map(|parent| {
                format!("NOT EXISTS (SELECT FROM {parent} p WHERE {})", same.join(" AND "))
            })
            .collect();
        let missing = format!("{} AND {}", is("IS NOT NULL", " AND "), missing.join(" AND "));
        match self.is_full {
            true => format!(
                "({missing}) OR ({} AND NOT {})",
                is("IS NULL", " OR "),
                is("IS NULL", " AND ")
            ),
            false => missing,
        }
    }

    fn reason(&self, table: &Checked<'_>) -> Reason {
        let key: Vec<String> = self.columns.iter().map(|column| format!("m.{column}")).collect();
        let sent = self
            .columns
            .iter()
            .all(|column| table.names.iter().any(|name| unquoted(name) == unquoted(column)));
        Reason {
            column: match self.columns.as_slice() {
                [column] => Some(unquoted(column)),
                _ => None,
            },
            constraint: Some(self.name.clone()),
            code: "23503".into(),
            key: sent.then(|| format!("concat_ws(', ', {})", key.join(", "))),
            words: format!(
                "insert or update on table \"{}\" violates foreign key constraint \"{}\" (Key ({})=({{key}}) \
                 is not present in table \"{}\".)",
                table.target.name().name(),
                self.name,
                self.columns.iter().map(|c| unquoted(c)).collect::<Vec<_>>().join(", "),
                self.parent_shown
            ),
        }
    }
}

fn unquoted(name: &str) -> String {
    let inner = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    inner.map_or_else(|| name.to_owned(), |inner| inner.replace("\"\"", "\""))
}

/// Takes rows out whose counterpart is missing; how many.
pub fn take_out(
    session: &mut Session,
    table: &Checked<'_>,
    reasons: &mut Vec<Reason>,
) -> Result<u64> {
    let keys = foreign_keys(session, table).map_err(failed)?;
    let mut removed = 0;
    for key in &keys {
        let number = reasons.len();
        reasons.push(key.reason(table));
        // What refers to rows of the same table may lose its counterpart by this very removal.
        loop {
            let mut by_this = 0;
            for (heap_number, heap) in table.heaps.iter().enumerate() {
                by_this += session
                    .execute(&format!(
                        "WITH gone AS (DELETE FROM {heap} h WHERE {} RETURNING {})
                         INSERT INTO {REMOVED} SELECT *, {number}, {heap_number} FROM gone",
                        key.broken(table),
                        table.list("h.")
                    ))
                    .map_err(failed)?;
            }
            removed += by_this;
            if by_this == 0 || key.parent.is_some() || table.target.publish == Publish::Partitions {
                break;
            }
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::unquoted;
    use fullbore_pgwire::quote_identifier;

    #[test]
    fn names_lose_their_quotes() {
        assert_eq!(unquoted("plain"), "plain");
        assert_eq!(unquoted("\"it's \"\"so\"\"\""), "it's \"so\"");
        assert_eq!(unquoted(&quote_identifier("a b").unwrap()), "a b");
    }
}
