//! The data path held against slow and simple references.

mod injected_bottlenecks;
mod partitions_hold_all_rows;
mod ranges_equal_whole;
mod reads_past_cache;
