//! Types of columns as expressions see them, and SQL's names of types.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion_common::Result;
use datafusion_expr::planner::TypePlanner;
use datafusion_expr::sqlparser::ast::{DataType as Sql, ExactNumberInfo, TimezoneInfo};
use engine_arrow::datatypes::{DataType as EngineType, Field, FieldRef, TimeUnit};

/// The digits that a decimal has by default: all that fit in 128 bits, ten of them after the point.
const NUMERIC: (u8, i8) = (38, 10);

/// How expressions see a column of a type: decimals of 64 bits are widened, which the engine knows better.
pub fn engine_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::LargeUtf8 | DataType::Utf8View | DataType::FixedSizeBinary(16) => DataType::Utf8,
        DataType::Dictionary(_, value) => engine_type(value),
        other => other.clone(),
    }
}

/// SQL's types as PostgreSQL means them: moments in microseconds, text without limit.
#[derive(Debug)]
pub struct SqlTypes;

impl TypePlanner for SqlTypes {
    fn plan_type_field(&self, sql: &Sql) -> Result<Option<FieldRef>> {
        let moment = |zone| EngineType::Timestamp(TimeUnit::Microsecond, zone);
        let found = match sql {
            Sql::Text | Sql::Varchar(_) | Sql::CharacterVarying(_) | Sql::String(_) => {
                EngineType::Utf8
            }
            Sql::JSON | Sql::JSONB | Sql::Uuid => EngineType::Utf8,
            Sql::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => moment(None),
            Sql::Timestamp(..) | Sql::TimestampNtz(_) => moment(Some("UTC".into())),
            Sql::Time(..) => EngineType::Time64(TimeUnit::Microsecond),
            Sql::Numeric(ExactNumberInfo::None) | Sql::Decimal(ExactNumberInfo::None) => {
                EngineType::Decimal128(NUMERIC.0, NUMERIC.1)
            }
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(Field::new("", found, true))))
    }
}
