//! Failures in words.

/// Why something can't be compiled or evaluated, in words without the engine's own names for it.
pub type Words = String;
