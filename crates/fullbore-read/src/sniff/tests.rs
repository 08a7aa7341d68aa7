use proptest::prelude::*;

use super::frame::Given;
use super::frame::Trouble;
use super::header::Verdict;
use super::outline::{Outline, outline};
use super::samples::Samples;
use super::*;

fn sniffed(text: &[u8], name: &str) -> Sniffed {
    sniff(text, true, Path::new(name), &DialectHints::default()).expect("a dialect")
}

fn style_of(text: &str) -> Style {
    let base = Style { is_lenient: false, ..Style::of(&Dialect::csv()) };
    trial::best(text.as_bytes(), true, &base, &Fixed::default()).0
}

fn delimiter_of(text: &str) -> String {
    String::from_utf8(style_of(text).delimiter).expect("ASCII")
}

/// What is found of a whole file.
fn outlined(text: &str) -> Outline {
    let dialect = sniffed(text.as_bytes(), "x").dialect;
    let mut samples = Samples {
        first: text.as_bytes().to_vec(),
        is_whole: true,
        has_end: true,
        ..Samples::default()
    };
    outline(&mut samples, &dialect, text.len() as u64, Given::default())
}

fn is_header(text: &str) -> Option<bool> {
    match outlined(text).verdict {
        Some(Verdict::Header(_)) => Some(true),
        Some(Verdict::Data(_)) => Some(false),
        Some(Verdict::Undecided) | None => None,
    }
}

#[test]
fn delimiters_are_found() {
    assert_eq!(delimiter_of("a,b\n1,2\n3,4\n"), ",");
    assert_eq!(delimiter_of("a;b\n1;2\n3;4\n"), ";");
    assert_eq!(delimiter_of("a|b\n1|2\n3|4\n"), "|");
    assert_eq!(delimiter_of("a\tb\n1\t2\n3\t4\n"), "\t");
    // Decimal commas are no delimiters where semicolons are.
    assert_eq!(delimiter_of("1,5;2,5;3\n1,5;2;3,5\n1;2;3\n"), ";");
    assert_eq!(delimiter_of("x;y;z\n1,5;2,5;3,1\n4,5;2,1;3,5\n"), ";");
    // Nor is what stands within quotes.
    assert_eq!(delimiter_of("\"a;b;c\",1\n\"d;e;f\",2\n"), ",");
    // Nor a blank, a colon or a slash within values.
    assert_eq!(delimiter_of("2024-01-01 10:00:00,a b\n2024-01-02 11:00:00,c d\n"), ",");
    // Of several bytes.
    assert_eq!(delimiter_of("a, b, c\n1, \"x, y\", 3\n4, z, 6\n"), ", ");
    // Numbers with a blank before them are numbers, too.
    assert_eq!(
        delimiter_of("region, 2019, 2020\nBerlin, 667.2, 849.3\nLagos, 339.4, 865.7\n"),
        ", "
    );
    // Aligned ones are not.
    assert_eq!(delimiter_of("region,a,b\nBerlin,  667.2,849.3\nLagos, 339.4, 85.7\n"), ",");
    assert_eq!(delimiter_of("a||b||c\n1||2||3\n"), "||");
    // Where the blanks are of the header only, they are no part of it.
    assert_eq!(delimiter_of("a, b, c\n1,2,3\n4,5,6\n"), ",");
    // One column has none; a comma is what CSV means.
    assert_eq!(delimiter_of("1\n2\n3\n"), ",");
    // A note says what was found.
    let found = sniffed(b"a;b\n1;2\n", "x");
    assert!(found.notes.iter().any(|note| note == "detected: delimiter ';'"), "{:?}", found.notes);
}

#[test]
fn quotes_and_escapes_are_found() {
    let style = style_of("1,'a, b',x\n2,'c, d',y\n3,e,z\n");
    assert_eq!((style.delimiter.as_slice(), style.quote), (&b","[..], Some(b'\'')));
    // An apostrophe is no quote.
    assert_eq!(style_of("1,don't,x\n2,can't,y\n3,'tis,z\n").quote, Some(b'"'));
    let style = style_of("1;\"a \\\"b\\\"; c\";x\n2;\"d\";y\n");
    assert_eq!((style.quote, style.escape), (Some(b'"'), b'\\'));
    let style = style_of("1;\"a \"\"b\"\"; c\";x\n2;\"d\\\";y\n");
    assert_eq!((style.quote, style.escape), (Some(b'"'), b'"'));
}

#[test]
fn formats_are_found_by_name_and_by_content() {
    assert_eq!(sniffed(b"1|2|\n3|4|\n", "x").dialect, Dialect::tbl());
    assert_eq!(sniffed(b"1|2|\n", "lineitem.tbl.7").dialect, Dialect::tbl());
    assert_eq!(sniffed(b"1\t2\n", "x.copy").dialect.family, Family::Text);
}

#[test]
fn tab_separated_text_is_copy_text_only_where_it_proves_to_be() {
    let family = |text: &[u8]| sniffed(text, "x.tsv").dialect.family;
    assert_eq!(family(b"1\t\\N\n"), Family::Text);
    assert_eq!(family(b"1\t2\n\\.\n"), Family::Text);
    // Backslashes alone are text.
    assert_eq!(family(b"1\tC:\\new\\table\n2\t\n"), Family::Csv);
    assert_eq!(family(b"1\t\"a\tb\"\n"), Family::Csv);
    assert_eq!(sniffed(b"\"k\"\t1,5\n\"l\"\t2,5\n", "x.tsv").dialect.delimiter, b'\t');
    // Where it is asked for, it is.
    let hints = DialectHints { format: Some(FormatName::Text), ..DialectHints::default() };
    let found = sniff(b"1\tC:\\new\n", true, Path::new("x.tsv"), &hints).expect("a dialect");
    assert_eq!(found.dialect.family, Family::Text);
}

#[test]
fn record_ends_are_those_of_records() {
    let line_end = |text: &str| {
        let base = Style { cr_ends: true, ..style_of("1,2\n") };
        line_end_of(text.as_bytes(), true, &base)
    };
    assert_eq!(line_end("a,b\r\n1,2\r\n"), LineEnd::CrLf);
    assert_eq!(line_end("a,b"), LineEnd::Lf);
    assert_eq!(line_end("a,b\r1,2\r"), LineEnd::Cr);
    assert_eq!(line_end("a,b\n1,2\r\n"), LineEnd::Mixed);
    // Not those within quotes.
    assert_eq!(line_end("1,\"a\r\nb\"\n2,c\n"), LineEnd::Lf);
    assert_eq!(line_end("1,\"a\nb\"\r\n2,c\r\n"), LineEnd::CrLf);
}

#[test]
fn headers_are_told_from_data() {
    // Text above values.
    assert_eq!(is_header("id,name\n1,x\n2,y\n"), Some(true));
    assert_eq!(is_header("1,x\n2,y\n"), Some(false));
    assert_eq!(is_header("\"id\",\"two\nlines\"\n1,x\n"), Some(true));
    assert_eq!(is_header("id,note\n,\n,\n7,\n"), Some(true));
    // Names twice, and none.
    assert_eq!(is_header("id,id\n1,2\n"), Some(true));
    assert_eq!(is_header("id,\n1,2\n"), Some(true));
    // A column of row numbers that has no name.
    assert_eq!(
        is_header("\"\",\"speed\",\"dist\"\n\"1\",4,2\n\"2\",7,4\n\"3\",8,16\n"),
        Some(true)
    );
    // Years above amounts, but not numbers above their like.
    assert_eq!(is_header("region,2019,2020\nnorth,1.5,2.5\nsouth,3.5,4.5\n"), Some(true));
    assert_eq!(is_header("2019;2020;2021\n15;20;7\n3;4;5\n8;9;1\n"), Some(true));
    assert_eq!(is_header("15,20,7\n3,4,5\n"), Some(false));
    assert_eq!(is_header("1,2,3\n2,3,4\n3,4,5\n"), Some(false));
    // A value that is missing above numbers says nothing.
    assert_eq!(is_header("NA,1\n2,3\n"), Some(false));
}

#[test]
fn headers_above_texts_are_told_by_what_they_are_made_of() {
    assert_eq!(is_header("name,email\nAnn,ann@x.org\nBob,bob@x.org\n"), Some(true));
    assert_eq!(is_header("Ann,ann@x.org\nBob,bob@x.org\nAnn,joe@x.org\nAnn,mia@x.org\n"), None);
    let colours = "red\ngreen\nred\nred\ngreen\nred\n".repeat(5);
    assert_eq!(is_header(&format!("shade\n{colours}")), Some(true));
    assert_eq!(is_header(&colours), None);
    // Nothing to compare with.
    assert_eq!(is_header("Datum;Betrag\n"), None);
    assert_eq!(is_header("id,name\n"), None);
    assert_eq!(is_header("1,2\n"), Some(false));
    assert_eq!(is_header("eins;zwei\ndrei;vier\n"), None);
}

#[test]
fn what_stands_before_the_table_is_found() {
    let found = outlined("Report of May\n\nid,name,n\n1,x,5\n2,y,6\n3,z,7\n");
    assert_eq!((found.table.lines, found.records.lines), (2, 3));
    assert_eq!(found.preamble.as_deref(), Some("Report of May"));
    assert_eq!(found.names, [b"id".to_vec(), b"name".to_vec(), b"n".to_vec()]);
    // As a spreadsheet writes it.
    let found = outlined("Report of May,,\n,,\nid,name,n\n1,x,5\n2,y,6\n3,z,7\n");
    assert_eq!((found.table.lines, found.records.lines), (2, 3));
    // Pairs of words.
    let found = outlined("Station:,Bonn\nSensor:,T7\n\nid,name,n\n1,x,5\n2,y,6\n3,z,7\n4,z,7\n");
    assert_eq!(found.table.lines, 3);
    // A record that lacks a field is a record.
    let found = outlined("1,x\n2,y,6\n3,z,7\n4,z,8\n");
    assert_eq!((found.table.lines, found.fields), (0, Some(3)));
}

#[test]
fn headers_of_several_lines_are_found() {
    let units = outlined("time,speed\n(s),(m/s)\n0,1.5\n1,2.5\n2,3.5\n");
    assert_eq!((units.header_lines, units.records.lines), (2, 2));
    // Of a few columns only, and above texts: brackets tell.
    let few =
        outlined("id,day,amount\n,,(EUR)\n1,2024-01-02,1.5\n2,2024-01-03,2.5\n3,2024-01-04,3\n");
    assert_eq!(few.header_lines, 2);
    let texts = outlined("name,city\n(text),(text)\nAnn,Oslo\nBob,Rome\nCid,Bern\n");
    assert_eq!(texts.header_lines, 2);
    // What the others are too is a record, and so are negative amounts of accountants.
    let records = outlined("name,remark\nAnn,(none)\nBob,(none)\nCid,(new)\n");
    assert_eq!(records.header_lines, 1);
    let accounts = outlined("item,amount\n,(3.20)\na,1.5\nb,2.5\nc,3\n");
    assert_eq!(accounts.header_lines, 1);
    let twice = outlined("id,name\nid,name\n1,x\n2,y\n3,z\n");
    assert_eq!((twice.header_lines, twice.records.lines), (2, 2));
    let groups = outlined(",2019,,2020,\nshop,q1,q2,q1,q2\na,1,2,3,4\nb,5,6,7,8\nc,5,6,7,8\n");
    assert_eq!((groups.table.lines, groups.header_lines), (1, 1));
    assert_eq!(groups.names[1], b"q1");
    let years =
        outlined(",first,,,\nregion,2019,2020,2021,2022\na,1.5,2,3,4\nb,5.5,6,7,8\nc,5,6,7,8\n");
    assert_eq!((years.table.lines, years.header_lines), (1, 1));
    let texts = outlined(
        ",first,,second\nname,email,city,country\nAnn,a@b.c,Rome,Peru\nBob,d@e.f,Oslo,Chad\n",
    );
    assert_eq!((texts.table.lines, texts.header_lines), (1, 1));
    let words =
        "Haus,maison,noun\ngehen,aller,verb\nBaum,arbre,noun\nrot,rouge,adjective\n".repeat(5);
    let narrow = outlined(&format!(",first,second\ngerman,french,kind\n{words}"));
    assert_eq!(narrow.verdict, Some(Verdict::Undecided));
    // A column of row names has no name of its own.
    let row_names = outlined(",mpg,cyl\nMazda,21,6\nFiat,32.4,4\nHonda,30,4\n");
    assert_eq!((row_names.table.lines, row_names.names[1].as_slice()), (0, &b"mpg"[..]));
    // Two records that are the same are records.
    let same = outlined("1,x\n1,x\n2,y\n3,z\n");
    assert_eq!((same.table.lines, same.verdict.is_some()), (0, true));
}

#[test]
fn a_header_of_another_width_is_named() {
    let found = outlined("id,name\n1,x,5\n2,y,6\n3,z,7\n4,z,8\n");
    assert_eq!(found.trouble, Some(Trouble::Header { line: 1, fields: 2 }));
}

#[test]
fn footers_are_found() {
    let footer = |text: &str| {
        let found = outlined(text);
        (found.footer_lines, found.trouble)
    };
    let rows = "id,name,n\n1,x,5\n2,y,6\n3,z,7\n4,u,8\n";
    assert_eq!(footer(rows), (0, None));
    assert_eq!(footer(&format!("{rows}\nSource: the office\n")), (1, None));
    assert_eq!(footer(&format!("{rows}Source: the office,,\n")), (1, None));
    assert_eq!(footer(&format!("{rows}Total,,26\n")), (1, None));
    assert_eq!(footer(&format!("{rows}\n(4 rows)\nEnd of report\n")), (2, None));
    // A record that was cut off is none.
    assert_eq!(footer(&format!("{rows}5,v")), (0, None));
    assert_eq!(footer(&format!("{rows}5")), (0, None));
    // A sum that looks like a record is asked about.
    let words = "name,n\nx,5\ny,6\nz,7\nu,8\n";
    let doubt = Some(Trouble::Total { text: "Total,26".to_owned() });
    assert_eq!(footer(&format!("{words}Total,26\n")), (0, doubt));
    // So is a film that was not judged.
    let films = "title,year,n\nA,1990,5\nB,1991,6\nC,1992,7\nD,1993,7\nE,1993,7\n";
    let doubt = Some(Trouble::Total { text: "Total Recall,1990,".to_owned() });
    assert_eq!(footer(&format!("{films}Total Recall,1990,\n")), (0, doubt));
    assert_eq!(footer(&format!("{films}Grand total:,,26\n")), (1, None));
    assert_eq!(footer(&format!("{films}Total sales,,26\n")), (1, None));
}

#[test]
fn further_tables_are_found() {
    let trouble = |text: &str| outlined(text).trouble;
    let rows = "id,name,n\n1,x,5\n2,y,6\n3,z,7\n4,u,8\n";
    assert_eq!(
        trouble(&format!("{rows}\ncode,price\na,1.5\nb,2.5\n")),
        Some(Trouble::Tables { line: Some(7), width: 2 })
    );
    assert_eq!(
        trouble(&format!("{rows}\nid,word,k\n1,x,5\n2,y,6\n")),
        Some(Trouble::Tables { line: Some(7), width: 3 })
    );
    // A blank line alone is nothing.
    assert_eq!(trouble(&format!("{rows}\n5,v,9\n")), None);
}

#[test]
fn comments_are_found() {
    let found = outlined("# made by x\n# on Monday\nid,n\n1,5\n# checked\n2,6\n3,7\n");
    assert_eq!(found.comment, Some(b'#'));
    assert_eq!(found.table.lines, 2);
    // Colours are no comments.
    assert_eq!(outlined("shade,n\n#ff0000,5\n#00ff00,6\n#0000ff,7\n").comment, None);
}

#[test]
fn the_number_of_fields_is_that_of_most_records() {
    let found = outlined("id,name,n\n1,x\n2,y,6\n3,z,7\n4,u,8\n5,v,9\n");
    assert_eq!(found.fields, Some(3));
    let found = outlined("1,x\n2,y,6\n3,z,7\n4,u,8\n5,v,9\n");
    assert_eq!((found.fields, found.table.lines), (Some(3), 0));
}

#[test]
fn a_line_of_numbers_with_more_fields_than_those_below_is_judged() {
    let found = outlined("2019,5,6,7\n1,2,a\n2,3,b\n3,5,c\n4,4,d\n");
    assert_eq!(found.fields, Some(3));
    let found = outlined("a,b\n1,2\n2,3\n3,5\n4,4\n,,Total\n");
    assert_eq!(found.fields, Some(2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn whatever_a_text_is_it_is_judged(
        text in prop_oneof![
            "[0-9a-c,;|\"' .#\\-\r\n]{0,160}",
            "((1|2019|a|total|\"b\"|NULL|),){0,4}(7|x|)\n((1|2020|a|Total|),){0,4}(3|y|)\n((5|b|sum|),){0,4}(8|)\n",
            "(((1|22|2019|a|bc|Total|),){0,4}(9|z|)\n){1,12}",
        ],
    ) {
        outlined(&text);
    }
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
    assert_eq!(found.dialect.delimiter, b',');
    assert_eq!((found.dialect.quote, found.dialect.escape), (b'\'', b'\''));
    assert_eq!(found.dialect.null, b"NULL");
    let same = DialectHints { delimiter: Some(b"\"".to_vec()), ..DialectHints::default() };
    sniff(b"a", true, Path::new("x"), &same).expect_err("delimiter and quote are the same");
}

#[test]
fn a_line_longer_than_the_sample_decides_nothing() {
    let text = vec![b'x'; 1000];
    sniff(&text, false, Path::new("x"), &DialectHints::default()).expect("a dialect");
    let mut samples = Samples { first: text, ..Samples::default() };
    let found = outline(&mut samples, &Dialect::csv(), 5000, Given::default());
    assert_eq!((found.fields, found.verdict.is_none(), found.is_complete), (None, true, false));
}

#[test]
fn names_are_decoded() {
    let names = header_names(b"a,\"b \"\"x\"\"\",\n", &Dialect::csv()).expect("names");
    assert_eq!(names, ["a", "b \"x\"", ""]);
}

#[test]
fn a_quote_within_a_field_stays_there() {
    // COPY would take the second row's quote for the beginning of quoted text.
    let text = "place,n\n37.8\"N,1\n12.5\"S,2\n1.5,3\n40,4\n";
    let dialect = sniffed(text.as_bytes(), "x").dialect;
    let cuts =
        Cuts::of(text.as_bytes(), true, &Style { is_lenient: false, ..Style::of(&dialect) }, 99);
    assert_eq!(cuts.rows.len(), 5);
    assert_eq!(cuts.values(&cuts.rows[1])[0].as_ref(), b"37.8\"N");
}

#[test]
fn a_header_may_lack_the_name_of_the_row_names() {
    let found = outlined("\"Weight\",\"Time\"\n\"1\",26.5,1\n\"2\",27.5,2\n\"3\",36,3\n");
    assert_eq!((found.trouble, found.fields), (None, Some(3)));
    assert_eq!(found.names, [b"".to_vec(), b"Weight".to_vec(), b"Time".to_vec()]);
    // A column that repeats itself names no rows.
    let found = outlined("Weight,Time\n1,26.5,1\n1,27.5,2\n3,36,3\n");
    assert_eq!(found.trouble, Some(Trouble::Header { line: 1, fields: 2 }));
}

#[test]
fn a_last_record_with_one_value_is_a_record() {
    let found = outlined("text,n,k\nChicago,1,2\nBoston,3,4\nDenver,5,6\nRow with blanks,,\n");
    assert_eq!((found.footer_lines, found.trouble), (0, None));
}

#[test]
fn carriage_returns_alone_end_records_where_nothing_else_does() {
    let found = sniffed(b"a,b,c\r1,,\r2,,\r", "x").dialect;
    assert_eq!((found.line_end, found.delimiter), (LineEnd::Cr, b','));
    assert_eq!(delimiter_of("d, c, p, s, x, y\n5:1, 2.9,,,,\n5:2, 2.1, 2.8,,\n5:3, 2, 2,,\n"), ",");
}
