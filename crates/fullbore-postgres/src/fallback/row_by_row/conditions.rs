//! A table's per-row constraints as conditions that one statement checks for many rows.

use fullbore_load::sink::Refusal;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_identifier, quote_literal};

use crate::publish::bounds::RANGE_CHECK;

/// Partitions up to which a row's place among them is asked in one statement; beyond, the server's own
/// way to its partition is quicker.
const PARTITIONS_MAX: usize = 256;

/// The conditions of one table, in the order in which the server asks them.
#[derive(Default)]
pub struct Conditions {
    conditions: Vec<Condition>,
}

enum Condition {
    NotNull {
        column: String,
    },
    /// Broken where the expression is false; unknown is well.
    Check {
        constraint: String,
        column: Option<String>,
        expression: String,
    },
    /// It belongs to one of the partitions.
    Partition {
        expressions: Vec<String>,
    },
}

impl Conditions {
    /// Reads them from the catalog.
    pub fn of(session: &mut Session, table: &QualifiedName) -> Result<Self, ConnectionError> {
        let oid = format!("{}::regclass", quote_literal(&table.to_string())?);
        let mut conditions = Vec::new();
        // Where a row goes is found out before it is checked.
        let leaves = session.query(&format!(
            "SELECT pg_get_partition_constraintdef(t.relid) AS expression
               FROM pg_partition_tree({oid}) t
              WHERE t.isleaf AND (SELECT relkind = 'p' FROM pg_class WHERE oid = {oid})"
        ))?;
        if (1..=PARTITIONS_MAX).contains(&leaves.len()) {
            let expressions = leaves.iter().map(|row| row.get("expression").unwrap_or("true"));
            let expressions = expressions.map(str::to_owned).collect();
            conditions.push(Condition::Partition { expressions });
        }
        // An identity column that is not sent is filled only as a row enters the table itself.
        let columns = session.query(&format!(
            "SELECT attname FROM pg_attribute
              WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped AND attnotnull
                AND attidentity = '' ORDER BY attnum"
        ))?;
        conditions.extend(columns.iter().filter_map(|row| {
            let column = row.get("attname")?.to_owned();
            Some(Condition::NotNull { column })
        }));
        // Since 18 a constraint may be there without being enforced.
        let checks = session.query(&format!(
            "SELECT con.conname, pg_get_expr(con.conbin, con.conrelid) AS expression,
                    CASE WHEN cardinality(con.conkey) = 1 THEN a.attname END AS attname
               FROM pg_constraint con
               LEFT JOIN pg_attribute a ON a.attrelid = con.conrelid AND a.attnum = con.conkey[1]
              WHERE con.conrelid = {oid} AND con.contype = 'c' AND con.conname <> {}
                AND to_jsonb(con) ->> 'conenforced' IS DISTINCT FROM 'false'
              ORDER BY con.conname",
            quote_literal(RANGE_CHECK)?
        ))?;
        conditions.extend(checks.iter().filter_map(|row| {
            Some(Condition::Check {
                constraint: row.get("conname")?.to_owned(),
                column: row.get("attname").map(str::to_owned),
                expression: row.get("expression")?.to_owned(),
            })
        }));
        Ok(Self { conditions })
    }

    /// The statement that takes broken rows out of `from` and returns the place of each and the number
    /// of the first condition that it breaks. `alias` is what expressions call the table.
    pub fn sql(
        &self,
        from: &str,
        place: &str,
        alias: &str,
    ) -> Result<Option<String>, ConnectionError> {
        if self.conditions.is_empty() {
            return Ok(None);
        }
        let broken: Vec<String> =
            self.conditions.iter().map(Condition::broken).collect::<Result<_, _>>()?;
        let cases: Vec<String> = broken
            .iter()
            .enumerate()
            .map(|(number, broken)| format!("WHEN {broken} THEN {number}"))
            .collect();
        Ok(Some(format!(
            "WITH taken AS (
                 DELETE FROM {from} AS {} WHERE {}
                 RETURNING {place} AS place, CASE {} END AS broken
             ) SELECT place, broken FROM taken ORDER BY place",
            quote_identifier(alias)?,
            broken.join(" OR "),
            cases.join(" ")
        )))
    }

    /// The refusal of a row that breaks a condition, in the server's own words.
    pub fn refusal(&self, condition: usize, row: u64, table: &str) -> Refusal {
        let (column, constraint, code, reason) = match &self.conditions[condition] {
            Condition::NotNull { column } => (
                Some(column.clone()),
                None,
                "23502",
                format!(
                    "null value in column \"{column}\" of relation \"{table}\" violates not-null \
                     constraint"
                ),
            ),
            Condition::Check { constraint, column, .. } => (
                column.clone(),
                Some(constraint.clone()),
                "23514",
                format!(
                    "new row for relation \"{table}\" violates check constraint \"{constraint}\""
                ),
            ),
            Condition::Partition { .. } => {
                (None, None, "23514", format!("no partition of relation \"{table}\" found for row"))
            }
        };
        Refusal { row, column, value: None, constraint, code: code.into(), reason }
    }
}

impl Condition {
    /// An expression that is true of broken rows.
    fn broken(&self) -> Result<String, ConnectionError> {
        Ok(match self {
            Self::NotNull { column } => format!("{} IS NULL", quote_identifier(column)?),
            Self::Check { expression, .. } => format!("(({expression}) IS FALSE)"),
            Self::Partition { expressions } => {
                let any: Vec<String> =
                    expressions.iter().map(|expression| format!("({expression})")).collect();
                format!("(({}) IS NOT TRUE)", any.join(" OR "))
            }
        })
    }
}
