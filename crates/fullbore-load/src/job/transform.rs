//! What a job asks to be made of the fields of its sources.

use std::fmt;

use fullbore_read::error::{Error, Result};
use schemars::JsonSchema;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::TableJob;

/// Columns and the SQL expressions that they are computed by, in the order in which they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Select(pub Vec<(String, String)>);

/// A condition that each row must meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Its name, by which rejects tell it.
    pub name: String,
    /// SQL over fields and computed columns; as in a CHECK, NULL passes.
    pub condition: String,
}

impl Select {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `column=expression` of the command line.
    pub fn of_options(options: &[String]) -> Result<Self> {
        let one = |option: &String| {
            let (name, sql) = option.split_once('=').unwrap_or_default();
            let name = name.trim();
            if name.is_empty() {
                return Err(Error::usage_with_hint(
                    format!("--select {option}: no column is named"),
                    "write --select 'column=expression', such as --select 'total=quantity*price'",
                ));
            }
            Ok((name.to_owned(), sql.trim().to_owned()))
        };
        options.iter().map(one).collect::<Result<_>>().map(Self)
    }
}

impl Check {
    /// `name=condition` of the command line.
    pub fn of_option(option: &str) -> Result<Self> {
        let (name, condition) = option.split_once('=').unwrap_or_default();
        let (name, condition) = (name.trim(), condition.trim());
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ');
        if name.is_empty() || condition.is_empty() || !name.chars().all(is_name) {
            return Err(Error::usage_with_hint(
                format!("--check {option}: a name or a condition is missing"),
                "write --check 'name=condition', such as --check 'paid=price >= 0'",
            ));
        }
        Ok(Self { name: name.to_owned(), condition: condition.to_owned() })
    }
}

impl TableJob {
    /// Whether anything is made of its fields.
    pub fn is_transformed(&self) -> bool {
        !self.select.is_empty() || self.r#where.is_some() || !self.checks.is_empty()
    }

    /// Words of its expressions, names of fields among them.
    pub fn words_of_expressions(&self) -> Vec<&str> {
        let selects = self.select.0.iter().map(|(_, sql)| sql);
        let conditions = self.checks.iter().map(|check| &check.condition);
        let all = selects.chain(&self.r#where).chain(conditions);
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let words = all.flat_map(|sql| sql.split(move |c| !is_part(c)));
        let mut words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        words.sort_unstable();
        words.dedup();
        words
    }
}

impl Serialize for Select {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, sql) in &self.0 {
            map.serialize_entry(name, sql)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Select {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Select;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("columns, each with an SQL expression")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Select, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = from.next_entry()? {
                    all.push(entry);
                }
                Ok(Select(all))
            }
        }

        from.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_keep_their_order_in_files_and_options() {
        let written = "sources = [\"a.csv\"]\n[select]\nz = \"a + 1\"\na = \"upper(b)\"\n";
        let job: TableJob = toml::from_str(written).unwrap();
        let options = ["z=a + 1".to_owned(), " a = upper(b)".to_owned()];
        assert_eq!(job.select, Select::of_options(&options).unwrap());
        assert_eq!(job.select.0[0].0, "z");
        let again: TableJob = toml::from_str(&toml::to_string(&job).unwrap()).unwrap();
        assert_eq!(again, job);
        assert_eq!(job.words_of_expressions(), ["1", "a", "b", "upper"]);
        assert!(Select::of_options(&["=1".to_owned()]).is_err());
    }

    #[test]
    fn checks_have_a_name_and_a_condition() {
        let check = Check::of_option("paid=price >= 0").unwrap();
        assert_eq!((check.name.as_str(), check.condition.as_str()), ("paid", "price >= 0"));
        for wrong in ["price >= 0", "paid=", "=x"] {
            assert!(Check::of_option(wrong).unwrap_err().hint().is_some(), "{wrong}");
        }
    }
}
