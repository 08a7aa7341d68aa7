//! What to set before a load, and what to leave alone. Pure: facts in, lines out.
//!
//! Nothing is ever advised that could lose what a finished load reported.
//!
//! What kinds of lines there are is in `lines`; the other modules are the parts of a server, each with
//! its settings.

mod lines;
mod log;
mod room;
mod safety;
mod server;
#[cfg(test)]
mod tests;

use serde::Serialize;

use super::ask::Facts;
use lines::Lines;

const MIB: f64 = 1024.0 * 1024.0;
const GIB: f64 = 1024.0 * MIB;

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    Nothing,
    Reload,
    Restart,
}

/// One setting: in effect, advised, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    pub setting: String,
    pub value: String,
    /// `None`: it is good as it is, or nothing can be done about it.
    pub advised: Option<String>,
    pub why: String,
    /// What it costs later.
    pub price: Option<String>,
    /// The statement to set it, and the one to go back.
    pub set: Option<String>,
    pub undo: Option<String>,
    pub needs: Needs,
}

/// All lines: the server itself, its log, what keeps data whole, and room for a load.
pub fn advise(facts: &Facts) -> Vec<Line> {
    let mut lines = Lines { facts, lines: Vec::new() };
    lines.version();
    lines.role();
    lines.between();
    lines.extension();
    lines.wal_level();
    lines.archive();
    lines.wal_size();
    lines.checkpoints();
    lines.durability();
    lines.memory();
    lines.sessions();
    lines.autovacuum();
    lines.places();
    lines.lines
}
