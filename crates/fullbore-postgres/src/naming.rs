//! Names of what a run makes in the database: all of it can be found by them.

use crate::connection::{ConnectionError, QualifiedName};

/// PostgreSQL cuts names at 63 bytes.
const NAME_BYTES_MAX: usize = 63;

/// A name made of the target's, cut where needed, and a suffix that tells run and part.
pub fn derived(
    target: &QualifiedName,
    run_id: &str,
    part: &str,
) -> Result<QualifiedName, ConnectionError> {
    let suffix = format!("_fb_{run_id}_{part}");
    let room = NAME_BYTES_MAX.saturating_sub(suffix.len());
    let base = &target.name()[..target.name().floor_char_boundary(room)];
    QualifiedName::new(target.schema(), &format!("{base}{suffix}"))
}
