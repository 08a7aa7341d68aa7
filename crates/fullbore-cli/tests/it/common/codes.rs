//! The command's exit codes, other than 0.

pub const FAILED: i32 = 1;
pub const REFUSED: i32 = 2;
pub const STOPPED: i32 = 4;
