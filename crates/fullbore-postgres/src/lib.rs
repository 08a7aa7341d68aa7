//! Fullbore's PostgreSQL destination.
//!
//! [`connection`] talks to servers, [`server`] finds and runs local ones; [`catalog`] reads what a
//! target is, [`target`] describes it, [`encode_copy`] writes rows in COPY's forms, [`writer`] sends pieces, [`judge`] lets
//! the server decide on odd rows, [`publish`] shows what was loaded, [`ledger`] knows which pieces are
//! committed, [`orphans`] finds what crashes left.

pub mod catalog;
pub mod connection;
mod cursor;
pub mod destination;
mod digits;
pub mod direct;
pub mod encode_copy;
pub mod encode_direct;
mod error;
mod judge;
pub mod ledger;
mod naming;
pub mod orphans;
mod patience;
pub mod publish;
pub mod schema;
pub mod server;
mod strain;
pub mod target;
pub mod types;
mod writer;

pub use destination::{Postgres, Settings};
pub use target::{TableRequest, Target};
