//! Files are read whole, however they are cut and wherever their bytes are.

mod ranges_equal_whole;
mod reads_past_cache;
