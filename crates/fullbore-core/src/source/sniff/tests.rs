use super::*;

fn sniffed(text: &[u8], name: &str) -> Sniffed {
    sniff(text, true, Path::new(name), &DialectHints::default()).expect("a dialect")
}

fn delimiter_of(text: &str) -> u8 {
    sniffed(text.as_bytes(), "x").dialect.delimiter
}

#[test]
fn delimiters_are_found() {
    assert_eq!(delimiter_of("a,b\n1,2\n3,4\n"), b',');
    assert_eq!(delimiter_of("a;b\n1;2\n3;4\n"), b';');
    assert_eq!(delimiter_of("a|b\n1|2\n3|4\n"), b'|');
    assert_eq!(delimiter_of("a\tb\n1\t2\n3\t4\n"), b'\t');
    // Decimal commas are no delimiters where semicolons are.
    assert_eq!(delimiter_of("1,5;2,5;3\n1,5;2;3,5\n1;2;3\n"), b';');
    // Nor is what stands within quotes.
    assert_eq!(delimiter_of("\"a;b;c\",1\n\"d;e;f\",2\n"), b',');
    // One column has none; a comma is what CSV means.
    assert_eq!(delimiter_of("1\n2\n3\n"), b',');
    assert_eq!(sniffed(b"1\n2\n3\n", "x").fields, 1);
    // A note tells what was guessed.
    let found = sniffed(b"a;b\n1;2\n", "x");
    assert!(found.notes.iter().any(|note| note.contains("';' guessed")), "{:?}", found.notes);
}

#[test]
fn formats_are_found_by_name_and_by_content() {
    assert_eq!(sniffed(b"1|2|\n3|4|\n", "x").dialect, Dialect::tbl());
    assert_eq!(sniffed(b"1|2|\n3|4|\n", "x").fields, 2);
    assert_eq!(sniffed(b"1|2|\n", "lineitem.tbl.7").dialect, Dialect::tbl());
    assert_eq!(sniffed(b"1\t2\n", "x.copy").dialect.family, Family::Text);
    assert_eq!(sniffed(b"1\t\\N\n", "x.tsv").dialect.family, Family::Text);
    let quoted = sniffed(b"1\t\"a\tb\"\n", "x.tsv.gz");
    assert_eq!((quoted.dialect.family, quoted.fields), (Family::Csv, 2));
    // The last field of each line may be empty without being a trailing delimiter of CSV.
    assert_eq!(sniffed(b"1,2,\n3,4,\n", "x").fields, 3);
}

#[test]
fn line_ends_are_found() {
    let found = sniffed(b"a,b\r\n1,2\r\n", "x");
    assert_eq!((found.dialect.line_end, found.fields), (LineEnd::CrLf, 2));
    assert_eq!(sniffed(b"a,b\n1,2\r\n", "x").dialect.line_end, LineEnd::Lf);
    assert_eq!(sniffed(b"a,b", "x").dialect.line_end, LineEnd::Lf);
}

#[test]
fn headers_are_told_from_data() {
    let header = |text: &str| sniffed(text.as_bytes(), "x").dialect.header;
    assert_eq!(header("id,name\n1,x\n2,y\n"), Header::True);
    assert_eq!(header("1,x\n2,y\n"), Header::None);
    assert_eq!(header("\"id\",\"two\nlines\"\n1,x\n"), Header::True);
    // Nothing but words: it can't be told, so it is data.
    assert_eq!(header("id,name\nx,y\n"), Header::None);
    assert_eq!(header("id,id\n1,2\n"), Header::None);
    assert_eq!(header("id,\n1,2\n"), Header::None);
    assert_eq!(header("id,name\n"), Header::None);
    assert_eq!(header(""), Header::None);
    // Empty fields speak neither for nor against it.
    assert_eq!(header("id,note\n,\n,\n7,\n"), Header::True);
}

#[test]
fn what_the_job_fixes_is_not_overruled() {
    let hints = DialectHints {
        delimiter: Some(b",".to_vec()),
        header: Some(Header::None),
        quote: Some(b'\''),
        nulls: vec![b"NULL".to_vec()],
        ..DialectHints::default()
    };
    let found = sniff(b"a;b\n1;2\n", true, Path::new("x"), &hints).expect("a dialect");
    assert_eq!((found.dialect.delimiter, found.fields), (b',', 1));
    assert_eq!(found.dialect.header, Header::None);
    assert_eq!((found.dialect.quote, found.dialect.escape), (b'\'', b'\''));
    assert_eq!(found.dialect.null, b"NULL");
    let same = DialectHints { delimiter: Some(b"\"".to_vec()), ..DialectHints::default() };
    sniff(b"a", true, Path::new("x"), &same).expect_err("delimiter and quote are the same");
}

#[test]
fn a_line_longer_than_the_sample_decides_nothing() {
    let text = vec![b'x'; 1000];
    let found = sniff(&text, false, Path::new("x"), &DialectHints::default()).expect("a dialect");
    assert_eq!((found.fields, found.dialect.header), (0, Header::None));
    // The same as a whole file is one field.
    assert_eq!(sniffed(&text, "x").fields, 1);
}

#[test]
fn records_start_behind_mark_and_header() {
    let csv = Dialect { header: Header::True, ..Dialect::csv() };
    assert_eq!(data_start(b"\xef\xbb\xbfa,b\n1,2\n", &csv, 3), Some((7, 1)));
    assert_eq!(data_start(b"\"a\nb\",c\n1,2\n", &csv, 0), Some((8, 2)));
    assert_eq!(data_start(b"a,b", &csv, 0), Some((3, 0)));
    assert_eq!(data_start(b"\xef\xbb\xbf1,2\n", &Dialect::csv(), 3), Some((3, 0)));
    let endless = vec![b'x'; crate::constants::SAMPLE_BYTES];
    assert_eq!(data_start(&endless, &csv, 0), None);
    let names = header_names(b"a,\"b \"\"x\"\"\",\n", &csv).expect("names");
    assert_eq!(names, ["a", "b \"x\"", ""]);
}

#[test]
fn a_file_that_is_tab_separated_by_its_name_is() {
    let found = sniffed(b"\"k\"\t1,5\n\"l\"\t2,5\n", "x.tsv");
    assert_eq!(found.dialect.delimiter, b'\t');
    assert_eq!(found.fields, 2);
}

#[test]
fn line_ends_are_those_of_records() {
    let found = sniffed(b"1,\"a\r\nb\"\n2,c\n", "x.csv");
    assert_eq!((found.dialect.line_end, found.fields), (LineEnd::Lf, 2));
    let found = sniffed(b"1,\"a\nb\"\r\n2,c\r\n", "x.csv");
    assert_eq!((found.dialect.line_end, found.fields), (LineEnd::CrLf, 2));
}
