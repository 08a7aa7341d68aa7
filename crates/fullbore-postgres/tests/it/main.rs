//! The destination against real servers.

mod connection;
mod ledger_is_read;
mod replace;
