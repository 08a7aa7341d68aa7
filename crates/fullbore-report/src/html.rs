//! The page itself.

use fullbore_core::record::Entry;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::page::{Page, State};
use crate::strips::strips;
use crate::words::{bytes, counted, details, grouped, seconds, sentence};

const CHARTS: &str = include_str!("../assets/uPlot.iife.min.js");
const CHARTS_STYLE: &str = include_str!("../assets/uPlot.min.css");
const SCRIPT: &str = include_str!("../assets/report.js");
const STYLE: &str = include_str!("../assets/report.css");

/// Waits of backends that are listed.
const WAITS_SHOWN: usize = 8;

/// The record as a page that stands alone.
pub fn render(entries: &[Entry]) -> String {
    let page = Page::of(entries);
    let title = format!("fullbore run {}", page.run_id);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // Whatever a record holds, nothing is asked for and no script runs but these.
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";
                title { (title) }
                style { (PreEscaped(CHARTS_STYLE)) (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    p .sentence { (summary_of(&page)) }
                    @if let Some(verdict) = &page.verdict {
                        p .sentence { (capital(&sentence(verdict))) "." }
                    }
                    (details_of(&page))
                    @if let Some(error) = &page.error { p .error role="alert" { (error) } }
                }
                main {
                    (tables(&page))
                    (rates(&page))
                    (waits(&page))
                    (advice(&page))
                    (facts(&page))
                    (downloads())
                }
                (data("curves", &page.curves))
                (data("names", &page.tables.iter().map(|table| &table.name).collect::<Vec<_>>()))
                (data("record", &entries))
                script { (PreEscaped(CHARTS)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    markup.into_string()
}

/// Data for the script. The parser of HTML must not find a tag in it.
fn data(name: &str, value: &impl serde::Serialize) -> Markup {
    let json = serde_json::to_string(value).expect("plain data becomes JSON");
    let json = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    html! { script type="application/json" id=(name) { (PreEscaped(json)) } }
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
        Some(State::Loaded) => format!("Loaded {moved}{rejected}."),
        Some(State::Stopped) => {
            format!("Stopped, and can be resumed: {moved} committed{rejected}.")
        }
        Some(State::Failed) => format!("Failed after {}.", seconds(page.seconds)),
        Some(State::TakenBack) => "Taken back.".into(),
        Some(State::Unfinished) | None => format!("Not finished: {moved} committed{rejected}."),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn tables(page: &Page) -> Markup {
    let limit =
        |table: usize| page.verdict.as_ref().and_then(|v| v.tables.get(table).copied().flatten());
    html! {
        section {
            h2 { "Tables" }
            div .scrolls tabindex="0" role="region" aria-label="Tables" {
                table {
                    thead { tr {
                        th scope="col" { "table" }
                        th scope="col" { "method" }
                        th scope="col" .number { "rows" }
                        th scope="col" .number { "rejects" }
                        th scope="col" .number { "bytes" }
                        th scope="col" .number { "pieces" }
                        th scope="col" { "held back by" }
                    } }
                    tbody { @for (at, table) in page.tables.iter().enumerate() { tr {
                        th scope="row" { (table.name) }
                        td { @if let Some(method) = page.methods.get(at) {
                            span title=(method.reason) { (format!("{:?}", method.method).to_lowercase()) }
                        } }
                        td .number { (grouped(table.rows)) }
                        td .number { (grouped(table.rejected)) }
                        td .number { (bytes(table.bytes)) }
                        td .number { (grouped(table.pieces)) }
                        td { @if let Some(share) = limit(at) {
                            (share.limit.words()) " (" (format!("{:.0}%", share.share * 100.0)) ")"
                        } }
                    } } }
                }
            }
        }
    }
}

fn rates(page: &Page) -> Markup {
    html! {
        section {
            h2 { "Rate" }
            @if page.curves.at.is_empty() {
                p { "The run was over before there was a rate to draw." }
            } @else {
                div .chart #chart-bytes role="img" aria-label="Million bytes of source a second, by table" {}
                div .chart #chart-rows role="img" aria-label="Thousand rows a second, by table" {}
            }
            @if !page.curves.server_at.is_empty() {
                div .chart #chart-server role="img"
                    aria-label="Of the server: write-ahead log and data files, million bytes a second" {}
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
                @if let Some(verdict) = &page.verdict {
                    h3 { "All streams together" }
                    (bars(verdict.shares.iter().map(|share| (share.limit.words().to_owned(), share.share))))
                }
                @if !waits.is_empty() {
                    h3 { "What the server's own names for it were" }
                    (bars(waits.into_iter().take(WAITS_SHOWN)))
                }
            }
        }
    }
}

/// Tables that something else held back, and pieces that were waited for.
fn details_of(page: &Page) -> Markup {
    let names: Vec<&str> = page.tables.iter().map(|table| table.name.as_str()).collect();
    let lines = page.verdict.as_ref().map(|verdict| details(verdict, &names)).unwrap_or_default();
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
                    span .bar { i style=(format!("width:{:.1}%", share * 100.0)) {} }
                    span .number { (format!("{:.0}%", share * 100.0)) }
                }
            }
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

fn facts(page: &Page) -> Markup {
    let settings = page.settings.iter().flat_map(|settings| &settings.values);
    html! {
        section {
            h2 { "The run" }
            div .columns {
                dl {
                    dt { "run" } dd { (page.run_id) }
                    dt { "begun" } dd { time data-unix-ms=(page.started_unix_ms) { (page.started_unix_ms) " ms since 1970" } }
                    dt { "fullbore" } dd { (page.fullbore) }
                    dt { "streams, parsers" } dd { (page.streams) ", " (page.parsers) }
                    dt { "planned pieces" } dd { (grouped(page.pieces as u64)) }
                    @for phase in page.phases.iter().filter(|phase| phase.seconds >= 0.005) {
                        dt { (phase.name) } dd { (seconds(phase.seconds)) }
                    }
                }
                dl {
                    @for (name, value) in settings { dt { (name) } dd { (value) } }
                }
            }
            @if !page.events.is_empty() {
                h3 { "Events" }
                ul { @for (at, event) in &page.events { li { (format!("{at:.2} s: ")) (event) } } }
            }
        }
    }
}

fn downloads() -> Markup {
    html! {
        section .downloads {
            h2 { "Raw data" }
            p { button type="button" #download { "Download the record (JSON lines)" } }
        }
    }
}
