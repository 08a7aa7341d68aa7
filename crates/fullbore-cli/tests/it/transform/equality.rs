//! Expressions give what PostgreSQL gives for the same ones.

use std::fmt::Write;

use crate::common::Files;
use crate::common::refused::fresh;
use fullbore_testing::{TestServer, extended_or_skip};

/// The columns of the source.
const COLUMNS: &str = "id bigint, i4 int, i8 bigint, n numeric(12,2), f float8, t text, d date, ts timestamp, \
                       b boolean, j text, g text, e text";

/// The type of a column, its expression, and PostgreSQL's where it is written in another way.
const EXPRESSIONS: [(&str, &str, &str); 74] = [
    ("bigint", "i4 + i8", ""),
    ("int", "i4 * 2 - 1", ""),
    ("bigint", "i8 / 7", ""),
    ("bigint", "i8 % 7", ""),
    ("numeric(24,2)", "n * i4", ""),
    ("numeric(16,4)", "n * 1.19", ""),
    ("numeric(12,1)", "round(n, 1)", ""),
    ("numeric(12,2)", "abs(n)", ""),
    ("numeric(12,2)", "-n", ""),
    ("numeric(12,2)", "n + 0.005", ""),
    ("numeric(12,1)", "n * 1", ""),
    ("numeric(14,4)", "n / 3", ""),
    ("numeric", "n * 2", ""),
    ("int", "n * 1", ""),
    ("int", "n::int", ""),
    ("bigint", "CAST(f AS bigint)", ""),
    ("float8", "f * 2", ""),
    ("float8", "sqrt(abs(f))", ""),
    ("float8", "floor(f)", ""),
    ("float8", "ceil(f)", ""),
    ("float8", "power(f, 2)", ""),
    ("numeric(14,3)", "f * 1", ""),
    ("float8", "n * 1", ""),
    ("real", "f / 3", ""),
    ("text", "CASE WHEN i4 > 0 THEN 'positive' WHEN i4 = 0 THEN 'zero' ELSE 'other' END", ""),
    ("text", "coalesce(t, 'none')", ""),
    ("text", "nullif(t, '')", ""),
    ("text", "upper(t)", "upper(t COLLATE pg_c_utf8)"),
    ("text", "lower(t)", "lower(t COLLATE pg_c_utf8)"),
    ("text", "trim(t)", ""),
    ("text", "ltrim(t)", ""),
    ("text", "rtrim(t, 'ax ')", ""),
    ("int", "length(t)", ""),
    ("int", "octet_length(t)", ""),
    ("text", "substring(t from 2 for 3)", ""),
    ("text", "left(t, 2)", ""),
    ("text", "right(t, 2)", ""),
    ("text", "lpad(t, 10, '*')", ""),
    ("text", "rpad(t, 10, '*')", ""),
    ("text", "replace(t, 'a', 'bc')", ""),
    ("text", "split_part(t, ' ', 2)", ""),
    ("text", "t || '-' || i4", ""),
    ("text", "concat(t, i4, 'x')", ""),
    ("text", "concat_ws(',', t, g)", ""),
    ("text", "reverse(t)", ""),
    ("text", "repeat(t, 2)", ""),
    ("text", "initcap(g)", ""),
    ("int", "strpos(t, 'a')", ""),
    ("boolean", "starts_with(t, 'a')", ""),
    ("text", "regexp_replace(t, '[0-9]+', '#', 'g')", ""),
    ("boolean", "t ~ '^[a-m]'", ""),
    ("boolean", "t LIKE 'a%'", ""),
    ("boolean", "t ILIKE '%A%'", ""),
    ("text", "md5(t)", ""),
    ("timestamp", "d + interval '1 day'", ""),
    ("int", "extract(year from d)", ""),
    ("int", "extract(hour from ts)", ""),
    ("timestamp", "date_trunc('month', ts)", ""),
    ("timestamp", "ts + interval '90 minutes'", ""),
    ("int", "d - date '2000-01-01'", ""),
    ("date", "ts + interval '0 hours'", ""),
    ("date", "to_date(g, 'DD.MM.YYYY')", ""),
    ("timestamp", "to_timestamp(g, 'DD.MM.YYYY')", "to_timestamp(g, 'DD.MM.YYYY')::timestamp"),
    ("numeric(12,2)", "replace(e, ',', '.')::numeric(12,2)", ""),
    ("numeric(12,2)", "replace(e, ',', '.')", "replace(e, ',', '.')::numeric"),
    ("boolean", "b AND i4 > 0", ""),
    ("int", "b::int", ""),
    ("text", "n::text", ""),
    ("text", "d::text", ""),
    ("text", "j ->> 'a'", "j::json ->> 'a'"),
    ("int", "(j ->> 'n')::int", "(j::json ->> 'n')::int"),
    ("text", "j -> 'o' ->> 'p'", "j::json -> 'o' ->> 'p'"),
    ("int", "greatest(i4, 0)", ""),
    ("boolean", "i4 BETWEEN 1 AND 10 OR i4 IN (20, 30)", ""),
];

/// Rows of all types, every seventh value NULL.
fn rows(count: usize) -> String {
    let words =
        ["alpha", "", "Äpfel und 12 Birnen", "  x  ", "a1b22c333", "mañana", "axxa a x", "Z"];
    let mut text = String::new();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for id in 0..count {
        let i4 = draw(2_000_000) as i64 - 1_000_000;
        let cents = draw(20_000_000) as i64 - 10_000_000;
        let (year, month, day) = (1980 + draw(60), 1 + draw(12), 1 + draw(28));
        let float = (draw(4_000_001) as f64 - 2_000_000.0) / 8.0;
        let sign = if cents < 0 { "-" } else { "" };
        let (whole, rest) = (cents.abs() / 100, cents.abs() % 100);
        let fields = [
            if draw(3) == 0 { (i4 % 40).to_string() } else { i4.to_string() },
            (draw(1 << 52) as i64 - (1 << 51)).to_string(),
            format!("{sign}{whole}.{rest:02}"),
            float.to_string(),
            format!("\"{}\"", words[draw(8) as usize]),
            format!("{year}-{month:02}-{day:02}"),
            format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02}", draw(24), draw(60), draw(60)),
            if draw(2) == 0 { "t" } else { "f" }.to_owned(),
            format!(
                "\"{{\"\"a\"\": \"\"{}\"\", \"\"n\"\": {}, \"\"o\"\": {{\"\"p\"\": [1, {{}}]}}}}\"",
                words[draw(8) as usize],
                draw(1000)
            ),
            format!("{day:02}.{month:02}.{year}"),
            format!("\"{sign}{whole},{rest:02}\""),
        ];
        let _ = write!(text, "{id}");
        for field in fields {
            let field = if draw(7) == 0 { String::new() } else { field };
            let _ = write!(text, ",{field}");
        }
        text.push('\n');
    }
    text
}

#[test]
fn expressions_give_what_the_server_gives() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let count = if std::env::var_os("FULLBORE_TEST_ALL").is_some() { 1_000_000 } else { 20_000 };
    let database = fresh(cluster);
    let files = Files::new();
    files.write("a.csv", rows(count));
    let of = |what: &dyn Fn(usize) -> String| {
        (0..EXPRESSIONS.len()).map(what).collect::<Vec<_>>().join(", ")
    };
    let made = of(&|at| format!("c{at} {}", EXPRESSIONS[at].0));
    database
        .psql(&format!("CREATE TABLE source ({COLUMNS}); CREATE TABLE ours (id bigint, {made})"));
    let names = COLUMNS.split(", ").map(|one| one.split_whitespace().next().unwrap_or_default());
    let columns = names.collect::<Vec<_>>().join(",");
    let output = files.load(&database, "a.csv", "source", &["--header", "none"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let typed = COLUMNS.split(", ").map(|one| one.trim().replacen(' ', "=", 1));
    let mut args = vec!["--header".to_owned(), "none".into(), "--columns".into(), columns];
    args.extend(typed.flat_map(|one| ["--field-type".to_owned(), one]));
    for (at, (_, sql, _)) in EXPRESSIONS.iter().enumerate() {
        args.extend(["--select".to_owned(), format!("c{at}={sql}")]);
    }
    args.extend(["--select".into(), "i4=".into(), "--select".into(), "i8=".into()]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let expected = of(&|at| {
        let (_, ours, theirs) = EXPRESSIONS[at];
        if theirs.is_empty() { ours.to_owned() } else { theirs.to_owned() }
    });
    database.psql(&format!(
        "CREATE TABLE expected (LIKE ours); INSERT INTO expected SELECT id, {expected} FROM source"
    ));
    for more in [&["--publish", "replace", "--method", "direct"][..], &["--as-text"]] {
        database.psql("TRUNCATE ours");
        let output = files.load(&database, "a.csv", "ours", &[&args[..], more].concat());
        assert_eq!(output.code, 0, "{more:?}: {}", output.stderr);
        let mut wrong = Vec::new();
        for (at, (_, sql, _)) in EXPRESSIONS.iter().enumerate() {
            let differing = database.psql(&format!(
                "SELECT count(*), min(o.c{at}::text), min(e.c{at}::text) FROM ours o FULL JOIN expected e USING (id)
                  WHERE o.c{at}::text IS DISTINCT FROM e.c{at}::text"
            ));
            if !differing.starts_with("0|") {
                let one = database.psql(&format!(
                    "SELECT o.c{at}, e.c{at}, s.* FROM ours o FULL JOIN expected e USING (id) JOIN source s USING (id)
                      WHERE o.c{at}::text IS DISTINCT FROM e.c{at}::text LIMIT 2"
                ));
                wrong.push(format!("{sql}: {differing}: {one}"));
            }
        }
        assert_eq!(wrong, Vec::<String>::new(), "{more:?}");
        assert_eq!(database.psql("SELECT count(*) FROM ours"), count.to_string());
    }
}
