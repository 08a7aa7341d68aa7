//! `--if-loaded`: the handling of files whose contents are already in the table.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{TableJob, identity};

/// What is done about files whose contents a run that has finished added to the same table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IfLoaded {
    /// The load is refused.
    Fail,
    /// They are left out.
    Skip,
    /// They are loaded once more.
    Again,
}

/// A path from the root; what has none is told as it is.
fn absolute(path: &str) -> String {
    identity::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn json(value: &impl Serialize, is_empty: bool) -> Option<String> {
    (!is_empty).then(|| serde_json::to_string(value).expect("plain data becomes JSON"))
}

impl TableJob {
    /// The options that decide what is loaded and that nothing else of a plan tells, as they were given.
    pub fn asked(&self) -> BTreeMap<String, String> {
        let flag = |is_given: bool| is_given.then(|| "given".to_owned());
        let list = |list: &[String]| (!list.is_empty()).then(|| list.join(","));
        let mut lineage = self.lineage.clone();
        lineage.sort();
        let mut types = self.types.clone();
        types.sort();
        let mut lookups = self.lookups.clone();
        for source in lookups.iter_mut().flat_map(|lookup| &mut lookup.sources) {
            *source = absolute(source);
        }
        let options = [
            ("--atomic", flag(self.atomic)),
            ("--check", json(&self.checks, self.checks.is_empty())),
            ("--delete-missing", flag(self.delete_missing)),
            ("--field-type", list(&self.field_types)),
            ("--keep-old", flag(self.keep_old)),
            ("--key", list(&self.key)),
            ("--lineage", list(&lineage)),
            ("lookup", json(&lookups, lookups.is_empty())),
            ("--query", self.query.clone()),
            ("--on-conflict", self.on_conflict.as_ref().map(ToString::to_string)),
            ("--partition-by", self.partition_by.clone()),
            ("--partition-bounds", list(&self.partition_bounds)),
            ("--select", json(&self.select, self.select.is_empty())),
            ("--schema", self.schema_file.as_deref().map(absolute)),
            ("--type", list(&types)),
            ("--where", self.r#where.clone()),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        given.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::LookupJob;
    use super::*;

    #[test]
    fn a_lookup_is_the_same_from_any_folder() {
        let asked = |lookup: &str| {
            let lookup = LookupJob::of_option(lookup).expect("a lookup");
            TableJob { lookups: vec![lookup], ..TableJob::default() }.asked()
        };
        let here = absolute("a.csv");
        assert_eq!(asked("c=a.csv on n=no"), asked(&format!("c={here} on n=no")));
        assert_ne!(asked("c=a.csv on n=no"), asked("c=b.csv on n=no"));
    }
}
