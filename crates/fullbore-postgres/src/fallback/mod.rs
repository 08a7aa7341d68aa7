//! Finds and rejects rows that PostgreSQL refuses. COPY fails on the first bad row and reports no others,
//! so each kind of bad row is found in its own way:
//!
//! | module | which rows | when |
//! |---|---|---|
//! | [`server_check`] | non-canonical values: only the server can read them | while their piece is loaded |
//! | [`row_by_row`] | all rows of a piece that was refused as a whole | the piece is loaded again |
//! | [`violations`] | rows that violate a key or another constraint of the whole table | publishing failed |
//!
//! What they need to send rows one after the other in one statement is in [`row_loop`]. Every refused
//! row comes out as a `Refusal`; what the run makes of it, and how records are read again from the
//! sources, is `fullbore_load::run`'s.

pub mod row_by_row;
pub mod row_loop;
pub mod server_check;
pub mod violations;
