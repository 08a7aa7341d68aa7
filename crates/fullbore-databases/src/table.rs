//! A table as it will be loaded.

use arrow_schema::DataType;
use fullbore_load::TargetColumn;
use fullbore_load::job::Upsert;
use fullbore_load::target::TargetTable;
use fullbore_parse::types::FieldType;
use fullbore_pgwire::{QualifiedName, quote_identifier};
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::{Publish, Stage};

use crate::link::Link;

/// Characters of a table's name in those of the tables that a run makes for it.
const NAME_MAX: usize = 24;

/// A column of a table, as the database has it.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    pub type_name: String,
    /// What its fields are parsed into; none where no value would arrive as it stands in the source.
    pub field_type: Option<FieldType>,
    /// What the driver takes for it.
    pub sent: DataType,
    pub is_nullable: bool,
    /// Its values can be sent as bytes of UTF-8: the database would convert none of them.
    pub takes_utf8: bool,
    pub is_generated: bool,
    pub fills_itself: bool,
}

/// A table of a database.
#[derive(Debug, Clone)]
pub struct Table {
    pub name: QualifiedName,
    /// All of its columns, in their order.
    pub columns: Vec<Column>,
    pub create: Option<String>,
    pub publish: Publish,
    pub atomic: bool,
    targets: Vec<TargetColumn>,
}

impl Table {
    pub fn new(
        name: QualifiedName,
        columns: Vec<Column>,
        create: Option<String>,
        publish: Publish,
        atomic: bool,
    ) -> Self {
        let targets = columns.iter().map(target_column).collect();
        Self { name, columns, create, publish, atomic, targets }
    }

    /// Whether rows go into a table of their own first.
    pub fn is_staged(&self) -> bool {
        self.publish.stage(self.atomic) != Stage::Target
    }

    /// Where rows of a run are sent.
    pub fn filled(&self, run_id: &str) -> Result<QualifiedName> {
        if self.is_staged() { stage_of(&self.name, run_id) } else { Ok(self.name.clone()) }
    }

    /// Names and types, by which a change of it is known.
    pub fn shape(&self) -> String {
        let columns = self.columns.iter().map(|c| format!("{} {}", c.name, c.type_name));
        columns.collect::<Vec<_>>().join(", ")
    }
}

/// Where rows of a run are until they are published.
pub fn stage_of(table: &QualifiedName, run_id: &str) -> Result<QualifiedName> {
    let name = format!("{}_fb_{run_id}_staging", short(table.name()));
    QualifiedName::new(table.schema(), &name).map_err(|error| Error::usage(error.to_string()))
}

/// Whether there are rows in a table, or in what else SQL lets stand in its place.
pub fn has_rows(link: &mut dyn Link, from: &str) -> Result<bool> {
    Ok(!link.query(&format!("SELECT 1 FROM {from} LIMIT 1"))?.is_empty())
}

/// A table that belongs to a staging table.
pub fn named(stage: &QualifiedName, suffix: &str) -> Result<QualifiedName> {
    let name = format!("{}{suffix}", stage.name());
    QualifiedName::new(stage.schema(), &name).map_err(|error| Error::usage(error.to_string()))
}

/// A name that leaves room in the 64 characters that MariaDB allows for one.
fn short(name: &str) -> String {
    if name.chars().count() <= NAME_MAX {
        return name.to_owned();
    }
    let start: String = name.chars().take(NAME_MAX - 5).collect();
    let mark = name.bytes().fold(0_u16, |mark, byte| mark.rotate_left(5) ^ u16::from(byte));
    format!("{start}_{mark:04x}")
}

/// A column as the plan knows it.
pub fn target_column(column: &Column) -> TargetColumn {
    TargetColumn {
        name: column.name.clone(),
        type_name: column.type_name.clone(),
        field_type: column.field_type.clone(),
        is_nullable: column.is_nullable,
        is_generated: column.is_generated,
        fills_itself: column.fills_itself,
        keeps_rows_text: false,
    }
}

/// Names, quoted and in a row.
pub fn listed<'a>(names: impl Iterator<Item = &'a str>) -> Result<String> {
    let quoted = names.map(|name| quote_identifier(name).map_err(|e| Error::usage(e.to_string())));
    Ok(quoted.collect::<Result<Vec<_>>>()?.join(", "))
}

impl TargetTable for Table {
    fn name(&self) -> String {
        self.name.to_string()
    }

    fn columns(&self) -> &[TargetColumn] {
        &self.targets
    }

    fn create(&self) -> Option<&str> {
        self.create.as_deref()
    }

    fn notes(&self) -> &[String] {
        &[]
    }

    fn partition_key(&self) -> Option<&[String]> {
        None
    }

    fn second_digits(&self, _: &str) -> Option<u32> {
        None
    }

    fn is_constrained(&self) -> bool {
        false
    }

    fn refuses_nulls(&self) -> bool {
        true
    }

    fn keeps_old(&self) -> bool {
        false
    }

    fn upsert(&self) -> Option<&Upsert> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_staging_tables_fit_every_database() {
        let stage = |name: &str| {
            let table = QualifiedName::new(Some("s"), name).expect("a name");
            stage_of(&table, "0trb8wdhyyhg72gghmr2").expect("a name")
        };
        assert_eq!(stage("orders").name(), "orders_fb_0trb8wdhyyhg72gghmr2_staging");
        let (one, other) = ("a".repeat(63), format!("{}b", "a".repeat(62)));
        let (one, other) = (stage(&one), stage(&other));
        assert_ne!(one, other);
        // `_old`, `_new` or `_one` follow where a table or its partitions are replaced.
        assert!(one.name().len() + "_old".len() <= 64, "{one}");
        assert_eq!(one.schema(), Some("s"));
    }
}
