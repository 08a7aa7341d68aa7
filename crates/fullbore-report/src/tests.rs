//! Pages of records made by hand.

use fullbore_record::{Entry, Event, RunState, TableTotals};

use crate::page::Page;
use crate::render;

fn totals(name: &str, rows: u64) -> TableTotals {
    TableTotals {
        name: name.into(),
        rows,
        rows_sent: rows,
        bytes: rows * 100,
        bytes_sent: rows * 100,
        ..TableTotals::default()
    }
}

/// A run of so many seconds that loads a thousand rows a second.
fn record(name: &str, seconds: u32) -> Vec<Entry> {
    let started = Event::RunStarted {
        version: 1,
        run_id: "abc".into(),
        fullbore: "0.1.0".into(),
        started_unix_ms: 0,
        streams: 2,
        parsers: 2,
        pieces: 3,
        tables: vec![name.into()],
        methods: Vec::new(),
    };
    let mut entries = vec![Entry { at: 0.0, event: started }];
    for second in 0..=seconds {
        let tables = vec![totals(name, u64::from(second) * 1000)];
        let event = Event::Sample { tables, streams_active: 2 };
        entries.push(Entry { at: f64::from(second), event });
    }
    entries
}

fn finished(name: &str, seconds: u32) -> Vec<Entry> {
    let mut entries = record(name, seconds);
    let table = totals(name, u64::from(seconds) * 1000);
    entries.push(Entry {
        at: f64::from(seconds),
        event: Event::RunFinished {
            rows: table.rows,
            rejected: 0,
            bytes: table.bytes,
            seconds: f64::from(seconds),
            phases: Vec::new(),
            tables: vec![table],
            verified: None,
        },
    });
    entries
}

#[test]
fn the_curves_are_the_rates_of_the_record() {
    let page = Page::of(&finished("lines", 30));
    assert_eq!(page.state, RunState::Loaded);
    assert_eq!(page.rows, 30_000);
    let curves = page.curves();
    assert_eq!(curves.at.len(), 31, "from the begin on");
    assert!(curves.kilorows[0].iter().all(|rate| *rate == Some(1.0)), "{curves:?}");
    assert!(curves.megabytes[0].iter().all(|rate| *rate == Some(0.1)));
    assert!(render(&finished("lines", 30)).contains("Loaded 30,000 rows, 3.00 MB in 30.00 s"));
}

#[test]
fn the_curves_come_to_all_that_was_counted() {
    // The run ends a third of a second after its last whole one.
    let mut entries = record("lines", 10);
    let tables = vec![totals("lines", 12_000)];
    entries.push(Entry { at: 10.3, event: Event::Sample { tables, streams_active: 2 } });
    let curves = Page::of(&entries).curves();
    assert_eq!(curves.at.last(), Some(&10.3));
    let lengths = curves.at.windows(2).map(|pair| pair[1] - pair[0]);
    let rates = curves.kilorows[0].iter().skip(1).flatten();
    let area: f64 = lengths.zip(rates).map(|(length, rate)| length * rate).sum();
    assert!((area - 12.0).abs() < 0.01, "{area}: {curves:?}");
}

#[test]
fn what_two_processes_counted_is_never_subtracted() {
    let mut entries = record("lines", 10);
    let resumed = Event::RunResumed {
        started_unix_ms: 0,
        pieces_committed: 1,
        rows_committed: 10_000,
        fullbore: None,
        streams: Some(8),
        parsers: None,
    };
    entries.push(Entry { at: 0.0, event: resumed });
    // Ten thousand rows were committed: it begins with them, and goes on as fast as before.
    entries.extend((0..=5).map(|second| {
        let tables = vec![totals("lines", 10_000 + 1000 * second)];
        Entry { at: second as f64, event: Event::Sample { tables, streams_active: 2 } }
    }));
    let curves = Page::of(&entries).curves();
    let mut expected = vec![Some(1.0); 11];
    expected.extend([None].into_iter().chain([Some(1.0); 6]));
    assert_eq!(curves.kilorows[0], expected);
    assert_eq!(curves.at.len(), expected.len());
    assert!(curves.at.is_sorted(), "{:?}", curves.at);
    assert_eq!(Page::of(&entries).rate_now(), Some(100_000.0));
}

#[test]
fn a_record_that_just_ends_is_a_page_too() {
    let page = Page::of(&record("lines", 7));
    assert_eq!((page.state, page.rows), (RunState::Unfinished, 7000));
    assert!(render(&record("lines", 7)).contains("Not finished: 7,000 rows"));
    assert!(render(&record("lines", 0)).contains("no rate to draw"));
    assert!(render(&[]).contains("Not finished"));
}

#[test]
fn names_of_a_record_are_text_and_nothing_else() {
    let evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u{2028}\"'";
    let mut entries = finished(evil, 3);
    entries.push(Entry {
        at: 3.0,
        event: Event::RunFailed {
            error: evil.into(),
            is_kept: false,
            rows_kept: 0,
            left_behind: vec![evil.into()],
        },
    });
    let page = render(&entries);
    assert!(!page.contains("<script>alert"), "it would run");
    assert!(!page.contains("<img src=x"), "it would be a tag");
    // Our own scripts: four of data, two of code.
    assert_eq!(page.matches("<script").count(), 6);
    assert_eq!(page.matches("</script>").count(), 6);
    let data = page.split("id=\"names\">").nth(1).and_then(|rest| rest.split('<').next());
    let names: Vec<String> = serde_json::from_str(data.expect("data")).expect("JSON");
    assert_eq!(names, [evil], "what the script reads is what the record says");
}
