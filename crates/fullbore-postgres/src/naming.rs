//! Names of what a run makes in the database: all of it can be found by them.

use fullbore_load::run_id::RunId;
use fullbore_pgwire::{ConnectionError, QualifiedName};
use sha2::{Digest, Sha256};

/// PostgreSQL cuts names at 63 bytes.
const NAME_BYTES_MAX: usize = 63;

/// What stands in the name of every table that a run makes beside its target.
pub const MARK: &str = "_fb_";

/// Digits that tell names from each other which are cut at the same place.
const CUT_DIGITS: usize = 6;

/// A name made of the target's, cut where needed, and a suffix that tells run and part.
pub fn derived(
    target: &QualifiedName,
    run_id: &str,
    part: &str,
) -> Result<QualifiedName, ConnectionError> {
    let suffix = format!("{MARK}{run_id}_{part}");
    if RunId::is_old(run_id) {
        let name = target.name();
        let base = &name[..name.floor_char_boundary(NAME_BYTES_MAX.saturating_sub(suffix.len()))];
        return QualifiedName::new(target.schema(), &format!("{base}{suffix}"));
    }
    suffixed(target, &suffix)
}

/// A name made of the target's, cut where needed, and a suffix.
pub fn suffixed(target: &QualifiedName, suffix: &str) -> Result<QualifiedName, ConnectionError> {
    let room = NAME_BYTES_MAX.saturating_sub(suffix.len());
    let name = target.name();
    let base = match name.len() <= room {
        true => name.to_owned(),
        false => {
            let cut = &name[..name.floor_char_boundary(room.saturating_sub(CUT_DIGITS))];
            let hash = Sha256::digest(name);
            let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{cut}{}", &digits[..CUT_DIGITS])
        }
    };
    QualifiedName::new(target.schema(), &format!("{base}{suffix}"))
}

/// Where a table that a run replaces is kept: under its own name, and with the names of all that belongs
/// to it, in a schema of its own.
pub fn kept(target: &QualifiedName, run_id: &str) -> Result<QualifiedName, ConnectionError> {
    let schema = match target.schema() {
        None | Some("public") => format!("fullbore_old_{run_id}"),
        // Two tables of a run may have one name.
        Some(schema) => {
            let hash = Sha256::digest(schema);
            format!("fullbore_old_{run_id}_{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2])
        }
    };
    QualifiedName::new(Some(&schema), target.name())
}

/// Whether a name is that of a table which a run, or a whole of runs, has made for a target; `id` has the
/// shape of an id.
pub fn is_derived(
    name: &QualifiedName,
    target: &QualifiedName,
    id: &RunId,
) -> Result<bool, ConnectionError> {
    let Some((_, part)) = name.name().rsplit_once(&format!("{MARK}{}_", &**id)) else {
        return Ok(false);
    };
    let is_piece = part.len() >= 5 && part.bytes().all(|byte| byte.is_ascii_digit());
    Ok((["new", "merge"].contains(&part) || is_piece) && *name == derived(target, id, part)?)
}

/// The id in a name that a run, or a whole of runs, could have given to a table that it made.
pub fn maker(name: &QualifiedName) -> Option<RunId> {
    let (_, rest) = name.name().rsplit_once("_fb_")?;
    RunId::parse(rest.split('_').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "0dc06wqs1z9kfp3ae5tq";

    #[test]
    fn only_the_very_names_that_a_run_gives_are_its_own() {
        let id = RunId::parse(NEW).expect("an id");
        let name =
            |schema: &str, name: &str| QualifiedName::new(Some(schema), name).expect("a name");
        let target = name("s", "orders");
        let is_own = |schema: &str, text: &str| {
            is_derived(&name(schema, text), &target, &id).expect("compared")
        };
        assert!(is_own("s", &format!("orders_fb_{NEW}_new")));
        assert!(is_own("s", &format!("orders_fb_{NEW}_00012")));
        assert!(is_own("s", &format!("orders_fb_{NEW}_123456")));
        for (schema, text) in [
            ("other", format!("orders_fb_{NEW}_new")),
            ("s", format!("others_fb_{NEW}_new")),
            ("s", format!("orders_fb_{NEW}_old")),
            ("s", format!("orders_fb_{NEW}_0012")),
            ("s", format!("orders_fb_{NEW}_new_too")),
            ("s", "orders".to_owned()),
        ] {
            assert!(!is_own(schema, &text), "{schema}.{text}");
        }
    }

    #[test]
    fn long_names_that_begin_alike_do_not_become_one() {
        let name = |text: &str, run: &str| {
            let target = QualifiedName::new(Some("s"), text).expect("a name");
            derived(&target, run, "range00012").expect("a name").name().to_owned()
        };
        assert_eq!(name("orders", NEW), format!("orders_fb_{NEW}_range00012"));
        let (one, other) = ("é".repeat(40) + "1", "é".repeat(40) + "2");
        assert_ne!(name(&one, NEW), name(&other, NEW));
        assert!(name(&one, NEW).len() <= NAME_BYTES_MAX);
        // Those of a run of version 0.1 are found under the names that it gave them.
        let old = name(&one, "6b01b99c8df6");
        assert_eq!(old, format!("{}_fb_6b01b99c8df6_range00012", "é".repeat(18)));
    }
}
