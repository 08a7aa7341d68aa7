//! The lines as they are gathered, and the few kinds that there are: a note, a setting that is kept, and
//! one that is to be changed, with the statements there and back.

use super::{Line, Needs};
use crate::db::ask::Facts;

pub(super) struct Lines<'a> {
    pub(super) facts: &'a Facts,
    pub(super) lines: Vec<Line>,
}

impl Lines<'_> {
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.facts.settings.get(name).map(|setting| setting.value.as_str())
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.facts.settings.get(name)?.number
    }

    /// Something that is known but is no setting, or that stays as it is.
    pub(super) fn note(&mut self, setting: &str, value: impl Into<String>, why: impl Into<String>) {
        self.lines.push(Line {
            setting: setting.into(),
            value: value.into(),
            advised: None,
            why: why.into(),
            price: None,
            set: None,
            undo: None,
            needs: Needs::Nothing,
        });
    }

    /// A setting that stays as it is, if the server has it.
    pub(super) fn keep(&mut self, name: &str, why: &str) {
        if let Some(value) = self.value(name).map(str::to_owned) {
            self.note(name, value, why);
        }
    }

    pub(super) fn change(
        &mut self,
        name: &str,
        advised: &str,
        why: impl Into<String>,
        price: &str,
    ) {
        let Some(setting) = self.facts.settings.get(name) else { return };
        let needs = match setting.context.as_str() {
            "postmaster" => Needs::Restart,
            "sighup" => Needs::Reload,
            _ => Needs::Nothing,
        };
        let after =
            if needs == Needs::Restart { " (then restart)" } else { "; SELECT pg_reload_conf()" };
        let quoted = |value: &str| value.replace('\'', "''");
        let undo = match setting.source.as_str() {
            "default" => format!("ALTER SYSTEM RESET {name}{after}"),
            _ => format!("ALTER SYSTEM SET {name} = '{}'{after}", quoted(&setting.value)),
        };
        let line = Line {
            setting: name.into(),
            value: setting.value.clone(),
            advised: Some(advised.into()),
            why: why.into(),
            price: Some(price.into()),
            set: Some(format!("ALTER SYSTEM SET {name} = '{}'{after}", quoted(advised))),
            undo: Some(undo),
            needs,
        };
        self.lines.push(line);
    }

    pub(super) fn at_least(
        &mut self,
        name: &str,
        least: f64,
        advised: &str,
        why: &str,
        price: &str,
    ) {
        match self.number(name) {
            Some(number) if number < least => self.change(name, advised, why, price),
            _ => self.keep(name, "large enough"),
        }
    }
}
