//! Source: from paths to blocks of whole records.
//!
//! [`discover`] finds files behind paths and globs; [`decompress`] opens what can only be read
//! from its beginning, [`foreign`] refuses by name what can't be read at all, [`pipe`] looks at what can be read only once, [`cancellable`] gives up on a
//! silent one that nobody waits for; [`margins`] finds what stands before the
//! records and after them; [`fullbore_parse::boundary`] knows where records end; [`split`] cuts a file
//! into pieces, messy text by `walked`; [`feed`] hands out blocks: of [`ranges`], be they [`page_cache`] or read `ahead` of the
//! parsers, of a [`stream`], of its [`remaining`] that are not loaded yet; [`sniff`] proposes a dialect;
//! [`content`] knows a file again by what it holds.

pub mod cancellable;
pub mod cast;
pub mod checksum;
pub mod constants;
pub mod content;
pub mod decompress;
mod direct_read;
pub mod discover;
pub mod encoding;
pub mod error;
pub mod feed;
pub mod foreign;
pub mod lines;
mod lz4;
pub mod margins;
pub mod page_cache;
pub mod parquet;
pub mod peeked;
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

pub use source_file::{FileRange, Packing, SourceFile};
