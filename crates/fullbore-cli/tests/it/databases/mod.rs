//! Tables of one database as sources of another.

mod equality;
mod moment;
mod ranges;
mod refused;

use fullbore_testing::TestDatabase;

/// The URL of a table.
fn table(database: &TestDatabase<'_>, table: &str) -> String {
    let url = database.url();
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}table={table}")
}
