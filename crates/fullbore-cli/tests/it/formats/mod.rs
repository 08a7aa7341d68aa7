//! What files may be: formats beyond delimited text, whatever they hold, and what is said of a load of
//! them.

mod created;
mod equals_copy;
mod fixed;
mod foreign;
mod json;
mod parquet;
mod parquet_folders;
mod parquet_memory;
mod parquet_types;
mod parquet_values;
mod pipes;
mod reading;
