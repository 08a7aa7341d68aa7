//! The direct method: rows laid out by the client and appended to a new table by the extension
//! (extension/PROTOCOL.md).
//!
//! [`Descriptor`] is what the server tells of a table.

mod descriptor;

pub use descriptor::{ColumnDescriptor, Descriptor, Refused};
