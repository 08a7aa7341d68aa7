//! A plan without the data of the ledger and the command.

use fullbore_record::ceilings::Ceilings;

use super::{Continuity, Plan};

/// What a job and its sources come to, before it is known how a run of it continues after a failure.
pub struct Draft<T> {
    pub(super) plan: Plan,
    pub(super) targets: Vec<T>,
    pub(super) statements: Vec<Option<String>>,
    pub(super) not_resumable: Option<(String, String)>,
}

/// The rest of a plan.
#[derive(Debug, Default)]
pub struct Completion {
    pub continuity: Continuity,
    pub ceilings: Option<Ceilings>,
    /// The destination as people write it, without a password.
    pub destination: String,
    /// What is to be known before the load begins; shown with the first table.
    pub notes: Vec<String>,
}

/// A finished plan and what it was made from.
pub struct Planned<T> {
    pub plan: Plan,
    /// The targets of its tables, in their order; none without a server.
    pub targets: Vec<T>,
    /// The statements that create tables, where they are to be created.
    pub statements: Vec<Option<String>>,
}

impl<T> Draft<T> {
    /// The plan so far, to look at.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn targets(&self) -> &[T] {
        &self.targets
    }

    /// A table of whose pieces no ledger can be kept, and why.
    pub fn not_resumable(&self) -> Option<(&str, &str)> {
        self.not_resumable.as_ref().map(|(table, reason)| (table.as_str(), reason.as_str()))
    }

    /// The plan; nothing changes it afterwards.
    pub fn finish(self, rest: Completion) -> Planned<T> {
        let Self { mut plan, targets, statements, .. } = self;
        let Completion { continuity, ceilings, destination, notes } = rest;
        if let Some(table) = plan.tables.first_mut() {
            table.notes.extend(notes);
        }
        let plan = Plan { continuity, ceilings, destination, ..plan };
        Planned { plan, targets, statements }
    }
}
