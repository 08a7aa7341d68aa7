//! Experiments: which loads are run in which order, and what came of them. Pure: nothing is loaded here.
//!
//! A [`Design`] has factors with their levels; a cell is one level of each. Cells are measured in *blocks*: each
//! has every cell once, in a random order, so that what changes slowly (a cache, a neighbour, the weather of a
//! network) falls on all cells alike, and cells of one block are compared with each other only.

mod design;
mod found;
mod interval;
mod journal;
mod knee;
mod steady;
mod stepwise;
mod table;

pub use design::{Cell, Design, Factor, order};
pub use found::{Found, FoundKnee, FoundStep};
pub use interval::{Interval, Within, change};
pub use journal::{Journal, JournalError, Measured};
pub use knee::{Knee, knee};
pub use steady::{Pace, pace};
pub use stepwise::{Step, Stepwise, pairs};
pub use table::{Row, rows};
