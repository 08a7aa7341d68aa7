//! What server it is: its version, what stands before it, and whether it knows direct loads.

use fullbore_postgres::direct::check::Missing;

use super::lines::Lines;
use super::{Line, Needs};

impl Lines<'_> {
    pub(super) fn version(&mut self) {
        let why = match self.facts.version_num / 10_000 {
            0..14 => "Fullbore supports 14 to 18",
            14..16 => {
                "since 16, several sessions can extend one table without waiting for each other; \
                 before, use partitions, with a table per session"
            }
            16 => "since 17, COPY can skip bad rows, so files with many bad rows load faster",
            _ => "good as it is",
        };
        self.note("version", self.facts.version.clone(), why);
        if self.facts.is_standby {
            self.note("standby", "yes", "a standby is read-only: connect to its primary");
        }
    }

    pub(super) fn between(&mut self) {
        let (value, why) = if self.facts.is_pooled {
            ("a pooler", "connect to the server itself: through a pooler a load can't be resumed")
        } else {
            ("nothing", "good as it is")
        };
        self.note("in between", value, why);
    }

    pub(super) fn extension(&mut self) {
        if self.facts.direct_lacks.is_empty() {
            self.note("extension fullbore", "there", "direct loads are possible");
        }
        for Missing { what, remedy, undo } in &self.facts.direct_lacks.clone() {
            self.lines.push(Line {
                setting: "extension fullbore".into(),
                value: what.clone(),
                advised: Some("there".into()),
                why: "method direct needs a fraction of the server CPU that COPY needs".into(),
                price: Some("a library in the server, without cost when unused".into()),
                set: Some(remedy.clone()),
                undo: Some(undo.clone()),
                needs: Needs::Nothing,
            });
        }
    }
}
