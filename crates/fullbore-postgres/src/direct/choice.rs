//! Decides how a table's rows enter the server.

use fullbore_load::job::DirectIo;
use fullbore_load::plan::columns::Shapes;
use fullbore_load::target::{Choice, Wanted};
use fullbore_parse::Lane;
use fullbore_read::error::Result;
use fullbore_record::terms::{Codec, Method};

use super::filled;
use super::known::{Direct, Probe};
use crate::encode_direct::Layout;
use crate::error::refuse;
use crate::target::PostgresTable;

/// Chooses; a target that is loaded directly keeps how, any other says what was asked for in vain.
pub fn choose(target: &mut PostgresTable, wanted: Wanted, shapes: &Shapes) -> Result<Choice> {
    let codec = wanted.compress.codec().unwrap_or(Codec::None);
    let io = wanted.io;
    let choice = chosen(target, wanted, shapes)?;
    if choice.method == Method::Copy {
        let compress = format!("--compress {}", codec.name());
        let given =
            [(codec != Codec::None, compress.as_str()), (io != DirectIo::Auto, "--direct-io")];
        for (_, option) in given.iter().filter(|(is_given, _)| *is_given) {
            let note = format!("{option} has no effect: it is for method direct");
            target.notes.push(note);
        }
    }
    Ok(choice)
}

fn chosen(target: &mut PostgresTable, wanted: Wanted, shapes: &Shapes) -> Result<Choice> {
    let copy = |reason: String| Ok(Choice { method: Method::Copy, reason });
    if wanted.method == Method::Copy {
        return copy("it was requested".into());
    }
    let must = wanted.method == Method::Direct;
    let probe = target.probe.take().expect("a target is probed unless it is to go by COPY");
    let (descriptor, indexes) = match probe {
        Probe::Described(descriptor, indexes) => (*descriptor, indexes),
        Probe::Impossible { reason, hint } if must => {
            return Err(refuse(
                format!("{} can't be loaded directly: {reason}", target.name()),
                with_the_other_way(hint.as_deref()),
            ));
        }
        Probe::Impossible { reason, .. } => {
            return copy(reason);
        }
    };
    let codec = wanted.compress.codec().unwrap_or(Codec::None);
    if codec != Codec::None && !descriptor.codecs.iter().any(|known| known == codec.name()) {
        return Err(refuse(
            format!("the server's extension can't unpack {}", codec.name()),
            format!("choose --compress {}", descriptor.codecs.join(" or ")),
        ));
    }
    let layout = match (shapes.lane, &shapes.lane_reason) {
        (Lane::Text, Some(reason)) => Err(reason.clone()),
        _ => Layout::new(&descriptor, &shapes.typed),
    };
    let (layout, reason) = match layout {
        Ok(layout) => (Some(layout), sessions(target, must)),
        Err(why) if must => {
            (None, format!("it was requested, but all rows travel out of band: {why}"))
        }
        Err(why) => return copy(format!("all rows would travel out of band: {why}")),
    };
    let reason = reason + written(wanted.io);
    target.notes.extend(filled::notes(&indexes));
    target.direct = Some(Direct { descriptor, layout, io: wanted.io });
    Ok(Choice { method: Method::Direct, reason })
}

/// A hint, and that there is another method.
fn with_the_other_way(hint: Option<&str>) -> String {
    let by_copy = "or use --method auto, which falls back to COPY";
    match hint {
        None => by_copy.trim_start_matches("or ").to_owned(),
        // The server's hints are sentences.
        Some(hint) => format!("{}; {by_copy}", hint.trim_end_matches('.')),
    }
}

/// Why it is direct, and by how many sessions.
fn sessions(target: &PostgresTable, asked: bool) -> String {
    let why = match asked {
        true => "it was requested, the server has the extension and the table allows it",
        false => "the server has the extension and the table allows it",
    };
    match target.publish.has_one_session(Method::Direct) {
        true => format!("{why}; one session, fed by all parsers"),
        false => why.to_owned(),
    }
}

/// Where pages go, if that was asked for.
fn written(io: DirectIo) -> &'static str {
    match io {
        DirectIo::Auto => "",
        DirectIo::Buffered => "; written through the server's page cache (--direct-io)",
        DirectIo::Direct => "; written past the server's page cache (--direct-io)",
    }
}
