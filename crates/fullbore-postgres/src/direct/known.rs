//! The state of direct loading for a table, before and after the method is chosen.

use fullbore_load::job::DirectIo;

use super::descriptor::Descriptor;
use crate::catalog::IndexDefinition;
use crate::encode_direct::Layout;

/// A target's indexes, in the catalog's order, each with why the extension can't fill it, if it can't.
pub type Filled = Vec<(IndexDefinition, Option<String>)>;

/// What is known of a target before the load.
#[derive(Debug, Clone)]
pub enum Probe {
    /// By a table like it; and its own indexes.
    Described(Box<Descriptor>, Filled),
    /// Why it can't be loaded directly, and what to do about it.
    Impossible { reason: String, hint: Option<String> },
}

/// How a table is loaded directly.
#[derive(Debug, Clone)]
pub struct Direct {
    pub descriptor: Descriptor,
    /// `None` where only the server can lay rows out.
    pub layout: Option<Layout>,
    pub io: DirectIo,
}
