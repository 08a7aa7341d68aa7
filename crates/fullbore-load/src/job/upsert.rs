//! `--publish upsert`: rows that meet those of the table by a key.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a row does whose key the table has already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// It takes the place of the table's row.
    #[default]
    Update,
    /// It is left out.
    Nothing,
    /// It takes its place unless its value of this column is less, or NULL where the other is not.
    Newest(String),
}

/// How rows are merged with those of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upsert {
    /// The columns that tell rows apart.
    pub key: Vec<String>,
    pub on_conflict: OnConflict,
    /// Rows of the table whose key no row of the sources has are deleted.
    pub delete_missing: bool,
}

impl Upsert {
    /// In the words of a plan.
    pub fn words(&self) -> String {
        let existing = match &self.on_conflict {
            OnConflict::Update => "updated".to_owned(),
            OnConflict::Nothing => "left as they are".to_owned(),
            OnConflict::Newest(column) => format!("updated unless their {column} is newer"),
        };
        let missing =
            if self.delete_missing { "; rows missing in the files are deleted" } else { "" };
        format!("rows with the same {} are {existing}{missing}", self.key.join(", "))
    }
}

impl FromStr for OnConflict {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.split_once(':')) {
            ("update", _) => Ok(Self::Update),
            ("nothing", _) => Ok(Self::Nothing),
            (_, Some(("newest", column))) if !column.is_empty() => {
                Ok(Self::Newest(column.to_owned()))
            }
            _ => Err(format!("{text:?} is neither update, nothing nor newest:COLUMN")),
        }
    }
}

impl fmt::Display for OnConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Update => f.write_str("update"),
            Self::Nothing => f.write_str("nothing"),
            Self::Newest(column) => write!(f, "newest:{column}"),
        }
    }
}

impl Serialize for OnConflict {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OnConflict {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_are_read_as_they_are_written() {
        for text in ["update", "nothing", "newest:changed_at", "newest:a:b"] {
            let read: OnConflict = text.parse().expect(text);
            assert_eq!(read.to_string(), text);
        }
        for wrong in ["", "newest", "newest:", "replace", "Update"] {
            assert!(wrong.parse::<OnConflict>().is_err(), "{wrong}");
        }
    }
}
