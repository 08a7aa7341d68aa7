//! Plans held against slow and simple references.

mod partitions_hold_all_rows;
