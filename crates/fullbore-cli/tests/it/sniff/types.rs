//! Types that are inferred: they give back what was written, or are not proposed.

use fullbore_testing::{TestServer, shared_or_skip};

use super::Lab;

/// So many records that the sample sees none of what comes after them.
fn many(row: impl Fn(u64) -> String) -> String {
    (0..60_000).map(row).collect()
}

#[test]
fn codes_beyond_the_sample_are_rejects_of_the_guess() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    // In the middle of a file of three samples nobody looks.
    let rows = |bad: &str| {
        let row =
            |id: u64| format!("{id},{},{}.5,{}\n", 10_000 + id, id % 100, id.is_multiple_of(2));
        let middle = format!("{bad}\n");
        format!("id,zip,share,ok\n{}{middle}{}", many(row), many(row))
    };
    for (bad, column) in [
        ("7,00501,1.5,true", "zip"),
        ("7,+501,1.5,true", "zip"),
        ("7,501,01.5,true", "share"),
        ("7,501,-0.0,true", "share"),
        ("7,501,1.5,yes", "ok"),
        ("7,\"00501\",1.5,true", "zip"),
    ] {
        for more in [&[][..], &["--as-text"]] {
            let lab = Lab::new(cluster.fresh_database());
            let options = [&["--create", "--max-rejects", "1"], more].concat();
            let output = lab.load("t.csv", rows(bad), "t", &options);
            assert_eq!(output.code, 3, "{bad} {more:?}: {}", output.stderr);
            assert_eq!(lab.database.psql("SELECT count(*) FROM t"), "120000", "{bad} {more:?}");
            let reason = &lab.files.reasons()[0];
            assert_eq!(reason["column"], column, "{bad}: {reason}");
            assert_eq!(reason["line"], 60_002, "{bad}: {reason}");
            let text = reason["reason"].as_str().expect("text");
            let option = format!("--type {column}=text");
            assert!(text.contains("inferred as") && text.contains(&option), "{text}");
        }
    }
    // A type that is given takes what the server takes.
    let lab = Lab::new(cluster.fresh_database());
    let options = ["--create", "--type", "zip=bigint"];
    let output = lab.load("t.csv", rows("7,00501,1.5,true"), "t", &options);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(lab.database.psql("SELECT count(*) FROM t WHERE zip = 501"), "1");
}

#[test]
fn words_for_no_value_are_suggested() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let text = "id,n,note\n1,5,x\n2,NA,\n3,-,y\n";
    let made = lab.created("t.csv", text, &[]);
    made.is("id bigint, n text, note text", "(1,5,x)\n(2,NA,)\n(3,-,y)");
    made.says(
        "column n is text, since \"-\" and \"NA\" look like NULL; --null '' --null - --null NA",
    );
    let made = lab.created("t.csv", text, &["--null", "", "--null", "NA", "--null", "-"]);
    made.is("id bigint, n bigint, note text", "(1,5,x)\n(2,,)\n(3,,y)");
}

#[test]
fn a_type_that_was_seen_to_fail_is_not_proposed() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let rows: String = (0..3000).map(|n| format!("{n},{n}\n")).collect();
    let made = lab.created("t.csv", format!("id,n\n{rows}7,x9\n"), &[]);
    assert_eq!(made.columns, "id bigint, n text");
    made.says("column n is text, since 1 sampled value is not whole numbers, such as \"x9\"");
    made.says("--type n=bigint");
}

#[test]
fn what_a_country_writes_stays_text() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let text = "a;b;c;d;e\n1,571;$5.20;03.04.2024;00501;1.50\n12;$3;05.06.2024;12345;2.00\n";
    let made = lab.created("t.csv", text, &[]);
    let rows = "(\"1,571\",$5.20,03.04.2024,00501,1.50)\n(12,$3,05.06.2024,12345,2.00)";
    made.is("a text, b text, c text, d text, e numeric", rows);
    let plan = lab.files.fullbore(&[
        "plan",
        lab.files.path("t.csv").to_str().expect("UTF-8"),
        "--to",
        lab.database.url(),
        "--table",
        "other",
        "--create",
    ]);
    for words in [
        "\"1,571\" is written as a country writes numbers",
        "\"03.04.2024\" is a date whose order depends on the country",
        "\"00501\" has a sign or zeros that a number would lose",
    ] {
        assert!(plan.stdout.contains(words), "{words}: {}", plan.stdout);
    }
}

#[test]
fn what_would_load_a_rejected_row_is_named() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let latin: &[u8] = b"id,name\n1,Anna\n2,M\xfcller\n";
    for (text, words) in [
        (
            latin,
            &["t.csv is not UTF-8 (line 3: 0xfc)", "hint: --encoding NAME, such as windows-1252"][..],
        ),
        (b"a,b,c\n1,2,3\n4,5\n6,7,8\n", &["hint: --ragged pad fills missing fields with NULL"]),
        (b"a,b,c\n1,2,3\n4,5,6,7\n6,7,8\n", &["hint: --ragged cut drops extra fields"]),
    ] {
        let output = lab.load("t.csv", text, "made", &["--create"]);
        assert_eq!(output.code, 1, "{}", output.stderr);
        for words in [words, &["--max-rejects N or P%"]].concat() {
            assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
        }
    }
    let made = lab.created("t.csv", latin, &["--encoding", "windows-1252"]);
    made.is("id bigint, name text", "(1,Anna)\n(2,Müller)");
}

#[test]
fn a_load_says_which_columns_are_written_as_a_country_writes() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let made = lab.created("t.csv", "id;sum;day\n1;1.571,50;03.04.2026\n2;3,99;13.04.2026\n", &[]);
    made.is(
        "id bigint, sum text, day text",
        "(1,\"1.571,50\",03.04.2026)\n(2,\"3,99\",13.04.2026)",
    );
    made.says("column sum is text: \"1.571,50\" is written as a country writes numbers");
    made.says("column day is text: \"03.04.2026\" is a date whose order depends on the country");
}
