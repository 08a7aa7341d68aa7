//! `--placement auto|none|streams=1,parsers=0`: on which memory nodes the threads of a load run.

use std::fmt;
use std::str::FromStr;

/// Where threads run on a machine with several memory nodes (NUMA).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Placement {
    /// Streams near the network interface, parsers near the disk.
    #[default]
    Auto,
    /// Wherever the system puts them.
    None,
    /// On nodes that are given; without one, wherever the system puts them.
    Nodes { streams: Option<u32>, parsers: Option<u32> },
}

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::Auto),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let (mut streams, mut parsers) = (None, None);
        for part in text.split(',').map(str::trim) {
            let wrong =
                || format!("{text:?} is none of auto, none and nodes such as streams=1,parsers=0");
            let (name, node) = part.split_once('=').ok_or_else(wrong)?;
            let place = match name {
                "streams" => &mut streams,
                "parsers" => &mut parsers,
                _ => return Err(wrong()),
            };
            if place.replace(node.parse().map_err(|_| wrong())?).is_some() {
                return Err(format!("{name} is given twice in {text:?}"));
            }
        }
        Ok(Self::Nodes { streams, parsers })
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::Nodes { streams, parsers } => {
                let given = [("streams", streams), ("parsers", parsers)];
                let words = given
                    .iter()
                    .filter_map(|(name, node)| node.map(|node| format!("{name}={node}")));
                let words: Vec<String> = words.collect();
                f.write_str(&words.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_as_they_are_written() {
        for text in ["auto", "none", "streams=1,parsers=0", "parsers=3"] {
            let placement: Placement = text.parse().expect(text);
            assert_eq!(placement.to_string(), text);
        }
        for wrong in ["", "all", "streams", "streams=x", "threads=1", "streams=1,streams=2"] {
            assert!(wrong.parse::<Placement>().is_err(), "{wrong}");
        }
    }
}
