//! `preflight net`: what the way between two hosts carries, and what limits it.
//!
//! One host listens, the other sends, as a load does. The way of a measurement, a module per step:
//!
//! - [`listen`], [`client`]: the two sides; `session` is the listener's view of one who measures;
//! - [`handshake`], [`token`], `control`: authentication by the token;
//! - [`message`]: the messages of both sides, within limits;
//! - `send`, `receive`, `socket`, `fullbore_pgwire::tcp_info`, `kernel`: streams and what the kernels know of them;
//! - [`predict`], [`limit`], [`advice`], [`report`]: pure, from figures to what they mean.

pub mod advice;
pub mod client;
mod control;
pub mod handshake;
mod kernel;
pub mod limit;
pub mod listen;
pub mod message;
pub mod predict;
mod receive;
pub mod report;
mod send;
mod session;
mod shared;
mod socket;
pub mod token;

pub use client::{Request, run};
pub use listen::{ListenOptions, Listener};
pub use report::Report;
pub use shared::Event;
pub use token::Token;
