//! What the first line is.

use fullbore_testing::{TestServer, shared_or_skip};

use super::{Lab, assert_refused};

#[test]
fn a_header_of_texts_is_matched_by_the_targets_names() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    lab.database.psql("CREATE TABLE users (email text, name text)");
    let output = lab.load("users.csv", "name,email\nAnn,ann@x.org\n", "users", &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("it names columns of the table"), "{}", output.stderr);
    assert_eq!(lab.database.psql("SELECT * FROM users"), "ann@x.org|Ann");
    // Whatever joins the words, and in whatever case.
    lab.database.psql("CREATE TABLE trips (begun_on text, place_name text)");
    let output = lab.load("trips.csv", " Place Name,BEGUN-ON\nRome,May\n", "trips", &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(lab.database.psql("SELECT * FROM trips"), "May|Rome");
}

#[test]
fn a_first_line_that_fits_the_targets_types_is_data() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    lab.database.psql("CREATE TABLE t (word text, n int)");
    let output = lab.load("t.csv", "only,1\n", "t", &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(lab.database.psql("SELECT * FROM t"), "only|1");
    // A header in another language names none of the columns: it is no row, and is not loaded.
    let output = lab.load("t.csv", "Wort,Zahl\nonly,1\n", "t", &[]);
    assert_refused(&output, &["was read as a header", "--header none"]);
}

#[test]
fn a_first_line_that_may_be_either_is_asked_about() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let text = "eins;zwei\ndrei;vier\n";
    let words = ["first line may be a header or data: eins;zwei", "--header true", "--header none"];
    lab.refused("t.csv", text, &[], &words);
    lab.created("t.csv", text, &["--header", "true"]).is("eins text, zwei text", "(drei,vier)");
    let none = lab.created("t.csv", text, &["--header", "none"]);
    none.is("column1 text, column2 text", "(eins,zwei)\n(drei,vier)");
    lab.database.psql("CREATE TABLE there (a text, b text)");
    assert_refused(&lab.load("t.csv", text, "there", &[]), &words);
    assert_eq!(lab.database.psql("SELECT count(*) FROM there"), "0");
    // Of a header alone nothing tells that it is one.
    lab.refused("d.csv", "Datum;Betrag\n", &[], &["may be a header or data: Datum;Betrag"]);
    lab.created("d.csv", "Datum;Betrag\n", &["--header"]).is("Datum text, Betrag text", "");
}

#[test]
fn headers_above_texts_are_found() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let made = lab.created("t.csv", "name,city\nAnn,Rome\nBob,Oslo\n", &[]);
    made.is("name text, city text", "(Ann,Rome)\n(Bob,Oslo)");
    made.says("the first line is taken as the header");
}

#[test]
fn row_numbers_years_and_repeated_names_make_a_header() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let made = lab.created("r.csv", "\"\",\"a\",\"a\"\n\"1\",4,x\n\"2\",7,y\n\"3\",9,z\n", &[]);
    made.is("column1 bigint, a bigint, a_2 text", "(1,4,x)\n(2,7,y)\n(3,9,z)");
    made.says("field 1 (\"\") is called column1, field 3 (\"a\") is called a_2");
    let made = lab.created("y.csv", "region,2019,2020\nnorth,1.5,2.5\nsouth,3.5,4.5\n", &[]);
    made.is("region text, 2019 numeric, 2020 numeric", "(north,1.5,2.5)\n(south,3.5,4.5)");
    // And come back by the same names.
    let output = lab.load("r.csv", ",a,a\n4,8,u\n", "made", &["--header", "true"]);
    assert_refused(&output, &["header field 1 is empty", "--columns"]);
    let made = lab.created("r.csv", ",a,a\n1,4,x\n2,7,y\n3,9,z\n", &[]);
    made.is("column1 bigint, a bigint, a_2 text", "(1,4,x)\n(2,7,y)\n(3,9,z)");
    let output = lab.load("r.csv", ",a,a\n4,8,u\n5,9,v\n6,9,v\n", "made", &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(lab.database.psql("SELECT count(*), max(a_2) FROM made"), "6|z");
}

#[test]
fn names_that_are_too_long_are_shortened_and_said() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let long = "measured_".repeat(10);
    let made = lab.created("l.csv", format!("{long},{long}\n1,2\n3,4\n"), &[]);
    let (first, second) = (&long[..63], format!("{}_2", &long[..61]));
    made.is(&format!("{first} bigint, {second} bigint"), "(1,2)\n(3,4)");
    made.says(&format!("is called {first}"));
}

#[test]
fn files_that_all_begin_alike_begin_with_a_header() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let one = lab.files.write("1.csv", "eins;zwei\ndrei;vier\n");
    let two = lab.files.write("2.csv", "eins;zwei\nacht;neun\n");
    let args = ["load", &one, &two, "--to", lab.database.url(), "--table", "t", "--create"];
    let output = lab.files.fullbore(&args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("all files begin with it"), "{}", output.stderr);
    assert_eq!(lab.database.psql("SELECT eins, zwei FROM t ORDER BY 1"), "acht|neun\ndrei|vier");
}

#[test]
fn a_file_with_nothing_in_it_makes_no_table() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    lab.refused("e.csv", "", &[], &["e.csv is empty", "--schema FILE.sql"]);
    lab.refused("e.csv", "\u{feff}", &[], &["e.csv is empty"]);
}
