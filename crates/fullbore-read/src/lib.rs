//! Source: from paths to blocks of whole records.
//!
//! - [`discover`] finds files behind paths and globs, and objects behind URLs; [`Opened`] is either;
//! - [`decompress`] opens sources that can be read only from the beginning, [`pipe`] those that can be
//!   read only once, [`cancellable`] stops waiting for a silent pipe, and [`foreign`] refuses unsupported
//!   formats;
//! - [`margins`] finds lines before and after the records, [`fullbore_parse::boundary`] their ends;
//! - [`split`] cuts a file into pieces, messy text by `walked`, objects by `guess`;
//! - [`feed`] returns blocks: of [`ranges`] (from the [`page_cache`] or by direct reads), of a [`stream`],
//!   or of its [`remaining`] ranges; [`columnar`] returns rows as batches;
//! - [`sniff`] proposes a dialect;
//! - [`content`] recognizes a file by its contents.

pub mod bad_rows;
pub mod cancellable;
pub mod cast;
pub mod checksum;
pub mod columnar;
pub mod constants;
pub mod content;
pub mod decompress;
mod direct_read;
pub mod discover;
pub mod encoding;
pub mod error;
mod fed;
pub mod feed;
pub mod foreign;
mod guess;
pub mod halve;
pub mod lines;
mod lz4;
pub mod margins;
mod opened;
pub mod page_cache;
pub mod parquet;
pub mod peeked;
pub mod percent;
pub mod pipe;
pub mod prescan;
pub mod ranges;
mod record_size;
pub mod remaining;
pub mod sniff;
mod source_file;
pub mod split;
pub mod stream;
mod walked;

pub use fullbore_objects::{Pace, StoreOptions};
pub use opened::Opened;
pub use source_file::{FileRange, Packing, SourceFile};
