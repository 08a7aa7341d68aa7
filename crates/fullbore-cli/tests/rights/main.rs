//! What a load does with the rights of who runs it, and what others could make it do with them.

#[path = "../common/mod.rs"]
mod common;

mod hidden;
mod run_ids;
mod search_path;
mod trust;

/// The schema of the ledger, where none is named.
const LEDGER: &str = "fullbore_ledger";
