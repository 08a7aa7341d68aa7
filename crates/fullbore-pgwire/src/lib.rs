//! A small blocking PostgreSQL client for bulk loading.
//!
//! One session is one thread's: no runtime, no pool, no prepared statements. What it has is what
//! a loader needs: connection strings read as libpq reads them, TLS and SCRAM, plain queries with
//! text results, and a COPY whose payload is handed to the kernel without being copied first.
//! An error of the server ends the statement, never the session; only a lost connection does.
//!
//! The way of a connection, one module per step:
//!
//! - [`options`]: URL, `key=value` string, service file, environment, password file -> where to
//!   connect, as whom, how guarded;
//! - `socket`, `transport`, [`tls`]: bytes to and from the server;
//! - `wire`: messages out of bytes, each with a limit to its size;
//! - `startup`, `authentication`: from a socket to a session;
//! - [`session`], [`copy_in`], `copy_out`, [`cancel`]: using it.
//!
//! ```no_run
//! use fullbore_pgwire::{ConnectionError, ConnectionOptions, Environment, Session};
//!
//! # fn main() -> Result<(), ConnectionError> {
//! let options = ConnectionOptions::resolve(
//!     Some("postgresql://loader@db.example/sales?sslmode=verify-full"),
//!     &Environment::of_process(),
//! )?;
//! let mut session = Session::connect(&options)?;
//! session.execute("CREATE TABLE orders (id int, note text)")?;
//! let mut copy = session.copy_in("COPY orders FROM STDIN")?;
//! copy.send(b"1\thello\n")?;
//! assert_eq!(copy.finish()?, 1);
//! # Ok(())
//! # }
//! ```

mod authentication;
pub mod cancel;
pub mod copy_in;
mod copy_out;
pub mod environment;
mod error;
mod limits;
mod notices;
pub mod options;
pub mod pacing;
mod quoting;
mod rows;
mod secret;
mod server_message;
pub mod session;
mod socket;
mod startup;
pub mod tcp_info;
pub mod tls;
mod transport;
mod wire;

pub use cancel::CancelHandle;
pub use copy_in::{CopyIn, PausedCopy};
pub use copy_out::Copied;
pub use environment::Environment;
pub use error::ConnectionError;
pub use options::{ConnectionOptions, Host, HostOptions, Source, StoredConnection, Way};
pub use quoting::{QualifiedName, quote_identifier, quote_literal};
pub use rows::{ColumnIndex, QueryResult, Row};
pub use secret::Secret;
pub use server_message::ServerMessage;
pub use session::{Session, TransactionStatus};
pub use socket::{Door, check_congestion};
