//! Fullbore's PostgreSQL destination.
//!
//! [`catalog`] reads what a target is, [`target`] describes it, `planning` answers while a load is
//! planned; [`encode_copy`] writes rows in COPY's forms, [`writer`] sends pieces, [`judge`] lets
//! the server decide on odd rows, [`careful`] on all rows of a piece that was refused, [`publish`] shows
//! what was loaded, [`sift`] takes out what keeps it from being shown, [`ledger`] knows which pieces are
//! committed, [`verify`] compares what was loaded with what was read, [`orphans`] finds what crashes left.

mod careful;
pub mod catalog;
mod cursor;
pub mod destination;
mod digits;
pub mod direct;
pub mod encode_copy;
pub mod encode_direct;
mod error;
mod judge;
pub mod ledger;
pub mod local;
mod naming;
pub mod orphans;
mod patience;
mod planning;
pub mod postgres;
pub mod publish;
mod reading;
mod reading_of_run;
mod room;
mod row_loop;
mod schema;
mod sift;
mod small_decimals;
mod strain;
mod strain_seen;
pub mod target;
pub mod types;
pub mod verify;
mod watch;
mod writer;

pub use postgres::{Postgres, Settings};
pub use target::Target;
