//! Sizes and rates as people write them.

/// `64k`, `1M`, `4MiB`, `2G`: powers of 1024, as disk and network tools have them.
pub fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let unit = unit.to_ascii_lowercase();
    let power = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit) {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err("known units are k, M, G and T: 64k, 1M".into()),
    };
    let bytes = number.parse::<f64>().ok().map(|number| number * 1024_f64.powi(power));
    match bytes {
        Some(bytes) if (1.0..1e18).contains(&bytes) && bytes.fract() == 0.0 => Ok(bytes as u64),
        _ => Err("a size is a number and a unit: 64k, 1M".into()),
    }
}

pub fn memory_size(text: &str) -> Result<usize, String> {
    size(text).and_then(|bytes| usize::try_from(bytes).map_err(|_| "that is too much".into()))
}

/// A window: a size, or `auto` for the kernel's own way.
pub fn window(text: &str) -> Result<Window, String> {
    if text == "auto" {
        Ok(Window(None))
    } else {
        memory_size(text).map(|bytes| Window(Some(bytes)))
    }
}

/// So that clap does not take the option for one that may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window(pub Option<usize>);

/// `500MB/s`, `2.5GB/s`, `10Gb/s`: a small b is a bit; powers of ten, as links are sold.
pub fn rate(text: &str) -> Result<f64, String> {
    let problem = || "a rate is written like 500MB/s, or 10Gb/s for bits".to_owned();
    let (number, unit) = split(text);
    let unit = unit.strip_suffix("/s").unwrap_or(unit);
    let (prefix, bits) =
        match (unit.strip_suffix("bit").or(unit.strip_suffix('b')), unit.strip_suffix('B')) {
            (Some(prefix), _) => (prefix, 8.0),
            (_, Some(prefix)) => (prefix, 1.0),
            _ => return Err(problem()),
        };
    let scale = match prefix {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return Err(problem()),
    };
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number * scale / bits),
        _ => Err(problem()),
    }
}

/// 65536 as 64k: what [`size`] reads.
pub fn short(bytes: u64) -> String {
    let units = [(1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")];
    units
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("64k"), Ok(65536));
        assert_eq!(size("1MiB"), Ok(1 << 20));
        assert_eq!(size("1.5M"), Ok(3 << 19));
        assert_eq!(size("512"), Ok(512));
        for text in ["", "k", "-1k", "1x", "0", "0.1", "1e9", "9999999T"] {
            assert!(size(text).is_err(), "{text}");
        }
        for text in ["64k", "1M", "3M", "1000", "2G"] {
            assert_eq!(short(size(text).expect("a size")), text);
        }
        assert_eq!(window("auto"), Ok(Window(None)));
        assert_eq!(window("1M"), Ok(Window(Some(1 << 20))));
    }

    #[test]
    fn rates() {
        assert_eq!(rate("500MB/s"), Ok(5e8));
        assert_eq!(rate("10Gb/s"), Ok(1.25e9));
        assert_eq!(rate("100Mbit"), Ok(1.25e7));
        for text in ["500", "5 apples", "-1MB/s", "0MB/s", "MB/s", "1XB"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
