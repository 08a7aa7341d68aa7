//! `preflight db`: how a server is set, for a load: the value in effect, the value advised, why, what
//! that costs later, and the way back.
//!
//! [`ask`] collects facts, only by reading; [`advice`] judges them and is pure; [`cpu`] finds out about the
//! server's CPU time, where the server is this machine.

pub mod advice;
pub mod ask;
pub mod cpu;

use fullbore_pgwire::{ConnectionError, ConnectionOptions, Session};
use serde::Serialize;

use crate::error::{Error, Result};
pub use advice::{Line, Needs};
pub use ask::Facts;

/// How a server is set.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub facts: Facts,
    pub lines: Vec<Line>,
}

/// Looks at a server; nothing is touched.
pub fn run(options: &ConnectionOptions) -> Result<Report> {
    let mut session = Session::connect(options).map_err(failed)?.pinned();
    let facts = ask::facts(&mut session).map_err(failed)?;
    Ok(Report { lines: advice::advise(&facts), facts })
}

fn failed(error: ConnectionError) -> Error {
    Error::Server { message: error.to_string(), hint: error.hint().map(str::to_owned) }
}
