//! The page itself: a report, or the live page, which has the same parts and grows.

use base64::Engine;
use fullbore_record::Entry;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::page::Page;
use crate::sections::{self, Section};

const CHARTS: &str = include_str!("../assets/uPlot.iife.min.js");
const CHARTS_STYLE: &str = include_str!("../assets/uPlot.min.css");
const SCRIPT: &str = include_str!("../assets/report.js");
pub(crate) const STYLE: &str = include_str!("../assets/report.css");

/// The script of the live page, beside the others.
const LIVE: &str = include_str!("../assets/live.js");

/// The record as a page that stands alone.
pub fn render(entries: &[Entry]) -> String {
    let page = Page::of(entries);
    let record = html! {
        section .downloads {
            h2 { "Raw data" }
            p { "This page holds the whole record of the run: " (entries.len()) " entries." }
            p { button type="button" #download { "Download the record (JSON lines)" } }
        }
    };
    let data = data("record", &entries);
    document(&page, &record, &data, &[CHARTS, SCRIPT])
}

/// The page of a run that goes on, as it stands now. Its script asks for more.
pub fn live(page: &Page) -> String {
    let state = html! {
        section .downloads {
            h2 { "This page" }
            p #link-state role="status" { "Connecting ..." }
            p {
                "It displays the run record while it grows. " code { "fullbore runs report " (page.run_id) " -o report.html" }
                " makes a file of it that stands alone."
            }
        }
    };
    document(page, &state, &html! {}, &[CHARTS, SCRIPT, LIVE])
}

/// What may run on a page, and what it may ask for: the very scripts that are in it, and nothing from
/// elsewhere. They are named by their hashes, so that nothing a record holds could run, even if it
/// came to stand in the page as a tag.
pub fn policy(is_live: bool) -> String {
    let scripts: &[&str] = if is_live { &[CHARTS, SCRIPT, LIVE] } else { &[CHARTS, SCRIPT] };
    let scripts: Vec<String> = scripts.iter().map(|script| hash(script)).collect();
    let ask = if is_live { "'self'" } else { "'none'" };
    format!(
        "default-src 'none'; script-src {}; style-src {} {}; connect-src {ask}; img-src data:; \
         base-uri 'none'; form-action 'none'",
        scripts.join(" "),
        hash(CHARTS_STYLE),
        hash(STYLE),
    )
}

fn hash(text: &str) -> String {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text));
    format!("'sha256-{hash}'")
}

fn document(page: &Page, last: &Markup, more: &Markup, scripts: &[&str]) -> String {
    let title = format!("fullbore run {}", page.run_id);
    let is_live = scripts.contains(&LIVE);
    let (parts, curves, charts) = (sections::all(page), page.curves(), sections::charts(page));
    let part = |name: &str| {
        let part: Option<&Section> = parts.iter().find(|part| part.name == name);
        html! { div id=(name) { @if let Some(part) = part { (part.markup) } } }
    };
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&title, &policy(is_live), &[CHARTS_STYLE, STYLE]))
            body {
                header {
                    h1 { (title) }
                    (part("summary"))
                }
                main {
                    (part("ceilings"))
                    (part("tables"))
                    section {
                        h2 { "Rate" }
                        p #no-rate hidden[!curves.at.is_empty()] { "There is no rate to draw yet." }
                        @for (id, _) in &charts {
                            figure .chart id=(id) role="group" {}
                        }
                    }
                    @for name in ["waits", "rejects", "advice", "endpoints", "plan", "facts"] { (part(name)) }
                    (last)
                }
                (data("curves", &curves))
                (data("names", &page.names()))
                (data("labels", &charts))
                (more)
                @for script in scripts { script { (PreEscaped(script)) } }
            }
        }
    };
    markup.into_string()
}

/// The head of a page: what it may do, and its styles.
pub(crate) fn head(title: &str, policy: &str, styles: &[&str]) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="referrer" content="no-referrer";
            meta http-equiv="Content-Security-Policy" content=(policy);
            title { (title) }
            // An icon of its own: browsers would ask a server for one.
            link rel="icon" href="data:,";
            @for style in styles { style { (PreEscaped(style)) } }
        }
    }
}

fn data(name: &str, value: &impl serde::Serialize) -> Markup {
    html! { script type="application/json" id=(name) { (PreEscaped(json(value))) } }
}

/// Data for the script. A parser of HTML would find no tag in it.
pub fn json(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(value).expect("plain data becomes JSON");
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
