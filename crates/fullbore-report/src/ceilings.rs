//! The ceilings of a run as bars, compared with the achieved rate.

use fullbore_record::ceilings::Ceiling;
use maud::{Markup, html};

use crate::page::Page;
use crate::words::bytes;

/// The longest bar is at most so many times the shortest; what is more is only written.
const LONGEST: f64 = 5.0;

/// Nothing where no ceilings were known.
pub fn ceilings(page: &Page) -> Markup {
    let all = page.ceilings.as_ref().map(|known| known.all()).unwrap_or_default();
    let achieved = page.achieved.map(|achieved| achieved.bytes_per_second);
    let rates = || all.iter().map(|ceiling| ceiling.bytes_per_second).chain(achieved);
    // Files in the page cache are read so fast that beside it all else would look the same.
    let lowest = rates().fold(f64::MAX, f64::min);
    let most = rates().fold(0.0, f64::max).min(lowest * LONGEST);
    let bar = |name: &str, rate: f64| {
        html! {
            li {
                span .name { (name) }
                (crate::sections::bar(rate / most))
                span .number { (bytes(rate as u64)) "/s" }
            }
        }
    };
    html! {
        @if !all.is_empty() && most > 0.0 {
            section #of-ceilings {
                h2 { "Achieved, compared with the ceilings" }
                ul .bars {
                    @if let Some(rate) = achieved { (bar("this run", rate)) }
                    @for Ceiling { resource, bytes_per_second } in &all {
                        (bar(resource.words(), *bytes_per_second))
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fullbore_record::ceilings::{Ceilings, Stage};
    use fullbore_record::{Entry, Event};

    use crate::render;

    #[test]
    fn a_record_with_ceilings_has_bars_and_one_without_has_none() {
        let stage = Stage { bytes_per_second: 4e8, ..Stage::default() };
        let ceilings = Ceilings { read: Some(stage), ..Ceilings::default() };
        let ceiling = ceilings.lowest().expect("one");
        let achieved = fullbore_record::ceilings::Achieved {
            bytes_per_second: 1e8,
            ceiling,
            over_ceiling: 0.25,
        };
        let of = |event| Entry { at: 0.0, event };
        let entries = [
            of(Event::Ceilings { ceilings: Box::new(ceilings) }),
            of(Event::Achieved { achieved }),
        ];
        let page = render(&entries);
        assert!(page.contains("Achieved 0.25 of the ceiling: 100 MB/s of 400 MB/s"), "{page}");
        assert!(page.contains("width=\"25.0\"") && page.contains("reading the source"));
        assert!(!render(&[]).contains("id=\"of-ceilings\""));
    }
}
