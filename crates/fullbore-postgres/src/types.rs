//! PostgreSQL's column types as what fields are parsed into.

use std::sync::Arc;

use fullbore_core::parse::types::{DECIMAL128_PRECISION_MAX, FieldType};

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

/// The header that a type modifier counts too (`VARHDRSZ`).
const MODIFIER_HEADER: i32 = 4;

impl CatalogType {
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
}
