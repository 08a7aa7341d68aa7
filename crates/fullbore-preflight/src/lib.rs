//! Preflight: what disks and networks can do, and how servers are set, found out before a load.
//!
//! Nothing here prints; what was measured comes back as plain data that becomes JSON. Each probe is
//! bounded in time and in bytes, and leaves nothing behind.
//!
//! - [`disk`]: block size x I/Os in flight, read and write, past the page cache;
//! - [`net`]: streams x window x message size x congestion control between two hosts;
//! - [`db`]: a server's settings that matter to a load, with advice;
//! - [`knee`], [`cpu`], [`steady`]: helpers to evaluate measurements.

pub mod cpu;
pub mod db;
pub mod disk;
pub mod error;
pub mod knee;
pub mod limits;
pub mod net;
pub mod steady;

pub use error::{Error, Result};
