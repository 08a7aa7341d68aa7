//! A strip for each stream, coloured by what it waited for: a long tail is seen at once.

use fullbore_record::diagnose::{Circumstances, Limit, verdict};
use fullbore_record::observe::clock::Activity;
use maud::{Markup, html};

use crate::page::Page;

/// A stretch of a strip, in seconds since the run began.
#[derive(Debug, Clone, PartialEq)]
struct Stretch {
    from: f64,
    to: f64,
    /// None where the stream had nothing to do.
    limit: Option<Limit>,
    share: f64,
}

/// Narrower stretches can't be seen; what lies in them is put together.
const WINDOWS_MAX: usize = 400;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 18.0;

/// The strips of all streams, each an image with words for those who can't see it.
pub fn strips(page: &Page) -> Markup {
    let streams = page.observations.last().map_or(0, |(_, seen)| seen.streams.len());
    let (Some(begin), Some(end)) =
        (page.observations.first().map(|o| o.0), page.observations.last().map(|o| o.0))
    else {
        return html! {};
    };
    let rows = of_streams(page, streams);
    let mut limits: Vec<Limit> = rows.iter().flatten().filter_map(|s| s.limit).collect();
    limits.sort();
    limits.dedup();
    let x = |at: f64| (at - begin) / (end - begin).max(1e-9) * WIDTH;
    html! {
        div .strips {
            @for (stream, stretches) in rows.iter().enumerate() {
                div .strip {
                    @let name = name_of(page, stream);
                    span .name { (name) }
                    svg .track role="img" aria-label=(in_words(&name, stretches))
                        viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" {
                        @for stretch in stretches {
                            rect class=(class_of(stretch.limit)) y="0" height=(HEIGHT)
                                x=(format!("{:.2}", x(stretch.from)))
                                width=(format!("{:.2}", x(stretch.to) - x(stretch.from) + 0.3)) {
                                title { (title(stretch)) }
                            }
                        }
                    }
                }
            }
            p .legend {
                @for limit in limits {
                    span { i class=(class_of(Some(limit))) {} (limit.words()) }
                }
                span { i class=(class_of(None)) {} "nothing to do" }
            }
        }
    }
}

fn title(stretch: &Stretch) -> String {
    let Stretch { from, to, share, .. } = stretch;
    match stretch.limit {
        Some(limit) => {
            format!("{from:.1} s to {to:.1} s: {} ({:.0}%)", limit.words(), share * 100.0)
        }
        None => format!("{from:.1} s to {to:.1} s: nothing to do"),
    }
}

fn class_of(limit: Option<Limit>) -> String {
    limit.map_or("l-idle".into(), |limit| format!("l-{}", limit.name()))
}

/// A stream's name: on a load of several hosts, that of its host and its number there.
fn name_of(page: &Page, stream: usize) -> String {
    let mut number = stream;
    for host in page.plan.iter().flat_map(|plan| &plan.hosts) {
        if number < host.streams {
            return format!("{}, stream {number}", host.host);
        }
        number -= host.streams;
    }
    format!("stream {stream}")
}

fn in_words(name: &str, stretches: &[Stretch]) -> String {
    let all: f64 = stretches.iter().map(|s| s.to - s.from).sum();
    let mut shares: Vec<(String, f64)> = Vec::new();
    for stretch in stretches {
        let name = stretch.limit.map_or("nothing to do", Limit::words).to_owned();
        let length = stretch.to - stretch.from;
        match shares.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += length,
            None => shares.push((name, length)),
        }
    }
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shares: Vec<String> = shares
        .iter()
        .map(|(name, length)| format!("{name} {:.0}%", length / all.max(1e-9) * 100.0))
        .collect();
    format!("{name} waited for: {}", shares.join(", "))
}

/// The stretches of each stream, each window looked at once for all of them.
fn of_streams(page: &Page, streams: usize) -> Vec<Vec<Stretch>> {
    let about = Circumstances::of(page.settings.as_ref(), 0);
    let step = page.observations.len().div_ceil(WINDOWS_MAX).max(1);
    let mut rows = vec![Vec::new(); streams];
    for (before, now) in page.observed().into_iter().flat_map(|seen| windows(seen, step)) {
        let ((from, before), (to, now)) = (before, now);
        if to <= from {
            continue;
        }
        let window = now.since(before);
        let shares = verdict(&window, &about).streams;
        for ((row, stream), share) in rows.iter_mut().zip(&window.streams).zip(shares) {
            let times = &stream.times;
            let idle = times.of(Activity::Idle).ms as f64 / times.total_ms().max(1) as f64;
            let share = share.filter(|_| idle < 0.5);
            let stretch = Stretch {
                from: *from,
                to: *to,
                limit: share.map(|share| share.limit),
                share: share.map_or(idle, |share| share.share),
            };
            push(row, stretch);
        }
    }
    rows
}

/// Pairs of entries so many apart; the last one is in the last pair.
fn windows<T>(entries: &[T], step: usize) -> impl Iterator<Item = (&T, &T)> {
    let last = entries.len().saturating_sub(1);
    (0..last).step_by(step).map(move |at| (&entries[at], &entries[last.min(at + step)]))
}

/// Adds a stretch to a strip; one that goes on with the last makes that one longer.
fn push(row: &mut Vec<Stretch>, stretch: Stretch) {
    match row.last_mut() {
        Some(last) if last.limit == stretch.limit && last.to == stretch.from => {
            let (before, added) = (last.to - last.from, stretch.to - stretch.from);
            last.share = (last.share * before + stretch.share * added) / (before + added);
            last.to = stretch.to;
        }
        _ => row.push(stretch),
    }
}
