//! Objects of a store: found by URL, read at any place or as a stream of parallel requests, written.
//!
//! - [`Location`] reads a URL: `s3://`, `gs://`, `az://`, `https://`;
//! - [`Store`] is the client of one bucket, with the credentials that [`credentials`] finds;
//! - [`list()`] finds the objects behind a URL, a pattern or a prefix;
//! - [`Object`] is one of them, bound to the version that was found; [`Reader`] streams a range of it;
//! - [`Upload`] writes one.
//!
//! Callers are plain threads. Requests are made by a small tokio runtime, which lives as long as a store.

mod credentials;
mod error;
mod list;
mod location;
mod object;
mod open;
mod options;
mod reader;
mod runtime;
mod signed;
mod store;
mod upload;

pub use error::{Error, Kind, Result};
pub use list::{list, look_at};
pub use location::{Location, Scheme, is_url, without_secrets};
pub use object::Object;
pub use open::OpenObject;
pub use options::StoreOptions;
pub use reader::{Pace, Reader};
pub use store::Store;
pub use upload::Upload;
