//! Transforms: columns computed by SQL expressions, rows left out or rejected by SQL conditions.
//!
//! [`Asked`] is what a job asks for, resolved: which fields its expressions name and what these are read as.
//! [`apply::Transform`] is the same for a run, over batches.

mod apply;
mod asked;
mod inputs;
mod lookups;

pub use apply::{Applied, Failed, Transform, line_of};
pub use asked::{Asked, Computed, asked, made};
pub use inputs::Input;
pub use lookups::{Read as Lookups, read as read_lookups};
