//! The parser held against slow and simple references.

mod equals_reference;
mod texts;
mod values_equal_reference;
mod wide_equals_one_by_one;
