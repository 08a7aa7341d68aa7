//! Fullbore's run record as a page: one file of HTML that needs nothing else.
//!
//! [`render`] reads a record and nothing else. What a page shows is worked out here ([`page`]), and
//! everything but the curves is drawn here too, so that the page can be read, and printed, without a
//! script. Names and messages of a record may come from anywhere: they reach the page as text only.

mod ceilings;
mod html;
pub mod page;
mod strips;
pub mod words;

#[cfg(test)]
mod tests;

pub use html::render;
