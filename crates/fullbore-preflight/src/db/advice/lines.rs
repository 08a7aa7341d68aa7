//! Collects the lines of advice: a note, a setting to keep, or a setting to change, with the statements to
//! change it and to restore it.

use super::{Line, Needs};
use crate::db::ask::{Facts, Setting};

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

    /// Who may follow the advice.
    pub(super) fn role(&mut self) {
        if !self.facts.is_superuser {
            let role = self.facts.role.clone();
            self.note(
                "role",
                role,
                "is not a superuser: settings need a superuser, or the parameter group of a \
                 managed server",
            );
        }
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
        self.change_all(&[(name, advised)], why, price);
    }

    /// Changes a setting, and with it others that it needs.
    pub(super) fn change_all(
        &mut self,
        settings: &[(&str, &str)],
        why: impl Into<String>,
        price: &str,
    ) {
        let (name, advised) = settings[0];
        let Some(setting) = self.facts.settings.get(name) else { return };
        let needs = match setting.context.as_str() {
            "postmaster" => Needs::Restart,
            "sighup" => Needs::Reload,
            _ => Needs::Nothing,
        };
        let after =
            if needs == Needs::Restart { " (then restart)" } else { "; SELECT pg_reload_conf()" };
        let quoted = |value: &str| value.replace('\'', "''");
        let all = |statements: Vec<String>| statements.join("; ") + after;
        let set = settings
            .iter()
            .map(|(name, advised)| format!("ALTER SYSTEM SET {name} = '{}'", quoted(advised)));
        let undo = settings.iter().map(|(name, _)| match self.facts.settings.get(*name) {
            Some(setting) if was_altered(setting) => {
                format!("ALTER SYSTEM SET {name} = '{}'", quoted(&setting.value))
            }
            // Then its own file, or the default, holds again.
            _ => format!("ALTER SYSTEM RESET {name}"),
        });
        let mut why = why.into();
        if setting.source == "command line" {
            why += "; it is set on the server's command line and can be changed only there";
        }
        let line = Line {
            setting: name.into(),
            value: setting.value.clone(),
            advised: Some(advised.into()),
            why,
            price: Some(price.into()),
            set: Some(all(set.collect())),
            undo: Some(all(undo.collect())),
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

/// Whether somebody has set it by ALTER SYSTEM; where that is not known, whether it is in a file at all.
fn was_altered(setting: &Setting) -> bool {
    match &setting.file {
        Some(file) => file.ends_with("postgresql.auto.conf"),
        None => setting.source == "configuration file",
    }
}
