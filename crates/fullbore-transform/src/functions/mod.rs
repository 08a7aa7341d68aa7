//! Functions that expressions may call next to the engine's own.
//!
//! Where both have a name, it means what PostgreSQL means by it: dates are read by PostgreSQL's patterns, and JSON by
//! its operators.

mod dates;
mod days;
mod json;
mod pattern;
mod whole;

use std::sync::Arc;

use datafusion_expr::ScalarUDF;
use datafusion_expr::planner::ExprPlanner;
use datafusion_functions::core::planner::CoreFunctionPlanner;
use datafusion_functions::datetime::planner::DatetimeFunctionPlanner;
use datafusion_functions::unicode::planner::UnicodeFunctionPlanner;
pub use days::counted_days;
pub use whole::rounded_casts;

/// Functions of the engine that mean something else in PostgreSQL: its `to_char` reads `YYYY` for those letters.
pub const ANOTHER_MEANING: [&str; 2] = ["to_char", "date_format"];

pub fn all() -> Vec<Arc<ScalarUDF>> {
    dates::all().map(|function| Arc::new(ScalarUDF::from(function))).to_vec()
}

/// What gives SQL's own forms and operators their functions.
pub fn planners() -> Vec<Arc<dyn ExprPlanner>> {
    vec![
        Arc::new(json::Operators),
        Arc::new(CoreFunctionPlanner::default()),
        Arc::new(DatetimeFunctionPlanner),
        Arc::new(UnicodeFunctionPlanner),
    ]
}
