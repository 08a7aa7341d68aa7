//! Databases other than PostgreSQL as destinations: MariaDB and MySQL, DuckDB, SQLite, and any that has an ADBC driver.
//! What has a driver is a [`source`], too.
//!
//! [`Database::open`] connects: a [`link`] goes by way of an ADBC driver ([`driver`], [`adbc`]) or speaks MySQL's protocol
//! ([`mysql_link`]). [`Database`] plans ([`target`]), and [`Rows`] loads ([`sink`], [`writer`]). How a database writes its
//! types, names and sums is its [`dialect`]; what it holds of a run is the [`ledger`]. Rows are sent in the types that it
//! takes ([`sent`]). Drivers have altered values without a word (apache/arrow-adbc#4507), so [`sums`] of what was sent are compared
//! with sums that the database makes of what it holds.

mod adbc;
mod database;
mod dialect;
mod driver;
mod error;
pub mod ledger;
mod lines;
mod link;
mod mysql_link;
mod place;
mod sent;
mod sink;
pub mod source;
mod sums;
mod table;
mod target;
mod writer;

pub use database::Database;
pub use place::Place;
pub use sink::Rows;
pub use table::Table;
