//! The extension's descriptor of a table: its row layout, or the reason for a refusal.

use serde::Deserialize;

/// The protocol that is spoken here.
pub const PROTOCOL: u32 = 1;

/// A table as the extension describes it.
#[derive(Debug, Clone, Deserialize)]
pub struct Descriptor {
    pub protocol: u32,
    pub extension: String,
    pub encoding: String,
    pub maxalign: usize,
    pub little_endian: bool,
    pub body_bytes_max: usize,
    pub codecs: Vec<String>,
    pub columns: Vec<ColumnDescriptor>,
    pub refusal: Option<Refused>,
    pub hash: String,
}

/// A column as the extension describes it.
#[derive(Debug, Clone, Deserialize)]
pub struct ColumnDescriptor {
    pub name: String,
    #[serde(rename = "type")]
    pub type_name: String,
    pub modifier: i32,
    pub align: usize,
    pub storage: String,
    /// How a value stands in a row; `None` where only the server knows.
    pub form: Option<String>,
    pub labels: Option<Vec<(String, u32)>>,
}

/// Why a table can't be loaded directly.
#[derive(Debug, Clone, Deserialize)]
pub struct Refused {
    pub code: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}
