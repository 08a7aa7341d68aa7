//! The destination against real servers.

mod ledger_is_read;
mod replace;
