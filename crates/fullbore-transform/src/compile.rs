//! From SQL to an expression that can be evaluated.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType;
use chrono::DateTime;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{
    Column, DFSchema, DFSchemaRef, DataFusionError, ScalarValue, TableReference, plan_err,
};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{AggregateUDF, Expr, ExprSchemable, HigherOrderUDF, ScalarUDF, TableSource};
use datafusion_expr::{Operator, Volatility, WindowUDF};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use datafusion_physical_expr::expressions::{BinaryExpr, Literal, NegativeExpr};
use datafusion_physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion_sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion_sql::sqlparser::ast::{
    Expr as Sql, Ident, visit_expressions, visit_expressions_mut,
};
use datafusion_sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion_sql::sqlparser::parser::Parser;
use datafusion_sql::sqlparser::tokenizer::Token;
use engine_arrow::array::RecordBatch;
use engine_arrow::datatypes::{DataType as EngineType, Field, Schema, SchemaRef};

use crate::frame::Frame;
use crate::types::{SqlTypes, engine_type};
use crate::words::Words;
use crate::{bridge, functions};

/// A column that expressions may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// What it is a column of, where it is none of the source: the name of a lookup.
    pub relation: Option<String>,
    pub name: String,
    pub data_type: DataType,
}

/// Compiles expressions over some columns.
pub struct Compiler {
    functions: Functions,
    schema: DFSchemaRef,
    /// The moment that `now()` is, in microseconds since 1970 UTC.
    now: i64,
}

/// An expression over the columns of its compiler.
#[derive(Debug, Clone)]
pub struct Expression {
    physical: Arc<dyn PhysicalExpr>,
    data_type: DataType,
    /// The inputs that it names, ascending.
    pub uses: Vec<usize>,
}

impl Compiler {
    /// # Errors
    /// Two columns of one name, or a type that the engine does not have.
    pub fn new(inputs: &[Input], now: i64) -> Result<Self, Words> {
        let fields = inputs.iter().map(|input| {
            let data_type = bridge::given_type(&engine_type(&input.data_type))?;
            let name = match &input.relation {
                Some(relation) => of_relation(relation, &input.name),
                None => input.name.clone(),
            };
            Ok(Field::new(name, data_type, true))
        });
        let schema = Schema::new(fields.collect::<Result<Vec<_>, Words>>()?);
        let schema = DFSchema::try_from(schema).map_err(words)?;
        Ok(Self { functions: Functions::new(), schema: Arc::new(schema), now })
    }

    /// The inputs that an expression names, ascending; nothing is asked of their types.
    pub fn inputs_of(&self, sql: &str) -> Result<Vec<usize>, Words> {
        let mut named = Vec::new();
        let looked = visit_expressions(&parsed(sql)?, |part| {
            let Sql::Identifier(name) = part else { return ControlFlow::Continue(()) };
            match self.input_named(name) {
                Ok(column) => named.push(column),
                Err(why) => return ControlFlow::Break(why),
            }
            ControlFlow::Continue(())
        });
        if let ControlFlow::Break(why) = looked {
            return Err(why);
        }
        named.sort_unstable();
        named.dedup();
        Ok(named)
    }

    /// The only input that an expression names, where it is nothing but that name.
    pub fn plain_input(&self, sql: &str) -> Result<Option<usize>, Words> {
        match parsed(sql)? {
            Sql::Identifier(name) => self.input_named(&name).map(Some),
            _ => Ok(None),
        }
    }

    fn input_named(&self, name: &Ident) -> Result<usize, Words> {
        let column = Column::new_unqualified(as_read(name));
        self.schema.index_of_column(&column).map_err(words)
    }

    /// Compiles an expression that gives a value.
    pub fn value(&self, sql: &str) -> Result<Expression, Words> {
        let expression = self.planned(sql)?;
        self.compiled(expression)
    }

    /// Compiles a condition.
    pub fn condition(&self, sql: &str) -> Result<Expression, Words> {
        let found = self.value(sql)?;
        match found.data_type {
            DataType::Boolean => Ok(found),
            other => Err(format!("it must be true or false, but is {}", other)),
        }
    }

    /// These arrays as the expressions see them, in the order of the inputs.
    pub fn frame(&self, arrays: &[ArrayRef], rows: usize) -> Result<Frame, Words> {
        let schema: &SchemaRef = self.schema.inner();
        Frame::of(schema, arrays, rows)
    }

    /// The same rows with more columns behind them, as this compiler's inputs have them.
    pub fn extended(&self, frame: &Frame, more: &[ArrayRef]) -> Result<Frame, Words> {
        frame.with(self.schema.inner(), more)
    }

    fn planned(&self, sql: &str) -> Result<Expr, Words> {
        let sql = parsed(sql)?;
        let options = ParserOptions::new()
            .with_parse_float_as_decimal(true)
            .with_map_string_types_to_utf8view(false);
        let planner = SqlToRel::new_with_options(&self.functions, options);
        let planned = planner.sql_to_expr(sql, &self.schema, &mut PlannerContext::new());
        let planned = planned.map_err(words)?;
        refuse(&planned)?;
        Ok(planned)
    }

    fn uses(&self, expression: &Expr) -> Result<Vec<usize>, Words> {
        let columns = expression.column_refs();
        let found = columns.into_iter().map(|column| self.schema.index_of_column(column));
        let mut found = found.collect::<Result<Vec<_>, _>>().map_err(words)?;
        found.sort_unstable();
        Ok(found)
    }

    fn compiled(&self, expression: Expr) -> Result<Expression, Words> {
        let uses = self.uses(&expression)?;
        let now = DateTime::from_timestamp_micros(self.now);
        let options = Arc::new(self.functions.options.clone());
        let context = SimplifyContext::builder()
            .with_schema(Arc::clone(&self.schema))
            .with_query_execution_start_time(now)
            .with_config_options(Arc::clone(&options))
            .build();
        let simplifier = ExprSimplifier::new(context);
        let coerced = simplifier.coerce(expression, &self.schema).map_err(words)?;
        let coerced = functions::rounded_casts(coerced, &self.schema).map_err(words)?;
        let simple = simplifier.simplify(coerced).map_err(words)?;
        let simple = functions::counted_days(simple, &self.schema).map_err(words)?;
        let data_type = simple.get_type(self.schema.as_ref()).map_err(words)?;
        let mut properties = ExecutionProps::new();
        properties.query_execution_start_time = now;
        properties.config_options = Some(options);
        let physical = create_physical_expr(
            &simple,
            &self.schema,
            &properties,
            &PhysicalPlanningContext::default(),
        );
        let physical = physical.and_then(|found| within_range(found, self.schema.inner()));
        let physical = physical.map_err(words)?;
        // What the engine knows only when it evaluates is known before a row moves.
        let nothing = RecordBatch::new_empty(Arc::clone(self.schema.inner()));
        physical.evaluate(&nothing).and_then(|value| value.into_array(0)).map_err(words)?;
        Ok(Expression { physical, data_type: bridge::taken_type(&data_type)?, uses })
    }
}

impl Expression {
    /// The type of its values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Its value for each row.
    ///
    /// # Errors
    /// Some row has no value: a cast that fails, a division by zero.
    pub fn evaluate(&self, frame: &Frame) -> Result<ArrayRef, Words> {
        let value = self.physical.evaluate(&frame.batch).map_err(words)?;
        let array = value.into_array(frame.rows()).map_err(words)?;
        bridge::taken(&array)
    }

    /// Whether the condition holds, for each row.
    pub fn holds(&self, frame: &Frame) -> Result<BooleanArray, Words> {
        let found = self.evaluate(frame)?;
        Ok(found.as_any().downcast_ref::<BooleanArray>().expect("it is a condition").clone())
    }
}

/// How a column of a lookup is called within: the engine takes `c.key` and `key` for ambiguous.
fn of_relation(relation: &str, name: &str) -> String {
    format!("{relation}.{name}")
}

/// A name as SQL reads it.
fn as_read(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

fn parsed(sql: &str) -> Result<Sql, Words> {
    let dialect = PostgreSqlDialect {};
    let mut parser = Parser::new(&dialect).try_with_sql(sql).map_err(syntax)?;
    let mut found = parser.parse_expr().map_err(syntax)?;
    if parser.peek_token().token != Token::EOF {
        return Err(format!("there is more behind it: {}", parser.peek_token().token));
    }
    let _ = visit_expressions_mut(&mut found, |part| {
        if let Sql::CompoundIdentifier(names) = part
            && let [relation, name] = names.as_slice()
        {
            let name = of_relation(&as_read(relation), &as_read(name));
            *part = Sql::Identifier(Ident::with_quote('"', name));
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(found)
}

/// An expression in which names of computed columns are replaced by what computes them; `columns` are these, each with
/// its SQL, which may be empty.
pub fn inlined(sql: &str, columns: &[(String, String)]) -> Result<String, Words> {
    let mut found = parsed(sql)?;
    let looked = visit_expressions_mut(&mut found, |part| {
        let Sql::Identifier(name) = part else { return ControlFlow::Continue(()) };
        let name = as_read(name);
        let computed = columns.iter().find(|(known, sql)| *known == name && !sql.is_empty());
        match computed.map(|(_, sql)| parsed(sql)) {
            Some(Ok(by)) => *part = Sql::Nested(Box::new(by)),
            Some(Err(why)) => return ControlFlow::Break(why),
            None => {}
        }
        ControlFlow::Continue(())
    });
    match looked {
        ControlFlow::Break(why) => Err(why),
        ControlFlow::Continue(()) => Ok(found.to_string()),
    }
}

fn syntax(error: datafusion_sql::sqlparser::parser::ParserError) -> Words {
    error.to_string().trim_start_matches("sql parser error: ").to_owned()
}

/// Refuses what does not depend on its row alone, or would give another value when a row is read again.
fn refuse(expression: &Expr) -> Result<(), Words> {
    let mut refused = None;
    let looked = expression.apply(|part| {
        let why = match part {
            Expr::ScalarFunction(call) if is_volatile(&call.func) => {
                Some(format!("{}() differs whenever a row is read", call.func.name()))
            }
            Expr::AggregateFunction(call) => {
                Some(format!("{}() is over many rows", call.func.name()))
            }
            Expr::WindowFunction(_) => Some("a window is over many rows".into()),
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) => {
                Some("a query in it would need other tables; use a lookup".into())
            }
            Expr::Placeholder(_) => Some("it has a parameter".into()),
            _ => None,
        };
        refused = refused.take().or(why);
        Ok(TreeNodeRecursion::Continue)
    });
    looked.map_err(words)?;
    refused.map_or(Ok(()), Err)
}

/// The same, where sums, differences and products that leave the range of their type are errors, as in PostgreSQL: the
/// engine's own begin again at the other end.
fn within_range(
    expression: Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> datafusion_common::Result<Arc<dyn PhysicalExpr>> {
    let checked = expression.transform_up(|part| {
        if let Some(operation) = part.downcast_ref::<BinaryExpr>() {
            let checked = operation.clone().with_fail_on_overflow(true);
            return Ok(Transformed::yes(Arc::new(checked) as Arc<dyn PhysicalExpr>));
        }
        let Some(negative) = part.downcast_ref::<NegativeExpr>() else {
            return Ok(Transformed::no(part));
        };
        let data_type = negative.arg().data_type(schema)?;
        if !data_type.is_integer() {
            return Ok(Transformed::no(part));
        }
        let zero = Arc::new(Literal::new(ScalarValue::new_zero(&data_type)?));
        let less = BinaryExpr::new(zero, Operator::Minus, Arc::clone(negative.arg()));
        Ok(Transformed::yes(Arc::new(less.with_fail_on_overflow(true)) as Arc<dyn PhysicalExpr>))
    });
    checked.map(|found| found.data)
}

fn is_volatile(function: &ScalarUDF) -> bool {
    function.signature().volatility == Volatility::Volatile
}

/// The engine's words without what surrounds them.
fn words(error: DataFusionError) -> Words {
    let error = error.find_root().to_string();
    let mut rest = error.lines().next().unwrap_or_default();
    const BEFORE: [&str; 10] = [
        "Arithmetic overflow: ",
        "Arrow error: ",
        "Cast error: ",
        "Compute error: ",
        "Execution error: ",
        "Error during planning: ",
        "External error: ",
        "Invalid argument error: ",
        "Parser error: ",
        "Schema error: ",
    ];
    while let Some(shorter) = BEFORE.iter().find_map(|before| rest.strip_prefix(before)) {
        rest = shorter;
    }
    let mut found = rest.trim_end().to_owned();
    const TYPES: [(&str, &str); 8] = [
        ("Int16", "smallint"),
        ("Int32", "integer"),
        ("Int64", "bigint"),
        ("Float32", "real"),
        ("Float64", "double precision"),
        ("Decimal128", "numeric"),
        ("Utf8", "text"),
        ("Date32", "date"),
    ];
    for (theirs, sql) in TYPES {
        found = found.replace(theirs, sql);
    }
    found
}

/// What expressions may call.
struct Functions {
    by_name: HashMap<String, Arc<ScalarUDF>>,
    planners: Vec<Arc<dyn ExprPlanner>>,
    options: ConfigOptions,
}

impl Functions {
    fn new() -> Self {
        let theirs = datafusion_functions::all_default_functions().into_iter();
        let mut by_name = HashMap::new();
        // Ours come last and take the place of theirs.
        for function in theirs.chain(functions::all()) {
            for alias in function.aliases() {
                by_name.insert(alias.clone(), Arc::clone(&function));
            }
            by_name.insert(function.name().to_owned(), function);
        }
        functions::ANOTHER_MEANING.iter().for_each(|name| drop(by_name.remove(*name)));
        Self { by_name, planners: functions::planners(), options: ConfigOptions::default() }
    }
}

impl ContextProvider for Functions {
    fn get_table_source(
        &self,
        name: TableReference,
    ) -> datafusion_common::Result<Arc<dyn TableSource>> {
        plan_err!("{name} can't be queried here")
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(SqlTypes))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.by_name.get(name).cloned()
    }

    fn get_higher_order_meta(&self, _: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, _: &str) -> Option<Arc<AggregateUDF>> {
        None
    }

    fn get_window_meta(&self, _: &str) -> Option<Arc<WindowUDF>> {
        None
    }

    fn get_variable_type(&self, _: &[String]) -> Option<EngineType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        self.by_name.keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udwf_names(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_may_name_what_is_computed() {
        let select = [("total", "a*b"), ("x", ""), ("day", "to_date(day)"), ("c", "l.name")];
        let select = select.map(|(name, sql)| (name.to_owned(), sql.to_owned()));
        let of = |sql| inlined(sql, &select).unwrap();
        assert_eq!(of("total >= 0 AND x = 1"), "(a * b) >= 0 AND x = 1");
        assert_eq!(of("t.a = 'total' OR totals > 1"), "\"t.a\" = 'total' OR totals > 1");
        assert_eq!(of("\"total\" < total(1)"), "(a * b) < total(1)");
        assert_eq!(of("extract(day from day) = 1"), "EXTRACT(DAY FROM (to_date(day))) = 1");
        assert_eq!(of("C = 'y'"), "(\"l.name\") = 'y'");
        assert!(inlined("total >=", &select).is_err());
    }
}
