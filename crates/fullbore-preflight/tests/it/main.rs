//! What preflight measures with, on this machine.

mod disk;
mod net;
mod wan;
