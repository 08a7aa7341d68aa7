//! SQL expressions over batches: DataFusion's, evaluated where rows are parsed.
//!
//! A [`Compiler`] knows the columns that expressions may name and makes an [`Expression`] of each; a [`Frame`] holds
//! one batch of those columns as the engine has them, and [`Expression::evaluate`] gives one array for it. There is
//! no plan, no thread and no partition of the engine's: rows keep their order and their number.
//!
//! What an expression gives is loaded as if it were assigned to its column by SQL ([`assign`]).

pub mod assign;
mod bridge;
mod compile;
mod frame;
mod functions;
pub mod lookup;
mod types;
mod words;

pub use compile::{Compiler, Expression, Input, inlined};
pub use frame::Frame;
pub use lookup::Lookup;
pub use types::engine_type;
pub use words::Words;
