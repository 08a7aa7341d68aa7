//! Transforms: columns computed by SQL expressions, rows left out or rejected by SQL conditions, keys looked up.
//!
//! [`asked`] resolves what a job asks for: which fields its expressions name, which [`inputs`] these are. [`lookups`]
//! reads what rows are looked up in, [`found`] is what was read. [`apply`] is all of it for a run, over batches.

pub mod apply;
pub mod asked;
pub mod found;
pub mod inputs;
pub mod lookups;
mod work;
