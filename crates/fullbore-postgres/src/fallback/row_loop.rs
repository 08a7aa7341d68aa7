//! A loop on the server: rows of a temporary table enter another one by one, each under a
//! subtransaction of its own, so that the server itself says of each what is wrong with it.
//!
//! It is the slowest method (some microseconds a row on top of the INSERT), but always exact: types,
//! triggers and constraints of every kind are applied as usual. It needs no round trip per row.

use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionError, Session, quote_literal};

use crate::error::CORRUPTION;
use crate::publish::bounds::RANGE_CHECK;

/// What the loop does.
pub struct RowLoop<'a> {
    /// The table it reads, and the column that tells the place of its rows.
    pub source: &'a str,
    pub place: &'a str,
    /// Further variables, each `name type;`.
    pub declared: &'a str,
    /// Statements before the INSERT. They set `at` to the number of the column they are about, from
    /// 1, and `given` to its value.
    pub prepared: &'a str,
    /// The INSERT of the row `r`.
    pub insert: &'a str,
}

/// A row that was refused.
#[derive(Debug, Clone, Default)]
pub struct RefusedRow {
    pub place: u64,
    /// The column that was prepared when it failed, from 0.
    pub at: Option<usize>,
    pub value: Option<String>,
    pub code: String,
    pub message: String,
    pub detail: Option<String>,
    pub column: Option<String>,
    pub constraint: Option<String>,
}

/// Where the loop notes what was refused.
const REFUSED: &str = "pg_temp.fullbore_refused";

/// Classes of errors that are a row's own fault: values, constraints, views' checks, and what
/// functions and triggers raise. Anything else ends the loop, and so does a damaged table or index.
const ITS_OWN_FAULT: &str = "'22', '23', '44', 'P0', 'XX'";

/// The loop runs under the role's search path, since what the table asks of its rows does.
const ONE_OF: &str = "OPERATOR(pg_catalog.=) ANY";

/// Others that are its own fault where the input function of a type raises them: syntax, a name of no type
/// or object, a table that is not there.
pub const OF_VALUES: [&str; 3] = ["42601", "42704", "42P01"];

impl RowLoop<'_> {
    fn body(&self) -> Result<String, ConnectionError> {
        let Self { source, place, declared, prepared, insert } = self;
        let range_check = quote_literal(RANGE_CHECK)?;
        let corruption = CORRUPTION.join("', '");
        let of_values = OF_VALUES.join("', '");
        // A row outside of its partition's range is no matter of one row: the ranges are wrong.
        Ok(format!(
            "#variable_conflict use_column
             DECLARE
                 r pg_catalog.record; at int; given pg_catalog.text; taken bigint := 0; added bigint;
                 said_detail pg_catalog.text; said_column pg_catalog.text;
                 said_constraint pg_catalog.text; {declared}
             BEGIN
                 FOR r IN SELECT * FROM {source} ORDER BY {place} LOOP
                     BEGIN
                         {prepared}
                         at := 0; given := NULL;
                         {insert};
                         GET DIAGNOSTICS added = ROW_COUNT;
                         taken := taken OPERATOR(pg_catalog.+) added;
                     EXCEPTION WHEN OTHERS THEN
                         GET STACKED DIAGNOSTICS said_detail = PG_EXCEPTION_DETAIL,
                             said_column = COLUMN_NAME, said_constraint = CONSTRAINT_NAME;
                         IF NOT (pg_catalog.substr(SQLSTATE, 1, 2) {ONE_OF} (ARRAY[{ITS_OWN_FAULT}]))
                            AND NOT (coalesce(at, 0) OPERATOR(pg_catalog.>) 0
                                     AND SQLSTATE {ONE_OF} (ARRAY['{of_values}']))
                            OR SQLSTATE {ONE_OF} (ARRAY['{corruption}'])
                            OR said_constraint OPERATOR(pg_catalog.=) {range_check} THEN
                             RAISE;
                         END IF;
                         INSERT INTO {REFUSED} VALUES (r.{place}, at, given, SQLSTATE, SQLERRM,
                             said_detail, said_column, said_constraint);
                     END;
                 END LOOP;
                 INSERT INTO {REFUSED} VALUES (-1, taken, NULL, '', '', '', '', '');
             END"
        ))
    }

    /// Runs the loop; how many rows it added, and those that were refused, by their places.
    pub fn run(&self, session: &mut Session) -> Result<(u64, Vec<RefusedRow>), ConnectionError> {
        session.execute(
            "CREATE TEMP TABLE fullbore_refused (place bigint, at bigint, given text, code text,
                 message text, detail text, column_name text, constraint_name text) ON COMMIT DROP",
        )?;
        session.execute(&format!("{OF_ROLE}DO {}", quote_literal(&self.body()?)?))?;
        let rows = session.query(&format!(
            "SELECT place, at, given, code, message, nullif(detail, '') AS detail,
                    nullif(column_name, '') AS column_name,
                    nullif(constraint_name, '') AS constraint_name
               FROM {REFUSED} ORDER BY place"
        ))?;
        session.execute(&format!("DROP TABLE {REFUSED}"))?;
        let mut taken = None;
        let mut refused = Vec::with_capacity(rows.len());
        for row in &rows {
            let text = |name: &str| row.get(name).map(str::to_owned);
            let at: u64 = row.get("at").and_then(|at| at.parse().ok()).unwrap_or(0);
            let Some(place) = row.get("place").and_then(|place| place.parse().ok()) else {
                // -1: the last word.
                taken = Some(at);
                continue;
            };
            refused.push(RefusedRow {
                place,
                at: (at as usize).checked_sub(1),
                value: text("given"),
                code: text("code").unwrap_or_default(),
                message: text("message").unwrap_or_default(),
                detail: text("detail"),
                column: text("column_name"),
                constraint: text("constraint_name"),
            });
        }
        let taken = taken
            .ok_or_else(|| ConnectionError::protocol("the loop over rows did not say its count"))?;
        Ok((taken, refused))
    }
}
