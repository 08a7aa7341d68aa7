//! PostgreSQL's operators of JSON: `->`, `->>`, `#>`, `#>>`.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion_common::cast::as_string_array;
use datafusion_common::{DFSchema, Result, exec_datafusion_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::sqlparser::ast::BinaryOperator;
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use engine_arrow::array::StringArray;
use engine_arrow::datatypes::DataType;
use serde_json::value::RawValue;

/// Makes calls of the operators.
#[derive(Debug)]
pub struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(
        &self,
        expression: RawBinaryExpr,
        _: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let (is_text, is_path) = match &expression.op {
            BinaryOperator::Arrow => (false, false),
            BinaryOperator::LongArrow => (true, false),
            BinaryOperator::HashArrow => (false, true),
            BinaryOperator::HashLongArrow => (true, true),
            _ => return Ok(PlannerResult::Original(expression)),
        };
        let member = ScalarUDF::from(Member::new(is_text, is_path));
        let arguments = vec![expression.left, expression.right];
        let call = ScalarFunction::new_udf(Arc::new(member), arguments);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}

/// A member of an object, or an item of an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Member {
    is_text: bool,
    /// Where it is is said as `{a,0,b}`.
    is_path: bool,
    signature: Signature,
}

impl Member {
    fn new(is_text: bool, is_path: bool) -> Self {
        let taken = |key| TypeSignature::Exact(vec![DataType::Utf8, key]);
        let mut all = vec![taken(DataType::Utf8)];
        if !is_path {
            all.push(taken(DataType::Int64));
        }
        Self { is_text, is_path, signature: Signature::one_of(all, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Member {
    fn name(&self) -> &str {
        match (self.is_text, self.is_path) {
            (false, false) => "->",
            (true, false) => "->>",
            (false, true) => "#>",
            (true, true) => "#>>",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let texts = args.args[0].clone().into_array(args.number_rows)?;
        let keys = args.args[1].clone().into_array(args.number_rows)?;
        // A number and a text of it are one key: which is meant, the value says.
        let is_number = keys.data_type().is_integer();
        let keys = engine_arrow::compute::cast(&keys, &DataType::Utf8)?;
        let (texts, keys) = (as_string_array(&texts)?, as_string_array(&keys)?);
        let found = texts.iter().zip(keys).map(|(text, key)| {
            let Some((text, key)) = text.zip(key) else { return Ok(None) };
            let steps: Vec<&str> = match self.is_path {
                true => key.trim_matches(['{', '}']).split(',').map(str::trim).collect(),
                false => vec![key],
            };
            let mut at: Option<String> = Some(text.to_owned());
            for step in steps {
                let Some(value) = at else { return Ok(None) };
                at = member(&value, step, is_number || self.is_path)
                    .map_err(|_| exec_datafusion_err!("{} is not JSON", shown(text)))?;
            }
            Ok(at.and_then(|value| if self.is_text { as_text(&value) } else { Some(value) }))
        });
        let found = found.collect::<Result<StringArray>>()?;
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}

/// What a value has under a key; `is_item`: the key may be the place of an item.
fn member(value: &str, key: &str, is_item: bool) -> serde_json::Result<Option<String>> {
    match value.trim_start().as_bytes().first() {
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(value)?;
            Ok(members.get(key).map(|found| found.get().to_owned()))
        }
        Some(b'[') if is_item => {
            let items: Vec<&RawValue> = serde_json::from_str(value)?;
            let place = key.parse::<i64>().ok().and_then(|place| match place < 0 {
                true => items.len().checked_sub(place.unsigned_abs() as usize),
                false => Some(place as usize),
            });
            Ok(place.and_then(|place| items.get(place)).map(|found| found.get().to_owned()))
        }
        _ => serde_json::from_str::<&RawValue>(value).map(|_| None),
    }
}

/// A value as text: a string without quotes, none for null.
fn as_text(value: &str) -> Option<String> {
    match value.as_bytes().first() {
        Some(b'"') => serde_json::from_str(value).ok(),
        Some(b'n') => None,
        _ => Some(value.to_owned()),
    }
}

fn shown(text: &str) -> String {
    const BYTES: usize = 60;
    let end = text.floor_char_boundary(BYTES);
    format!("{:?}{}", &text[..end], if end < text.len() { "..." } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_as_the_server_finds_them() {
        let json = r#"{"a": {"b": [1, "x\n", null]}, "n": null, "a b": 1.50}"#;
        let text = |key: &str| member(json, key, false).unwrap().and_then(|v| as_text(&v));
        assert_eq!(text("a b").as_deref(), Some("1.50"));
        assert_eq!(text("n"), None);
        assert_eq!(text("other"), None);
        let list = r#"[1, "x\n", null]"#;
        let item = |key: &str| member(list, key, true).unwrap().and_then(|v| as_text(&v));
        assert_eq!(item("1").as_deref(), Some("x\n"));
        assert_eq!(item("-3").as_deref(), Some("1"));
        assert_eq!(item("-4"), None);
        assert_eq!(member("7", "a", false).unwrap(), None);
        assert!(member("{a", "a", false).is_err());
    }
}
