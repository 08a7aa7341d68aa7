use fullbore_read::sniff::samples::Samples;

use super::*;

fn column_of(values: impl IntoIterator<Item = impl AsRef<str>>) -> InferredColumn {
    let mut text = String::new();
    for value in values {
        text.push_str(&format!("\"{}\"\n", value.as_ref()));
    }
    columns_of(&text, &["a"], &Dialect::csv()).remove(0)
}

fn columns_of(text: &str, names: &[&str], dialect: &Dialect) -> Vec<InferredColumn> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let sample = Sample { text: text.as_bytes(), is_from_within: false, order: None };
    infer(&names, |_| false, &[sample], dialect).into_iter().flatten().collect()
}

fn type_of(values: &[&str]) -> FieldType {
    column_of(values).field_type
}

#[test]
fn each_kind_of_value_has_its_type() {
    let decimal = FieldType::NumericText { limits: None };
    let zoned = FieldType::TimestampTz { zoneless_is_utc: false };
    for (values, wanted) in [
        (&["1", "-2", "0"][..], FieldType::Int64),
        (&["9223372036854775807"], FieldType::Int64),
        (&["9223372036854775808"], decimal.clone()),
        (&["1", "2.5"], decimal.clone()),
        (&["0.5", "-0.25", "0"], decimal.clone()),
        (&["1.50", "2.00"], decimal.clone()),
        (&["1", "2.5", "1e9"], FieldType::Float64),
        (&["true", "false"], FieldType::Boolean),
        (&["t", "f"], FieldType::Boolean),
        // 0 and 1 are numbers, yes and no are words.
        (&["0", "1"], FieldType::Int64),
        (&["yes", "no"], FieldType::text()),
        (&["2024-02-29"], FieldType::Date),
        (&["2024-02-29 10:00:00", "2024-02-29 10:00:00.123456"], FieldType::Timestamp),
        (&["2024-02-29 10:00:00+02"], zoned),
        (&["10:00:00", "23:59:59.5"], FieldType::Time),
        (&["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], FieldType::Uuid),
        (&["2024-02-30"], FieldType::text()),
        (&["12 30", "x"], FieldType::text()),
        (&["1", "x"], FieldType::text()),
        // What would not come back as it was written.
        (&["1", "0.12345678901234567890", "1e5"], FieldType::text()),
        (&["2024-02-29 10:00:00+02", "2024-02-29 10:00:00"], FieldType::text()),
        (&["1,571", "12"], FieldType::text()),
        (&["$5.20"], FieldType::text()),
        (&["03.04.2024"], FieldType::text()),
    ] {
        assert_eq!(type_of(values), wanted, "{values:?}");
    }
}

#[test]
fn codes_stay_text() {
    assert_eq!(type_of(&["00123", "45678"]), FieldType::text());
    assert_eq!(type_of(&["-007"]), FieldType::text());
    assert_eq!(type_of(&["+49301234", "+3312345"]), FieldType::text());
    assert_eq!(type_of(&["0.5", "00.5"]), FieldType::text());
    // However rare they are: as numbers they would be taken, and changed.
    let mut codes: Vec<String> = (10_000..15_000).map(|code| code.to_string()).collect();
    codes.push("00001".into());
    let column = column_of(&codes);
    assert_eq!(column.field_type, FieldType::text());
}

#[test]
fn a_type_that_was_seen_to_fail_is_not_proposed() {
    let mut values: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    values.insert(1234, "x7".into());
    let column = column_of(&values);
    assert_eq!(column.field_type, FieldType::text());
    let spoilt = column.spoilt.expect("nearly all are numbers");
    assert_eq!(spoilt.field_type, FieldType::Int64);
    assert_eq!(spoilt.by, SpoiltBy::Values(1, "x7".to_owned()));
    // Of few values each one counts, and more than one in a hundred is no accident.
    assert_eq!(column_of(&values[1000..1300]).spoilt, None);
    let mixed = (0..2000).map(|n| if n % 50 == 0 { "x".into() } else { n.to_string() });
    assert_eq!(column_of(mixed).spoilt, None);
    // A wider type that all values have comes first.
    let decimals = (0..2000).map(|n| if n == 7 { "7.5".into() } else { n.to_string() });
    let column = column_of(decimals);
    assert_eq!((column.field_type, column.spoilt), (FieldType::NumericText { limits: None }, None));
}

#[test]
fn words_for_no_value_are_suggested_as_null() {
    let column = column_of(["1", "NA", "3", "n/a"]);
    assert_eq!(column.field_type, FieldType::text());
    let spoilt = column.spoilt.expect("all others are numbers");
    assert_eq!(spoilt.field_type, FieldType::Int64);
    let words = ["NA".to_owned(), "n/a".to_owned()];
    assert_eq!(spoilt.by, SpoiltBy::NullWords(words.to_vec()));
    // Among words they are words.
    assert_eq!(column_of(["x", "NA", "y"]).spoilt, None);
    assert_eq!(column_of(["NA", "NA"]).spoilt, None);
    assert_eq!(
        null_options(&[b""], &["NA", "n/a", "#N/A"]),
        "--null '' --null NA --null n/a --null '#N/A'"
    );
}

#[test]
fn why_a_column_stays_text_is_said() {
    for (values, why) in [
        (&["00501", "12"][..], "\"00501\" has a sign or zeros"),
        (&["1,571", "12"], "\"1,571\" is written as a country writes numbers"),
        (&["03.04.2024", "05.04.2024"], "\"03.04.2024\" is a date whose order"),
        (&["2026-13-01", "2026-14-01"], "\"2026-13-01\" is not a date of the form YYYY-MM-DD"),
    ] {
        let because = column_of(values).because;
        assert!(because.contains(why), "{because}");
    }
}

#[test]
fn columns_without_values_are_text() {
    let columns = columns_of("1,\n2,\n", &["a", "b"], &Dialect::csv());
    assert_eq!(columns[0].field_type, FieldType::Int64);
    assert!(!columns[0].is_nullable);
    assert_eq!(columns[1].field_type, FieldType::text());
    assert!(columns[1].is_nullable);
    assert!(columns[1].because.contains("no value was seen"), "{}", columns[1].because);
    // Quoted, an empty string is a value and no NULL.
    let columns = columns_of("1,\"\"\n", &["a", "b"], &Dialect::csv());
    assert_eq!((columns[1].field_type.clone(), columns[1].is_nullable), (FieldType::text(), false));
    let none = columns_of("", &["a"], &Dialect::csv());
    assert_eq!(none[0].field_type, FieldType::text());
}

#[test]
fn nulls_are_no_values() {
    let columns = columns_of("1\n\\N\n3\n", &["a"], &Dialect::text());
    assert_eq!(columns[0].field_type, FieldType::Int64);
    assert!(columns[0].is_nullable);
    let dialect = Dialect { null: b"NA".to_vec(), ..Dialect::csv() };
    let columns = columns_of("1,x\nNA,y\n", &["a", "b"], &dialect);
    assert_eq!(columns[0].field_type, FieldType::Int64);
}

#[test]
fn records_of_another_shape_and_cut_ones_say_nothing() {
    let columns = columns_of("1,2\nx\n3,4,5\n6,7\n8,2024-0", &["a", "b"], &Dialect::csv());
    assert_eq!(columns[0].field_type, FieldType::Int64);
    assert_eq!(columns[1].field_type, FieldType::Int64);
    assert!(columns[1].because.contains("from 2 "), "{}", columns[1].because);
}

#[test]
fn samples_that_begin_within_quotes_are_read_aright() {
    // The file's middle, by chance after a line end inside quotes.
    let record = "17,\"a note, of\n2024,\"\"two\"\"\nlines\"\n";
    let text = record.repeat(50);
    let from = text.find("2024").expect("there");
    let names = ["n".to_owned(), "note".to_owned()];
    let first = |text: &str| {
        let mut samples = Samples { others: vec![text.as_bytes().to_vec()], ..Samples::default() };
        samples.open_quotes(&Style::of(&Dialect::csv()));
        let sample = Sample { text: &samples.others[0], is_from_within: true, order: None };
        infer(&names, |_| false, &[sample], &Dialect::csv()).remove(0).unwrap()
    };
    let column = first(&text[from..]);
    assert_eq!(column.field_type, FieldType::Int64, "{}", column.because);
    assert!(column.because.contains("from 49 "), "{}", column.because);
    // Of one that begins between records the first is left out too: it might not be whole.
    let column = first(&text);
    assert!(column.because.contains("from 49 "), "{}", column.because);
}

#[test]
fn types_that_are_given_are_not_asked_of_the_samples() {
    let names = ["a".to_owned(), "b".to_owned()];
    let sample = Sample { text: b"1,2\n", is_from_within: false, order: None };
    let columns = infer(&names, |name| name == "a", &[sample], &Dialect::csv());
    assert!(columns[0].is_none());
    assert_eq!(columns[1].as_ref().map(|column| &column.field_type), Some(&FieldType::Int64));
}
