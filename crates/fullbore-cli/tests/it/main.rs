//! The command's tests, as a person or a script uses it: one binary, a room for each theme.

mod bad;
mod command;
mod common;
mod databases;
mod direct;
mod formats;
mod ledger;
mod parse;
mod partitions;
mod parts;
mod preflight;
mod publish;
mod resume;
mod rights;
mod sniff;
mod sweep;
mod transform;
mod tuned;
mod upsert;
mod verify;
