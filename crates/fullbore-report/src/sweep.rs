//! The page of an experiment: its table, a chart for each factor, a heat map where there are two. Drawn here, so
//! that it needs no script.

use fullbore_sweep::{Found, FoundKnee, Interval, Measured, Within};
use maud::{DOCTYPE, Markup, html};

use crate::html::{STYLE, head};
use crate::words::{limit_words, percent, seconds};

/// The drawing's units.
const WIDTH: f64 = 700.0;
const HEIGHT: f64 = 260.0;
const MARGIN: f64 = 48.0;

/// Lines of a chart at most: more are told apart by nobody.
const LINES_MAX: usize = 8;

/// The page; `destination` is where the loads went, without a password.
pub fn render(found: &Found, destination: &str) -> String {
    let names: Vec<&str> = found.factors.iter().map(|factor| factor.name.as_str()).collect();
    let title = format!("fullbore sweep: {}", names.join(", "));
    let loads = found.measured.iter().filter(|m| m.disturbed.is_none()).count();
    let repeated = found.measured.len() - loads;
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&title, POLICY, &[STYLE, OWN_STYLE]))
            body {
                header {
                    h1 { (title) }
                    p .sentence { (sentence(found)) }
                    p { (loads) " loads into " (destination) @if repeated > 0 { "; " (repeated) " more were disturbed and repeated" } }
                }
                main {
                    section { h2 { "Result" } (table(found)) }
                    @if !found.steps.is_empty() { section { h2 { "Step by step" } (steps(found)) } }
                    @if let ([_, _], true) = (&found.factors[..], found.steps.is_empty()) {
                        section { h2 { "Rate by both" } (heat_map(found)) }
                    }
                    @if found.steps.is_empty() {
                        @for number in 0..found.factors.len() {
                            section { h2 { "Rate by " (found.factors[number].name) } (chart(found, number)) }
                        }
                    }
                    section { h2 { "Every load" } (loads_table(found)) }
                }
            }
        }
    };
    markup.into_string()
}

/// There is no script on it, and nothing is fetched; cells of the heat map have colours of their own.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

const OWN_STYLE: &str = "
svg.drawn { width: 100%; max-width: 50rem; height: auto; background: var(--panel); border-radius: .4rem; }
svg.drawn text { fill: var(--text); font: 12px system-ui, sans-serif; }
svg.drawn .grid { stroke: var(--grid); }
svg.drawn polyline { fill: none; stroke-width: 2; }
td.heat { text-align: right; }
";

/// What follows from it, in one sentence.
fn sentence(found: &Found) -> String {
    match (&found.knee, found.steps.last()) {
        (_, Some(last)) => {
            format!("All changes that were kept, together: {} of time.", change(&last.so_far))
        }
        (Some(FoundKnee::At(level)), _) => {
            format!("The knee is at {}={level}: more is at most 5% faster.", found.factors[0].name)
        }
        (Some(FoundKnee::Flat), _) => {
            format!("{} makes no difference.", found.factors[0].name)
        }
        _ => {
            // What may be chance is named by nobody's sentence.
            let is_faster =
                |change: &Interval| change.within.is_some_and(|within| within.high < 0.0);
            let faster = found.rows.iter().filter_map(|row| Some((row, row.change?)));
            let best = faster
                .filter(|(_, change)| is_faster(change))
                .min_by(|(_, a), (_, b)| a.change.total_cmp(&b.change));
            match best {
                Some((row, found)) => {
                    format!("{} is fastest. Change of time: {}.", row.cell, change(&found))
                }
                None => format!("Nothing is certainly faster than {}.", found.baseline),
            }
        }
    }
}

fn change(change: &Interval) -> String {
    match change.within {
        Some(Within { low, high }) => {
            format!("{} ({} to {})", percent(change.change), percent(low), percent(high))
        }
        None => percent(change.change),
    }
}

fn table(found: &Found) -> Markup {
    html! {
        div .scrolls { table {
            thead { tr {
                th { "Load" } th .number { "Count" } th .number { "Time" } th .number { "MB/s" }
                th .number { "Steady MB/s" } th .number { "Ramp" } th { "Change" } th { "Bottleneck" }
            } }
            tbody { @for row in &found.rows { tr {
                td { (row.cell) @if row.is_baseline { " (baseline)" } }
                td .number { (row.count) }
                td .number { (seconds(row.seconds)) }
                td .number { (rate(row.rate)) }
                td .number { @if let Some(steady) = row.steady { (rate(steady)) } }
                td .number { @if let Some(ramp) = row.ramp_s { (seconds(ramp)) } }
                td { @if let Some(found) = &row.change { (change(found)) } }
                td { @if let Some(verdict) = &row.verdict { (limit_words(verdict)) } }
            } } }
        } }
    }
}

fn steps(found: &Found) -> Markup {
    html! {
        div .scrolls { table {
            thead { tr { th { "Change" } th { "Alone" } th { "Kept" } th { "Cumulative" } } }
            tbody { @for step in &found.steps { tr {
                td { (step.factor) "=" (step.tried) }
                td { (change(&step.alone)) }
                td { @if step.is_kept { "yes" } @else { "no" } }
                td { (change(&step.so_far)) }
            } } }
        } }
    }
}

fn rate(bytes_a_second: f64) -> String {
    format!("{:.1}", bytes_a_second / 1e6)
}

/// The rate of each pair of levels: the faster, the darker.
fn heat_map(found: &Found) -> Markup {
    let [down, across] = &found.factors[..] else { return html! {} };
    let most = found.rows.iter().map(|row| row.rate).fold(0.0, f64::max);
    let of = |a: usize, b: usize| found.rows.iter().find(|row| row.levels == [a, b]);
    html! {
        div .scrolls { table {
            thead { tr {
                th { (down.name) " / " (across.name) }
                @for level in &across.levels { th .number { (level) } }
            } }
            tbody { @for (a, level) in down.levels.iter().enumerate() { tr {
                th { (level) }
                @for b in 0..across.levels.len() {
                    @if let Some(row) = of(a, b) {
                        @let share = (row.rate / most * 100.0).round();
                        td .heat style=(format!("background: color-mix(in srgb, var(--line-0) {:.0}%, transparent)", share * 0.6)) {
                            (rate(row.rate))
                        }
                    } @else { td {} }
                }
            } } }
        } }
        p { "MB/s; the darker, the faster." }
    }
}

/// The rate of every load by the levels of one factor, a line for each combination of the others.
fn chart(found: &Found, factor: usize) -> Markup {
    let levels = &found.factors[factor].levels;
    let step = round_step(found.measured.iter().map(rate_of).fold(1.0, f64::max) / 4.0);
    let most = step * 4.0;
    let x =
        |level: usize| MARGIN + (WIDTH - 2.0 * MARGIN) * (level as f64 + 0.5) / levels.len() as f64;
    let y = |rate: f64| HEIGHT - MARGIN - (HEIGHT - 1.5 * MARGIN) * rate / most;
    let others = |of: &[usize]| -> Vec<usize> {
        of.iter().enumerate().filter(|(n, _)| *n != factor).map(|(_, level)| *level).collect()
    };
    let mut lines: Vec<Vec<usize>> = Vec::new();
    for row in &found.rows {
        let key = others(&row.levels);
        if !lines.contains(&key) && lines.len() < LINES_MAX {
            lines.push(key);
        }
    }
    let points = |key: &Vec<usize>| -> String {
        let its = found.rows.iter().filter(|row| others(&row.levels) == *key);
        let points = its.map(|row| format!("{:.1},{:.1}", x(row.levels[factor]), y(row.rate)));
        points.collect::<Vec<_>>().join(" ")
    };
    let name = |key: &Vec<usize>| {
        let named = found.factors.iter().enumerate().filter(|(n, _)| *n != factor).zip(key);
        let words =
            named.map(|((_, other), level)| format!("{}={}", other.name, other.levels[*level]));
        words.collect::<Vec<_>>().join(" ")
    };
    let steps: Vec<f64> = (0..=4).map(|n| step * f64::from(n)).collect();
    html! {
        svg .drawn viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img"
            aria-label=(format!("Rate by {}", found.factors[factor].name)) {
            @for step in &steps {
                line .grid x1=(MARGIN) x2=(WIDTH - MARGIN) y1=(y(*step)) y2=(y(*step)) {}
                text x=(MARGIN - 6.0) y=(y(*step) + 4.0) text-anchor="end" { (step / 1e6) }
            }
            text x=(6.0) y=(14.0) { "MB/s" }
            @for (n, level) in levels.iter().enumerate() {
                text x=(x(n)) y=(HEIGHT - MARGIN + 18.0) text-anchor="middle" { (level) }
            }
            text x=(WIDTH / 2.0) y=(HEIGHT - 8.0) text-anchor="middle" { (found.factors[factor].name) }
            @for (n, key) in lines.iter().enumerate() {
                polyline points=(points(key)) style=(format!("stroke: var(--line-{n})")) {}
                @for one in found.measured.iter().filter(|m| m.disturbed.is_none() && others(&m.cell.0) == *key) {
                    circle cx=(x(one.cell.0[factor])) cy=(y(rate_of(one))) r="2.5" style=(format!("fill: var(--line-{n})")) {}
                }
            }
        }
        @if found.factors.len() > 1 {
            p .legend { @for (n, key) in lines.iter().enumerate() {
                span { i style=(format!("background: var(--line-{n})")) {} (name(key)) }
            } }
        }
    }
}

/// The next number that reads well: 1, 2, 2.5 or 5 times a power of ten.
fn round_step(at_least: f64) -> f64 {
    let power = 10_f64.powf(at_least.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0].into_iter().find(|step| step * power >= at_least);
    step.unwrap_or(10.0) * power
}

fn rate_of(measured: &Measured) -> f64 {
    measured.bytes as f64 / measured.seconds.max(1e-9)
}

fn loads_table(found: &Found) -> Markup {
    html! {
        details {
            summary { (found.measured.len()) " loads in the order in which they ran" }
            div .scrolls { table {
                thead { tr { th { "Block" } th { "Load" } th .number { "Time" } th .number { "MB/s" } th { "Run" } th { "Remark" } } }
                tbody { @for one in &found.measured { tr {
                    td { (one.block + 1) }
                    td { (words(found, &one.cell.0)) }
                    td .number { (seconds(one.seconds)) }
                    td .number { (rate(rate_of(one))) }
                    td { code { (one.run) } }
                    td .long { (one.disturbed.as_deref().unwrap_or_default()) }
                } } }
            } }
        }
    }
}

fn words(found: &Found, levels: &[usize]) -> String {
    let words = found.factors.iter().zip(levels);
    words.map(|(f, level)| format!("{}={}", f.name, f.levels[*level])).collect::<Vec<_>>().join(" ")
}
