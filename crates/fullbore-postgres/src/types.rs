//! PostgreSQL's column types as what fields are parsed into.

use std::sync::Arc;

use fullbore_parse::types::{DECIMAL128_PRECISION_MAX, FieldType};

/// A column's type as the catalog tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogType {
    pub schema: String,
    pub name: String,
    /// `b` base, `e` enum, `d` domain, `c` composite, `r` range ...
    pub kind: String,
    pub modifier: i32,
    pub labels: Vec<String>,
    /// For arrays, the element type and its object id.
    pub element: Option<(Box<CatalogType>, u32)>,
}

/// Types of the grammar, or of more than one word: no search path is asked for them.
const OF_GRAMMAR: [&str; 21] = [
    "bigint",
    "bit",
    "boolean",
    "char",
    "character",
    "dec",
    "decimal",
    "double",
    "float",
    "int",
    "integer",
    "interval",
    "national",
    "nchar",
    "numeric",
    "real",
    "setof",
    "smallint",
    "time",
    "timestamp",
    "varchar",
];

/// A type's name as `format_type` writes it where the server's own objects alone are seen, so that it means
/// the same under any search path.
pub fn with_schema(name: &str) -> String {
    let end = name.find(['(', '[', ' ']).unwrap_or(name.len());
    let (word, is_quoted) = (&name[..end], name.starts_with('"'));
    match name.contains('.') || !is_quoted && OF_GRAMMAR.contains(&word) {
        true => name.to_owned(),
        false => format!("pg_catalog.{name}"),
    }
}

/// The server's own types that are written as one word, outside the grammar: a type of another schema may
/// have their names.
const OWN: [&str; 25] = [
    "bool",
    "bpchar",
    "bytea",
    "cidr",
    "date",
    "float4",
    "float8",
    "inet",
    "int2",
    "int4",
    "int8",
    "json",
    "jsonb",
    "jsonpath",
    "macaddr",
    "money",
    "name",
    "oid",
    "point",
    "text",
    "timestamptz",
    "timetz",
    "uuid",
    "varbit",
    "xml",
];

/// A type's name as people write it; one of the server's own gets its schema.
pub fn own_with_schema(name: &str) -> String {
    let end = name.find(['(', '[', ' ']).unwrap_or(name.len());
    match OWN.contains(&name[..end].to_ascii_lowercase().as_str()) {
        true => format!("pg_catalog.{name}"),
        false => name.to_owned(),
    }
}

/// The header that a type modifier counts too (`VARHDRSZ`).
const MODIFIER_HEADER: i32 = 4;

impl CatalogType {
    /// Whether any server has it.
    pub fn is_built_in(&self) -> bool {
        match &self.element {
            Some((element, _)) => element.is_built_in(),
            None => self.schema == "pg_catalog",
        }
    }

    /// What a field of this type is parsed into; `None` where there is no binary encoder for it,
    /// so that it goes as text.
    pub fn field_type(&self, zoneless_is_utc: bool) -> Option<FieldType> {
        if let Some((element, _)) = &self.element {
            // The modifier of an array column is that of its elements.
            let element = CatalogType { modifier: self.modifier, ..(**element).clone() };
            return element
                .field_type(zoneless_is_utc)
                .map(|item| FieldType::Array(Box::new(item)));
        }
        if self.kind == "e" {
            return Some(FieldType::Enum { labels: Arc::from(self.labels.as_slice()) });
        }
        if self.kind != "b" || self.schema != "pg_catalog" {
            return None;
        }
        let characters_max = u32::try_from(self.modifier - MODIFIER_HEADER).ok();
        Some(match self.name.as_str() {
            "bool" => FieldType::Boolean,
            "int2" => FieldType::Int16,
            "int4" => FieldType::Int32,
            "int8" => FieldType::Int64,
            "float4" => FieldType::Float32,
            "float8" => FieldType::Float64,
            "numeric" => return numeric(self.modifier),
            "text" => FieldType::text(),
            "varchar" | "bpchar" => FieldType::Text { characters_max },
            "date" => FieldType::Date,
            "time" => FieldType::Time,
            "timestamp" => FieldType::Timestamp,
            "timestamptz" => FieldType::TimestampTz { zoneless_is_utc },
            "uuid" => FieldType::Uuid,
            "bytea" => FieldType::Bytea,
            "json" => FieldType::Json,
            "jsonb" => FieldType::Jsonb,
            _ => return None,
        })
    }
}

/// `numeric`'s modifier: precision in the upper half, an 11-bit signed scale in the lower
/// (`make_numeric_typmod` in PostgreSQL's numeric.c).
fn numeric(modifier: i32) -> Option<FieldType> {
    if modifier < MODIFIER_HEADER {
        return Some(FieldType::NumericText { limits: None });
    }
    let packed = modifier - MODIFIER_HEADER;
    let precision = (packed >> 16) as u16;
    let scale = ((packed & 0x7ff) ^ 1024) - 1024;
    // A scale below 0 or above the precision rounds in ways that are left to the server.
    let scale = u16::try_from(scale).ok().filter(|scale| *scale <= precision)?;
    Some(if precision <= u16::from(DECIMAL128_PRECISION_MAX) {
        FieldType::Decimal { precision: precision as u8, scale: scale as u8 }
    } else {
        FieldType::NumericText { limits: Some((precision, scale)) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_modifiers_are_unpacked() {
        // ((15 << 16) | 2) + 4
        assert_eq!(numeric(983_046), Some(FieldType::Decimal { precision: 15, scale: 2 }));
        assert_eq!(numeric(-1), Some(FieldType::NumericText { limits: None }));
        // numeric(3,-2): scale is 11 bits, signed.
        assert_eq!(numeric(((3 << 16) | (-2 & 0x7ff)) + 4), None);
        assert_eq!(
            numeric(((100 << 16) | 10) + 4),
            Some(FieldType::NumericText { limits: Some((100, 10)) })
        );
    }

    #[test]
    fn types_mean_the_same_under_any_search_path() {
        for (name, written) in [
            ("text", "pg_catalog.text"),
            ("text[]", "pg_catalog.text[]"),
            ("\"char\"", "pg_catalog.\"char\""),
            ("numeric(10,2)", "numeric(10,2)"),
            ("timestamp(3) with time zone", "timestamp(3) with time zone"),
            ("public.mood", "public.mood"),
        ] {
            assert_eq!(with_schema(name), written);
        }
        assert_eq!(own_with_schema("TEXT[]"), "pg_catalog.TEXT[]");
        assert_eq!(own_with_schema("mood"), "mood");
        assert_eq!(own_with_schema("varchar(3)"), "varchar(3)");
    }
}
