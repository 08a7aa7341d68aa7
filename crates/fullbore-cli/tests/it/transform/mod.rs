//! Columns computed by SQL expressions, rows left out and rejected by SQL conditions.

mod control;
mod equality;
mod lookups;
mod rows;
mod sources;
