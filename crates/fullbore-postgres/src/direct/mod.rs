//! The direct method: rows laid out by the client and appended to a new table by the server's
//! extension (extension/PROTOCOL.md).
//!
//! [`Descriptor`] is what the server tells of a table, [`probe`] asks for it before the load,
//! [`choice`] decides by it, [`load`] sends a piece, [`leaves`] are the partitions of a table that exists,
//! [`filled`] are the indexes that are filled meanwhile, [`check`] says what a server lacks.

pub mod check;
pub mod choice;
mod descriptor;
pub mod filled;
pub mod known;
pub mod leaves;
pub mod load;
pub mod probe;

pub use descriptor::{ColumnDescriptor, Descriptor, PROTOCOL, Refused};
