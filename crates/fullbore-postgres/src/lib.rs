//! Fullbore's PostgreSQL destination.
//!
//! [`postgres`] is the server of a run with its sessions and tables; [`sink`] is what the data path
//! calls. [`catalog`] reads what a target is, [`target`] describes it, `planning` answers while a load is
//! planned; [`encode_copy`] writes rows in COPY's forms, `writer` sends pieces, by `endpoints`, `fallback` finds
//! the rows that the server refuses, [`publish`] makes rows visible, [`ledger`] records committed pieces,
//! `statistics` makes those of new partitions, [`levels`] merges those that are ingested, [`verify`] compares what was loaded with what was read, [`orphans`] finds what crashes left.

pub mod catalog;
mod cursor;
mod digits;
pub mod direct;
pub mod encode_copy;
pub mod encode_direct;
mod endpoints;
mod error;
mod fallback;
pub mod ledger;
pub mod levels;
pub mod local;
mod members;
mod naming;
pub mod orphans;
pub mod place;
mod planning;
pub mod postgres;
pub mod publish;
mod resumed_settings;
mod room;
mod routes;
mod schema;
mod server;
mod session_settings;
pub mod sink;
mod small_decimals;
pub mod source;
mod statistics;
pub mod target;
mod throttle;
mod throttle_memory;
mod timeouts;
pub mod types;
pub mod verify;
mod watch;
mod workers;
mod writer;

pub use postgres::{Attended, Postgres};
pub use server::{Server, Settings};
pub use target::PostgresTable;
