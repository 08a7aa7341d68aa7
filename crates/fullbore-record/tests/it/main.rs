//! Verdicts on recorded loads whose bottleneck is known.

mod injected_bottlenecks;
