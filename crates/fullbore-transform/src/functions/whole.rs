//! Casts of fractions to whole numbers, which round as PostgreSQL's do: the engine's own cut.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::cast::as_float64_array;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use engine_arrow::array::Float64Array;
use engine_arrow::compute::cast;
use engine_arrow::datatypes::DataType;

/// An expression in which fractions are rounded before they are cast to whole numbers.
pub fn rounded_casts(expression: Expr, schema: &datafusion_common::DFSchema) -> Result<Expr> {
    let rounded = expression.transform(|part| {
        let Expr::Cast(Cast { expr, field }) = part else { return Ok(Transformed::no(part)) };
        let given = expr.get_type(schema)?;
        let is_fraction = given.is_floating() || matches!(given, DataType::Decimal128(_, 1..));
        if !is_fraction || !field.data_type().is_integer() {
            return Ok(Transformed::no(Expr::Cast(Cast { expr, field })));
        }
        let function = Arc::new(ScalarUDF::from(Whole::new()));
        let rounded = Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*expr]));
        Ok(Transformed::yes(Expr::Cast(Cast { expr: Box::new(rounded), field })))
    });
    rounded.map(|found| found.data)
}

/// Rounds: binary fractions to even numbers, decimals away from zero.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Whole {
    signature: Signature,
}

impl Whole {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Whole {
    fn name(&self) -> &str {
        "rounded"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(match &given[0] {
            DataType::Decimal128(precision, _) => DataType::Decimal128(*precision, 0),
            _ => DataType::Float64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].clone().into_array(args.number_rows)?;
        let wanted = self.return_type(&[values.data_type().clone()])?;
        let values = cast(&values, &wanted)?;
        if wanted != DataType::Float64 {
            return Ok(ColumnarValue::Array(values));
        }
        let rounded: Float64Array =
            as_float64_array(&values)?.unary(|value| value.round_ties_even() + 0.0);
        Ok(ColumnarValue::Array(Arc::new(rounded)))
    }
}
