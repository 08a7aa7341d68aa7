//! Columns computed by SQL expressions, rows left out and rejected by SQL conditions.

mod equality;
mod lookups;
mod rows;
