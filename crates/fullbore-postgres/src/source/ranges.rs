//! A query whose rows are divided by ranges of a key.

use std::collections::VecDeque;
use std::ops::Range;

use fullbore_parse::types::FieldType;
use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{QualifiedName, Session, quote_identifier};
use fullbore_read::error::Result;

use super::Stretch;
use crate::catalog::Relation;
use crate::error::{refuse, refused};

/// Ranges of a key: many more than sessions, so that uneven ones matter little.
const RANGES: u64 = 64;
/// More rows than a range has.
const ROWS_PER_RANGE: u64 = 1 << 40;

/// The view that tells the columns of a query; it ends with its session.
const VIEW: &str = "fullbore_source";

pub struct Ranges {
    /// Each range, as what follows `FROM`.
    from: Vec<String>,
    /// What one of them has, by the server's estimate.
    bytes: u64,
}

/// Makes a view of a query, to know its columns by.
pub fn view_of(keeper: &mut Session, query: &str, told: &str) -> Result<QualifiedName> {
    let query = query.trim().trim_end_matches(';');
    keeper.execute(&format!("{OF_ROLE}CREATE TEMP VIEW {VIEW} AS {query}")).map_err(|error| {
        refuse(
            format!("{told}: {error}"),
            "--query takes one SELECT whose columns have names; the role needs TEMPORARY on the database",
        )
    })?;
    QualifiedName::new(Some("pg_temp"), VIEW).map_err(refused)
}

impl Ranges {
    /// The ranges of a query; one alone without a key.
    pub fn of(
        keeper: &mut Session,
        relation: &Relation,
        query: &str,
        key: Option<&str>,
        told: &str,
    ) -> Result<Self> {
        let query = query.trim().trim_end_matches(';');
        let rows = format!("({query}) AS fullbore_rows");
        let from = match key {
            None => vec![rows.clone()],
            Some(key) => conditions(keeper, relation, &rows, key, told)?,
        };
        let explained =
            keeper.query(&format!("{OF_ROLE}EXPLAIN (FORMAT JSON) {query}")).map_err(refused)?;
        let text = explained.first().map(|row| row.text("QUERY PLAN")).unwrap_or_default();
        if key.is_some() {
            check_is_the_same(query, &text, told)?;
        }
        let number = |name: &str| {
            let plan: Option<serde_json::Value> = serde_json::from_str(&text).ok();
            plan.and_then(|plan| plan[0]["Plan"][name].as_f64()).unwrap_or_default()
        };
        let bytes = number("Plan Rows") * number("Plan Width");
        Ok(Self { bytes: bytes as u64 / from.len() as u64 + 1, from })
    }

    pub fn groups(&self) -> Vec<(u64, u64)> {
        vec![(ROWS_PER_RANGE, self.bytes); self.from.len()]
    }

    /// The ranges that hold these rows.
    pub fn stretches(&self, rows: &Range<u64>) -> VecDeque<Stretch> {
        let ranges = rows.start / ROWS_PER_RANGE..rows.end.div_ceil(ROWS_PER_RANGE);
        let stretch = |number: u64| {
            let from = self.from.get(number as usize)?.clone();
            Some(Stretch { from, first_row: number * ROWS_PER_RANGE })
        };
        ranges.filter_map(stretch).collect()
    }
}

/// Refuses a query that may give other rows whenever it is asked, since each range asks it: `explained` is its plan.
fn check_is_the_same(query: &str, explained: &str, told: &str) -> Result<()> {
    let plan: serde_json::Value = serde_json::from_str(explained).unwrap_or_default();
    let words: Vec<String> = query.split_whitespace().map(str::to_ascii_lowercase).collect();
    let picks_one =
        words.windows(2).any(|pair| pair[0].ends_with("distinct") && pair[1].starts_with("on"));
    match node_that_chooses(&plan[0]["Plan"]).or_else(|| picks_one.then_some("DISTINCT ON")) {
        None => Ok(()),
        Some(what) => Err(refuse(
            format!("{told}: with {what}, the query may give other rows for each range of its key"),
            "omit &key=: one session reads it, or read from a table of its rows",
        )),
    }
}

/// What in a plan decides by chance which rows there are. The server reads a minimum by a LIMIT of its own.
fn node_that_chooses(plan: &serde_json::Value) -> Option<&'static str> {
    let is_own = plan["Parent Relationship"] == "InitPlan"
        && plan["Plans"][0]["Index Cond"].as_str().is_some_and(|cond| cond.contains("IS NOT NULL"));
    match plan["Node Type"].as_str()? {
        "Limit" if !is_own => return Some("LIMIT"),
        "Sample Scan" => return Some("TABLESAMPLE"),
        // Its server gives each session a snapshot of its own.
        "Foreign Scan" => return Some("a foreign table"),
        "WindowAgg" => return Some("a window function"),
        _ => {}
    }
    plan["Plans"].as_array()?.iter().find_map(node_that_chooses)
}

/// The rows of each range of a key, those without one among the first.
fn conditions(
    keeper: &mut Session,
    relation: &Relation,
    rows: &str,
    key: &str,
    told: &str,
) -> Result<Vec<String>> {
    let column = relation.columns.iter().find(|column| column.name == key).ok_or_else(|| {
        refuse(format!("{told}: there is no column {key:?}"), "check &key= in the source's URL")
    })?;
    // A bound is the least value and a share of what lies between it and the greatest.
    let bound = match column.catalog_type.field_type(true) {
        Some(FieldType::Int16 | FieldType::Int32 | FieldType::Int64) => {
            format!("trunc(low::numeric + (high::numeric - low::numeric) * part / {RANGES})")
        }
        Some(FieldType::Date) => format!("low + ((high - low)::bigint * part / {RANGES})::integer"),
        Some(FieldType::Timestamp | FieldType::TimestampTz { .. }) => {
            format!("low + (high - low) * (part::float8 / {RANGES})")
        }
        _ => {
            return Err(refuse(
                format!("{told}: a key of type {} is not divided into ranges", column.type_name),
                "name a column of integers, dates or timestamps",
            ));
        }
    };
    let key = quote_identifier(key).map_err(refused)?;
    let bounds = keeper
        .query(&format!(
            "{OF_ROLE}WITH ends AS (SELECT min({key}) AS low, max({key}) AS high FROM {rows})
             SELECT DISTINCT ON (bound) quote_literal(bound::text) AS literal
               FROM (SELECT {bound} AS bound FROM ends, generate_series(1, {RANGES} - 1) AS part) AS b
              WHERE bound IS NOT NULL ORDER BY bound"
        ))
        .map_err(refused)?;
    let bounds: Vec<String> = bounds.iter().map(|row| row.text("literal")).collect();
    let Some(last) = bounds.last() else { return Ok(vec![rows.to_owned()]) };
    let mut all = vec![format!("{rows} WHERE {key} < {} OR {key} IS NULL", bounds[0])];
    all.extend(
        bounds
            .windows(2)
            .map(|pair| format!("{rows} WHERE {key} >= {} AND {key} < {}", pair[0], pair[1])),
    );
    all.push(format!("{rows} WHERE {key} >= {last}"));
    Ok(all)
}
