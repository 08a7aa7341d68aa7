//! The parts of a page other than charts: plan, rejects, settings, versions, events.

use fullbore_record::TableSummary;
use maud::{Markup, html};

use crate::page::Page;
use crate::words::{bytes, counted, grouped, seconds};

/// What was planned, table by table.
pub fn plan(page: &Page) -> Markup {
    let Some(plan) = &page.plan else { return html! {} };
    html! {
        section {
            h2 { "Plan" }
            p {
                (counted(page.pieces as u64, "planned piece")) ", "
                (counted(page.streams as u64, "stream")) ", "
                (counted(page.parsers as u64, "parser")) " on "
                (counted(plan.cores as u64, "processor")) "; rejects up to " (plan.max_rejects)
                "; verified: " (plan.verify.name())
                @if plan.is_resumable { "; resumable" } @else { "; not resumable" } "."
            }
            @for (at, table) in plan.tables.iter().enumerate() {
                @let name = page.tables.get(at).map_or("", |table| table.name.as_str());
                details id=(format!("plan-{at}")) open[plan.tables.len() == 1] {
                    summary { (name) }
                    (of_table(page, at, table))
                }
            }
        }
    }
}

fn of_table(page: &Page, at: usize, table: &TableSummary) -> Markup {
    let publish = match table.is_atomic {
        true => format!("{}, in one transaction", table.publish.name()),
        false => table.publish.name().to_owned(),
    };
    html! {
        dl {
            dt { "sources" }
            dd {
                (counted(table.files as u64, "file")) ": " (table.first_file)
                @if table.files > 1 { " ..." }
            }
            dt { "size" } dd { (table.bytes.map_or("not known".into(), bytes)) }
            dt { "format" } dd { (table.format) }
            dt { "publish" } dd { (publish) }
            @if let Some(method) = page.methods.get(at) {
                dt { "method" } dd { (method.method.name()) ", since " (method.reason) }
            }
            @if let Some(reason) = &table.lane_reason { dt { "as text" } dd { (reason) } }
            @for note in &table.notes { dt { "note" } dd { (note) } }
        }
    }
}

/// Rows that were refused: how many of which kind, and where they are.
pub fn rejects(page: &Page) -> Markup {
    let Some(rejects) = &page.rejects else { return html! {} };
    html! {
        section {
            h2 { "Rejects" }
            div .scrolls #scrolls-rejects tabindex="0" role="region" aria-label="Rejects" {
                table {
                    thead { tr {
                        th scope="col" { "table" }
                        th scope="col" { "column" }
                        th scope="col" { "constraint" }
                        th scope="col" { "SQLSTATE" }
                        th scope="col" .number { "rows" }
                        th scope="col" { "first row" }
                    } }
                    tbody { @for kind in &rejects.kinds { tr {
                        th scope="row" { (kind.table) }
                        td { (kind.column.as_deref().unwrap_or("")) }
                        td { (kind.constraint.as_deref().unwrap_or("")) }
                        td { (kind.code.as_deref().unwrap_or("")) }
                        td .number { (grouped(kind.count)) }
                        td .long { (kind.first) }
                    } } }
                }
            }
            @if rejects.is_part { p { "This table is incomplete: only the first rows were counted." } }
            p {
                "The rows are in "
                @for (at, file) in rejects.files.iter().enumerate() {
                    @if at > 0 { ", " }
                    code { (file.display()) }
                }
                "; the reasons in the .jsonl files."
            }
        }
    }
}

/// What went by each endpoint.
pub fn endpoints(page: &Page) -> Markup {
    if page.endpoints.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Endpoints" }
            div .scrolls #scrolls-endpoints tabindex="0" role="region" aria-label="Endpoints" {
                table {
                    thead { tr {
                        th scope="col" { "endpoint" }
                        th scope="col" .number { "pieces" }
                        th scope="col" .number { "rows" }
                        th scope="col" .number { "source bytes" }
                        th scope="col" .number { "times down" }
                        th scope="col" .number { "time down" }
                    } }
                    tbody { @for (name, by) in &page.endpoints { tr {
                        th scope="row" { (name) }
                        td .number { (grouped(by.pieces)) }
                        td .number { (grouped(by.rows)) }
                        td .number { (bytes(by.bytes)) }
                        td .number { (grouped(by.times_down)) }
                        td .number { (seconds(by.seconds_down)) }
                    } } }
                }
            }
        }
    }
}

/// The run, the server, what happened.
pub fn facts(page: &Page) -> Markup {
    let settings = || page.settings.iter().flat_map(|settings| &settings.values);
    html! {
        section {
            h2 { "The run" }
            dl {
                dt { "run" } dd { (page.run_id) }
                dt { "begun" } dd { time data-unix-ms=(page.started_unix_ms) { (page.started_unix_ms) " ms since 1970" } }
                dt { "Fullbore" } dd { (page.fullbore) }
                @if let Some(version) = server_version(page) { dt { "server" } dd { (version) } }
                dt { "streams, parsers" } dd { (page.streams) ", " (page.parsers) }
                @for phase in page.phases.iter().filter(|phase| phase.seconds >= 0.005) {
                    dt { (phase.name) } dd { (seconds(phase.seconds)) }
                }
            }
            @if settings().next().is_some() {
                details #settings {
                    summary { "The server's settings" }
                    dl { @for (name, value) in settings() { dt { (name) } dd { (value) } } }
                }
            }
            @if !page.events.is_empty() {
                details #events {
                    summary { "Events (" (page.events.len()) ")" }
                    ul { @for (at, event) in &page.events { li { (format!("{at:.2} s: ")) (event) } } }
                }
            }
        }
    }
}

/// The server's version and whether it shares this machine.
fn server_version(page: &Page) -> Option<String> {
    let settings = page.settings.as_ref()?;
    let number: u32 = settings.values.get("server_version_num")?.parse().ok()?;
    let place = if settings.is_here { "on the same machine" } else { "on another machine" };
    Some(format!("PostgreSQL {}.{}, {place}", number / 10_000, number % 10_000))
}
