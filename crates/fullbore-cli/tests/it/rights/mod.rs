//! What a load does with the rights of who runs it, and what others could make it do with them.

mod hidden;
mod run_ids;
mod search_path;
mod secure;
mod trust;

/// The schema of the ledger, where none is named.
const LEDGER: &str = "fullbore_ledger";
