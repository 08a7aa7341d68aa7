//! Fullbore's PostgreSQL destination.
//!
//! [`postgres`] is the server of a run with its sessions and tables; [`destination`] is what the data path
//! calls. [`catalog`] reads what a target is, [`target`] describes it, `planning` answers while a load is
//! planned; [`encode_copy`] writes rows in COPY's forms, `writer` sends pieces, `server_check` has the
//! server check non-canonical rows, `row_by_row` all rows of a piece that was refused, [`publish`] makes
//! rows visible, `violations` removes rows that violate a key, [`ledger`] records committed pieces,
//! [`verify`] compares what was loaded with what was read, [`orphans`] finds what crashes left.

pub mod catalog;
mod cursor;
pub mod destination;
mod digits;
pub mod direct;
pub mod encode_copy;
pub mod encode_direct;
mod error;
pub mod ledger;
pub mod local;
mod naming;
pub mod orphans;
mod planning;
pub mod postgres;
pub mod publish;
mod resumed_settings;
mod room;
mod row_by_row;
mod row_loop;
mod schema;
mod server_check;
mod session_settings;
mod small_decimals;
pub mod target;
mod throttle;
mod throttle_seen;
mod timeouts;
pub mod types;
pub mod verify;
mod violations;
mod watch;
mod writer;

pub use postgres::{Postgres, Settings};
pub use target::Target;
