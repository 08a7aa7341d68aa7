//! The data path held against slow and simple references.

mod injected_bottlenecks;
mod parser_equals_reference;
mod partitions_hold_all_rows;
mod reads_past_cache;
mod values_equal_reference;
mod wide_equals_one_by_one;
