//! Rows, files, targets and servers that are not as they should be: rejected or refused, and nothing is lost.

mod careful;
mod files;
mod judged_alike;
mod odd_beside_triggers;
mod rows;
mod servers;
mod sift;
mod sift_beside;
mod targets;
