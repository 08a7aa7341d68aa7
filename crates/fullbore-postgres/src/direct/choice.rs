//! Decides how a table's rows enter the server.

use fullbore_core::destination::Lane;
use fullbore_core::error::Result;
use fullbore_core::job::{Codec, Method, Publish};
use fullbore_core::plan::columns::Shapes;

use super::Descriptor;
use super::probe::Probe;
use crate::destination::Target;
use crate::encode_direct::Layout;
use crate::error::refuse;

/// How a table is loaded directly.
#[derive(Debug, Clone)]
pub struct Direct {
    pub descriptor: Descriptor,
    /// `None` where only the server can lay rows out.
    pub layout: Option<Layout>,
    pub codec: Codec,
}

/// The method that was chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub method: Method,
    pub reason: String,
}

/// What the job asks for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub method: Method,
    pub codec: Codec,
}

/// Chooses; a target that is loaded directly keeps how.
pub fn choose(target: &mut Target, wanted: Wanted, shapes: &Shapes) -> Result<Choice> {
    let copy = |reason: String| Ok(Choice { method: Method::Copy, reason });
    let probe = match (wanted.method, target.probe.take()) {
        (Method::Copy, _) | (_, None) => return copy("it was asked for".into()),
        (_, Some(probe)) => probe,
    };
    let must = wanted.method == Method::Direct;
    let descriptor = match probe {
        Probe::Described(descriptor) => *descriptor,
        Probe::Impossible { reason, hint } if must => {
            let by_copy = "or let --method auto load it by COPY";
            return Err(refuse(
                format!("{} can't be loaded directly: {reason}", target.name()),
                hint.map_or(by_copy.to_owned(), |hint| format!("{hint}; {by_copy}")),
            ));
        }
        Probe::Impossible { reason, .. } => {
            return copy(reason);
        }
    };
    if wanted.codec != Codec::None && !descriptor.codecs.iter().any(|c| c == wanted.codec.name()) {
        return Err(refuse(
            format!("the server's extension can't unpack {}", wanted.codec.name()),
            format!("choose --compress {}", descriptor.codecs.join(" or ")),
        ));
    }
    let layout = match (shapes.lane, &shapes.lane_reason) {
        (Lane::Text, Some(reason)) => Err(reason.clone()),
        _ => Layout::new(&descriptor, &shapes.typed),
    };
    let (layout, reason) = match layout {
        Ok(layout) => (Some(layout), sessions(target.publish).to_owned()),
        Err(why) if must => (None, format!("it was asked for; all rows travel out of band: {why}")),
        Err(why) => return copy(format!("all rows would travel out of band: {why}")),
    };
    target.direct = Some(Direct { descriptor, layout, codec: wanted.codec });
    Ok(Choice { method: Method::Direct, reason })
}

fn sessions(publish: Publish) -> &'static str {
    match publish {
        Publish::Replace => {
            "the server has the extension and the table allows it; one session, fed by all parsers"
        }
        _ => "the server has the extension and the table allows it",
    }
}
