//! The sections of a page. Each is drawn whole, so that a live page can exchange one for a newer one.

use fullbore_record::RunState;
use fullbore_record::diagnose::Verdict;
use maud::{Markup, html};

use crate::ceilings;
use crate::facts;
use crate::page::Page;
use crate::strips::strips;
use crate::words::{achieved, bytes, counted, details, grouped, seconds, sentence};

/// Waits of backends that are listed.
const WAITS_SHOWN: usize = 8;

/// A section and the place where it stands.
pub struct Section {
    pub name: &'static str,
    pub markup: Markup,
}

/// All sections but the charts, which the page's script draws.
pub fn all(page: &Page) -> Vec<Section> {
    vec![
        Section { name: "summary", markup: summary(page) },
        Section { name: "ceilings", markup: ceilings::ceilings(page) },
        Section { name: "tables", markup: tables(page) },
        Section { name: "waits", markup: waits(page) },
        Section { name: "rejects", markup: facts::rejects(page) },
        Section { name: "advice", markup: advice(page) },
        Section { name: "endpoints", markup: facts::endpoints(page) },
        Section { name: "plan", markup: facts::plan(page) },
        Section { name: "facts", markup: facts::facts(page) },
    ]
}

/// The charts, each with what it shows in words for those who can't see it.
pub fn charts(page: &Page) -> Vec<(&'static str, String)> {
    let curves = page.curves();
    let names = page.names();
    let by_table = |what: &str, lines: &[Vec<Option<f64>>]| {
        let tables = lines
            .iter()
            .zip(&names)
            .filter_map(|(line, name)| Some(format!("{name} {}", in_words(line)?)));
        format!("{what}, by table: {}", tables.collect::<Vec<_>>().join("; "))
    };
    let server = |line: &[Option<f64>]| in_words(line).unwrap_or_else(|| "nothing".into());
    vec![
        ("chart-bytes", by_table("Million bytes of source a second", &curves.megabytes)),
        ("chart-rows", by_table("Thousand rows a second", &curves.kilorows)),
        (
            "chart-server",
            format!(
                "Of the server, million bytes a second: write-ahead log {}; data files {}; {}",
                server(&curves.wal),
                server(&curves.written),
                counted(curves.checkpoints.len() as u64, "checkpoint")
            ),
        ),
    ]
}

fn in_words(line: &[Option<f64>]) -> Option<String> {
    let values: Vec<f64> = line.iter().flatten().copied().collect();
    let most = values.iter().copied().reduce(f64::max)?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Some(format!("{mean:.1} on average, {most:.1} at most"))
}

/// What the run came to, or how far it is, and what held it back, each in a sentence.
fn summary(page: &Page) -> Markup {
    html! {
        p .sentence #state data-state=(page.state.name()) { (summary_of(page)) }
        @if let Some(reason) = &page.paused { p .error { "Paused: " (reason) } }
        @if let Some(of_ceiling) = &page.achieved {
            p .sentence { (capital(&achieved(of_ceiling))) "." }
        }
        @if let Some(verdict) = page.verdict_so_far() {
            p .sentence { (capital(&sentence(&verdict))) "." }
            (details_of(page, &verdict))
        }
        @if let Some((limit, share)) = page.limit_now() {
            p { "Now: " (limit.words()) " (" (format!("{:.0}%", share * 100.0)) ")." }
        }
        @if let Some(error) = &page.error { p .error { (error) } }
        @if !page.left_behind.is_empty() {
            p .error { "Could not clean up, drop manually: " (page.left_behind.join(", ")) }
        }
        @if !page.is_over() { (progress(page)) }
    }
}

fn summary_of(page: &Page) -> String {
    let rate = bytes((page.bytes as f64 / page.seconds.max(1e-9)) as u64);
    let moved = format!(
        "{}, {} in {} = {rate}/s",
        counted(page.rows, "row"),
        bytes(page.bytes),
        seconds(page.seconds)
    );
    let rejected = match page.rejected {
        0 => String::new(),
        count => format!(", {} rejected", counted(count, "row")),
    };
    match page.state {
        RunState::Loaded => format!("Loaded {moved}{rejected}."),
        RunState::Stopped => format!("Stopped, and can be resumed: {moved} committed{rejected}."),
        RunState::Failed => format!("Failed after {}.", seconds(page.seconds)),
        RunState::RolledBack => "Rolled back.".into(),
        RunState::Unfinished => format!("Not finished: {moved} committed{rejected}."),
    }
}

/// How far a run is that goes on.
fn progress(page: &Page) -> Markup {
    let (sent, expected) = page.sent();
    let sent = match (&page.verdict, expected) {
        (Some(_), _) => "All rows are sent; indexes, publishing and statistics follow.".to_owned(),
        (None, Some(expected)) if expected > 0 => {
            let rate = page.rate_now().filter(|rate| *rate > 0.0);
            let left = rate.map(|rate| {
                let left = match expected.saturating_sub(sent) as f64 / rate {
                    left if left < 60.0 => format!("{left:.0} s"),
                    left => seconds(left),
                };
                format!(", {}/s now, about {left} left", bytes(rate as u64))
            });
            format!(
                "Sent {} of {} ({:.0}%){}; {} at work.",
                bytes(sent),
                bytes(expected),
                (sent as f64 / expected as f64 * 100.0).min(100.0),
                left.unwrap_or_default(),
                counted(page.streams_active as u64, "piece")
            )
        }
        (None, _) => format!(
            "Sent {}; {} at work.",
            bytes(sent),
            counted(page.streams_active as u64, "piece")
        ),
    };
    html! {
        p { (sent) }
        @if let (_, Some(expected)) = page.sent() {
            progress aria-label="Source bytes sent" max=(expected.max(1)) value=(page.sent().0.min(expected)) {}
        }
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn tables(page: &Page) -> Markup {
    let verdict = page.verdict_so_far();
    let limit =
        |table: usize| verdict.as_ref().and_then(|v| v.tables.get(table).copied().flatten());
    let row = |name: Markup, method: Markup, counts: [u64; 4], held: Markup| {
        let [rows, rejected, size, pieces] = counts;
        html! { tr {
            th scope="row" { (name) }
            td { (method) }
            td .number { (grouped(rows)) }
            td .number { (grouped(rejected)) }
            td .number { (bytes(size)) }
            td .number { (grouped(pieces)) }
            td { (held) }
        } }
    };
    let pieces = page.tables.iter().map(|table| table.pieces).sum();
    html! {
        section {
            h2 { "Tables" }
            div .scrolls #scrolls-tables tabindex="0" role="region" aria-label="Tables" {
                table {
                    thead { tr {
                        th scope="col" { "table" }
                        th scope="col" { "method" }
                        th scope="col" .number { "rows" }
                        th scope="col" .number { "rejects" }
                        th scope="col" .number { "bytes" }
                        th scope="col" .number { "pieces" }
                        th scope="col" { "bottleneck" }
                    } }
                    tbody {
                        @for (at, table) in page.tables.iter().enumerate() {
                            (row(
                                html! { (table.name) },
                                html! { @if let Some(method) = page.methods.get(at) { (method.method.name()) } },
                                [table.rows, table.rejected, table.bytes, table.pieces],
                                html! { @if let Some(share) = limit(at) {
                                    (share.limit.words()) " (" (format!("{:.0}%", share.share * 100.0)) ")"
                                } },
                            ))
                        }
                    }
                    @if page.tables.len() > 1 { tfoot {
                        (row(html! { "all" }, html! {}, [page.rows, page.rejected, page.bytes, pieces], html! {}))
                    } }
                }
            }
        }
    }
}

fn waits(page: &Page) -> Markup {
    let waits = page.waits();
    html! {
        @if page.observations.len() > 1 {
            section {
                h2 { "What each stream waited for" }
                (strips(page))
                @if let Some(verdict) = page.verdict_so_far().filter(|verdict| !verdict.shares.is_empty()) {
                    h3 { "All streams together" }
                    (bars(verdict.shares.iter().map(|share| (share.limit.words().to_owned(), share.share))))
                }
                @if !waits.is_empty() {
                    h3 { "PostgreSQL wait events" }
                    (bars(waits.into_iter().take(WAITS_SHOWN)))
                }
            }
        }
    }
}

/// Tables that something else held back, and pieces that were waited for.
fn details_of(page: &Page, verdict: &Verdict) -> Markup {
    let lines = details(verdict, &page.names());
    html! {
        @if !lines.is_empty() {
            ul .details { @for line in lines { li { (line) } } }
        }
    }
}

/// Shares as bars with their words and figures.
fn bars(shares: impl Iterator<Item = (String, f64)>) -> Markup {
    html! {
        ul .bars {
            @for (name, share) in shares.filter(|(_, share)| *share >= 0.005) {
                li {
                    span .name { (name) }
                    (bar(share))
                    span .number { (format!("{:.0}%", share * 100.0)) }
                }
            }
        }
    }
}

/// A bar of so much of its place. The page's policy allows no styles but its own, so it is drawn.
pub fn bar(share: f64) -> Markup {
    html! {
        svg .bar aria-hidden="true" viewBox="0 0 100 10" preserveAspectRatio="none" {
            rect width=(format!("{:.1}", share.clamp(0.0, 1.0) * 100.0)) height="10" {}
        }
    }
}

fn advice(page: &Page) -> Markup {
    html! {
        @if !page.advice.is_empty() {
            section {
                h2 { "Advice" }
                ul { @for line in &page.advice { li { (line) } } }
            }
        }
    }
}
