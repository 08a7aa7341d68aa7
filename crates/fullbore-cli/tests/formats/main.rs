//! What files may be: formats beyond delimited text, whatever they hold, and what is said of a load of
//! them.

#[path = "../common/mod.rs"]
mod common;

mod created;
mod foreign;
mod json;
mod parquet_folders;
mod parquet_memory;
mod parquet_types;
