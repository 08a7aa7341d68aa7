//! The picture of a run as it is sent to a live page: its parts as HTML, its curves as data.

use serde::Serialize;

use crate::curves::Curves;
use crate::html;
use crate::page::Page;
use crate::sections;

/// Samples and observations that are kept of a run that goes on: a picture of it is made each second,
/// and must stay small.
pub const KEPT_MAX: usize = 240;

#[derive(Serialize)]
struct Picture<'a> {
    state: &'static str,
    is_over: bool,
    parts: Vec<(&'static str, String)>,
    curves: Curves,
    names: Vec<&'a str>,
    labels: Vec<(&'static str, String)>,
}

/// The picture as JSON.
pub fn of(page: &Page) -> String {
    let picture = Picture {
        state: page.state.name(),
        is_over: page.is_over(),
        parts: sections::all(page)
            .into_iter()
            .map(|part| (part.name, part.markup.into_string()))
            .collect(),
        curves: page.curves(),
        names: page.names(),
        labels: sections::charts(page),
    };
    html::json(&picture)
}
