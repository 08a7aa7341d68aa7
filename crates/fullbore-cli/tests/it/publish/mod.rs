//! Rows go into the table that was planned, or nowhere; what others do meanwhile is found, and nobody is
//! kept waiting without bound.

mod crowded;
mod gathered;
mod identity;
mod keep_old;
mod one_target;
mod ordered;
mod same_table;
mod slots;
mod statistics;
mod together;
mod unavailable;
mod waits;
mod writers;
