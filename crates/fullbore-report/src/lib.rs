//! Fullbore's run record as a page: one file of HTML that needs nothing else, or a page that grows.
//!
//! [`render`] reads a record and nothing else; [`live`] serves the same picture of a run in progress,
//! from its record as it is written. What a page shows is worked out here ([`page`]), and everything
//! but the curves is drawn here too ([`sections`]), so that the page can be read, and printed, without a
//! script. Names and messages of a record may come from anywhere: they reach the page as text only.

mod ceilings;
mod curves;
mod entries;
mod facts;
mod html;
pub mod live;
pub mod page;
mod sections;
mod strips;
pub mod sweep;
pub mod words;

#[cfg(test)]
mod tests;

pub use html::render;
