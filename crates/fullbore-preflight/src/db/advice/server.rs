//! What server it is: its version, what stands before it, and whether it knows direct loads.

use fullbore_postgres::direct::check::Missing;

use super::lines::Lines;
use super::{Line, Needs};

impl Lines<'_> {
    pub(super) fn version(&mut self) {
        let why = match self.facts.version_num / 10_000 {
            0..14 => "Fullbore knows 14 to 18",
            14..16 => {
                "from 16 on several sessions fill one table without waiting for each other at its \
                 end; here load by partitions, each session into a table of its own"
            }
            16 => "from 17 on COPY skips bad rows by itself, so that files with many load faster",
            _ => "good as it is",
        };
        self.note("version", self.facts.version.clone(), why);
        if self.facts.is_standby {
            self.note("standby", "yes", "nothing can be loaded into a standby: give its primary");
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
            self.note("extension fullbore", "there", "direct loads can be done");
        }
        for Missing { what, remedy, undo } in &self.facts.direct_lacks.clone() {
            self.lines.push(Line {
                setting: "extension fullbore".into(),
                value: what.clone(),
                advised: Some("there".into()),
                why: "by the direct method a load costs the server a fraction of COPY's CPU".into(),
                price: Some("a library in the server, and nothing where it is not called".into()),
                set: Some(remedy.clone()),
                undo: Some(undo.clone()),
                needs: Needs::Nothing,
            });
        }
    }
}
