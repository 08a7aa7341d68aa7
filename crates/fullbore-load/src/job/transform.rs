//! What a job asks to be made of the fields of its sources.

use std::fmt;

use fullbore_parse::dialect::{FormatName, Header};
use fullbore_read::error::{Error, Result};
use schemars::JsonSchema;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{PieceSize, TableJob};

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

/// Rows of another table that are found by a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LookupJob {
    /// What expressions call it: `customer` for `customer.id`.
    pub name: String,
    /// Files, globs or URLs of objects that it is read from.
    #[serde(with = "super::one_or_more", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<super::OneOrMore>")]
    pub sources: Vec<String>,
    /// A table of the destination instead of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// Its key: for each of its columns an SQL expression over the fields.
    #[schemars(with = "std::collections::BTreeMap<String, String>")]
    pub key: Select,
    /// What a row without a match becomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// Values of its columns for a row without a match; others are NULL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<std::collections::BTreeMap<String, String>>")]
    pub default: Option<Select>,
    /// For several versions of a key: when each is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid: Option<Valid>,
    /// Format of its files. Default: detected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<FormatName>,
    /// Field delimiter of its files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<String>,
    /// Strings read as NULL.
    #[serde(with = "super::one_or_more", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<super::OneOrMore>")]
    pub null: Vec<String>,
    /// Whether the first line is a header. Default: detected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<Header>,
    /// Names of the fields in order; `-` skips one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// Encoding of its files. Default: UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Types that override inferred ones: `column=type`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Memory that it may take: bytes, or such as `2GB`. Default: `1GB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<super::TextOrNumber>")]
    pub memory: Option<PieceSize>,
}

/// What becomes of a row whose key is not in a lookup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    /// It is rejected.
    #[default]
    Reject,
    /// Columns of the lookup are NULL.
    Null,
    /// Its key is inserted into the lookup's table, once; the database fills the other columns.
    Insert,
}

/// When a version of a key is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Valid {
    /// The column with the beginning; NULL is always.
    pub from: String,
    /// The column with the end, itself excluded; NULL is forever.
    pub to: String,
    /// SQL expression over the fields: the moment that is looked for.
    pub at: String,
}

impl LookupJob {
    /// `name=source on column=expression[, column=expression] [or null|insert]` of the command line.
    pub fn of_option(option: &str) -> Result<Self> {
        let wrong = || {
            Error::usage_with_hint(
                format!("--lookup {option}: it can't be read"),
                "write --lookup 'c=customers.csv on number=customer_no', or 'c=table:customers on ... or null'",
            )
        };
        let ends = [(" or null", Missing::Null), (" or insert", Missing::Insert)];
        let (whole, missing) = ends
            .into_iter()
            .find_map(|(end, missing)| Some((option.trim_end().strip_suffix(end)?, Some(missing))))
            .unwrap_or((option, None));
        let (from, key) = whole.split_once(" on ").ok_or_else(wrong)?;
        let (name, source) = from.split_once('=').ok_or_else(wrong)?;
        let key = key.split(',').map(|one| {
            let (column, sql) = one.split_once('=').ok_or_else(wrong)?;
            Ok((column.trim().to_owned(), sql.trim().to_owned()))
        });
        let key = Select(key.collect::<Result<_>>()?);
        let (name, source) = (name.trim().to_owned(), source.trim());
        Ok(match source.strip_prefix("table:") {
            Some(table) => {
                Self { name, table: Some(table.into()), key, missing, ..Self::default() }
            }
            None => Self { name, sources: vec![source.into()], key, missing, ..Self::default() },
        })
    }

    /// The same without inserting anything.
    pub fn reading_only(&self) -> Self {
        let is_inserting = self.missing == Some(Missing::Insert);
        let missing = if is_inserting { Some(Missing::Null) } else { self.missing };
        Self { missing, ..self.clone() }
    }

    /// Whether a row without a match is rejected; with `insert`, one with a NULL key is.
    pub fn rejects_missing(&self) -> bool {
        self.missing.unwrap_or_default() != Missing::Null && self.default.is_none()
    }
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
        !self.select.is_empty()
            || self.r#where.is_some()
            || !self.checks.is_empty()
            || !self.lookups.is_empty()
    }

    /// Words of its expressions, names of fields among them.
    pub fn words_of_expressions(&self) -> Vec<&str> {
        let selects = self.select.0.iter().map(|(_, sql)| sql);
        let conditions = self.checks.iter().map(|check| &check.condition);
        let lookups = self.lookups.iter().flat_map(|lookup| &lookup.key.0).map(|(_, sql)| sql);
        let all = selects.chain(&self.r#where).chain(conditions).chain(lookups);
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
    fn lookups_are_read_as_they_are_written() {
        let found = LookupJob::of_option("c=a.csv on n = no, k=upper(key) or null").unwrap();
        assert_eq!((found.name.as_str(), found.sources), ("c", vec!["a.csv".to_owned()]));
        assert_eq!(found.missing, Some(Missing::Null));
        assert_eq!(found.key.0[1], ("k".to_owned(), "upper(key)".to_owned()));
        let found = LookupJob::of_option("c=table:shop.customers on n=no").unwrap();
        assert_eq!(found.table.as_deref(), Some("shop.customers"));
        assert!(LookupJob::of_option("c=a.csv n=no").unwrap_err().hint().is_some());
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
