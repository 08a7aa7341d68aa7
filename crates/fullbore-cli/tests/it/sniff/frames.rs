//! Lines around the table, and further tables.

use fullbore_testing::{TestServer, shared_or_skip};

use super::Lab;
use crate::common::packed;

const COLUMNS: &str = "id bigint, word text, n bigint";
const ROWS: &str = "(1,a,5)\n(2,b,6)\n(3,c,7)\n(4,d,8)";

#[test]
fn lines_around_the_table_are_skipped_and_said() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let table = "id,word,n\n1,a,5\n2,b,6\n3,c,7\n4,d,8\n";
    for (text, words) in [
        (format!("Report of May\n\n{table}"), "2 lines before the table skipped"),
        (format!("Report of May,,\n,,\n{table}"), "2 lines before the table skipped"),
        (format!("Station:,North\nby:,Ann\n\n{table}"), "3 lines before the table skipped"),
        (format!("{table}\nSource: the office\n"), "1 line after the records skipped"),
        (format!("{table}Source: the office,,\n"), "1 line after the records skipped"),
        (format!("{table}Total,,26\n"), "1 line after the records skipped"),
        (format!("id,word,n\n{table}"), "the header has 2 lines"),
        (table.replace("1,a,5", "(no),,(t)\n1,a,5"), "the header has 2 lines"),
        (format!("# made by x\n{table}"), "# are skipped as comments"),
        (table.replace("2,b,6", "# checked\n2,b,6"), "# are skipped as comments"),
    ] {
        let made = lab.created("t.csv", &text, &[]);
        made.is(COLUMNS, ROWS);
        made.says(words);
        // Of what can only be read from its beginning the same is found, where it is seen whole.
        let (packer, content) = &packed(text.as_bytes())[0];
        let made = lab.created("t.csv.packed", content, &["--delimiter", ","]);
        assert_eq!(made.rows, ROWS, "{packer}: {text}");
    }
}

#[test]
fn a_record_that_lacks_a_field_is_rejected_wherever_it_stands() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    lab.database.psql("CREATE TABLE t (id int, word text, n int)");
    for text in ["1,a\n2,b,6\n3,c,7\n4,d,8\n5,e,9\n", "2,b,6\n3,c,7\n4,d,8\n5,e,9\n6"] {
        lab.database.psql("TRUNCATE t");
        let output = lab.load("t.csv", text, "t", &["--max-rejects", "1"]);
        assert_eq!(output.code, 3, "{text}: {}", output.stderr);
        assert_eq!(
            lab.database.psql("SELECT count(*), min(id), max(id) FROM t"),
            "4|2|5",
            "{text}"
        );
    }
}

#[test]
fn each_file_may_have_its_own_preamble() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let one = lab.files.write("1.csv", "Report of May\n\nid,word\n1,a\n2,b\n3,c\n");
    let two = lab.files.write("2.csv", "id,word\n4,d\n5,e\n\nSource: the office\n");
    let to = lab.database.url();
    let output = lab.files.fullbore(&["load", &one, &two, "--to", to, "--table", "t", "--create"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let rows = lab.database.psql("SELECT string_agg(id || word, ' ' ORDER BY id) FROM t");
    assert_eq!(rows, "1a 2b 3c 4d 5e");
    // A file of another shape is named.
    let other = lab.files.write("3.csv", "id,word,n\n6,f,1\n7,g,2\n");
    let more = ["--if-loaded", "again"];
    let load = ["load", &one, &other, "--to", to, "--table", "t"];
    let output = lab.files.fullbore(&[&load[..], &more].concat());
    super::assert_refused(&output, &["3.csv: records have 3 fields, but those of", "1.csv have 2"]);
}

#[test]
fn a_header_of_another_width_is_passed_over_only_when_that_is_said() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let text = "id,word\n1,a,5\n2,b,6\n3,c,7\n4,d,8\n";
    let words = ["line 1: the header has 2 fields, the records 3", "--header skip"];
    lab.refused("t.csv", text, &[], &words);
    lab.refused("t.csv", text, &["--header", "true"], &words);
    let made = lab.created("t.csv", text, &["--header", "skip", "--columns", "id,word,n"]);
    made.is(COLUMNS, ROWS);
}

#[test]
fn a_last_line_that_may_be_a_sum_is_asked_about() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let text = "shop,n\nRome,5\nOslo,6\nBonn,7\nLima,8\nTotal,26\n";
    lab.refused("t.csv", text, &[], &["the last line may be a total or a record: Total,26"]);
    let made = lab.created("t.csv", text, &["--skip-footer", "1"]);
    made.is("shop text, n bigint", "(Rome,5)\n(Oslo,6)\n(Bonn,7)\n(Lima,8)");
    let made = lab.created("t.csv", text, &["--skip-footer", "0"]);
    assert!(made.rows.ends_with("(Total,26)"), "{}", made.rows);
}

#[test]
fn comments_of_one_file_are_no_records_of_another() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let tags = "name,n\n#1001,5\n#1002,6\n#1003,7\n";
    let comments = "# exported\nname,n\nx,1\ny,2\nz,3\n";
    for [one, other] in [[tags, comments], [comments, tags]] {
        let file = lab.files.write("one.csv", one);
        lab.files.write("other.csv", other);
        let all = file.replace("one.csv", "o*.csv");
        let output = lab.files.load(&lab.database, &all, "t", &["--create"]);
        let tagged = if one == tags { "one.csv" } else { "other.csv" };
        let words =
            format!("{tagged}: records begin with #, but lines that do so are comments in ");
        super::assert_refused(&output, &[&words, "--comment #"]);
    }
}

#[test]
fn several_tables_in_a_file_are_refused_by_line() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let table = "id,word,n\n1,a,5\n2,b,6\n3,c,7\n4,d,8\n";
    let text = format!("{table}\ncode,price\na,1.5\nb,2.5\n");
    let words = ["line 7: another table begins here, with 2 fields", "--skip-footer"];
    lab.refused("t.csv", &text, &[], &words);
    lab.created("t.csv", &text, &["--skip-footer", "3"]).is(COLUMNS, ROWS);
    lab.refused("t.csv", format!("{table}\n{table}"), &[], &["line 7: another table begins here"]);
    // A header that stands again among texts would become a row.
    let texts = "name,city\nAnn,Rome\nBob,Oslo\nname,city\nCid,Bonn\n";
    lab.refused("t.csv", texts, &[], &["line 4: the header is repeated here"]);
}
