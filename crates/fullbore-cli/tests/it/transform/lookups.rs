//! Rows of other tables, found by a key.

use crate::common::Files;
use crate::common::refused::fresh;
use fullbore_testing::{Output, TestDatabase, TestServer, extended_or_skip, shared_or_skip};

/// The rows: a key of two columns, a day, and an amount.
const ROWS: &str = "id,shop,customer,day,amount\n\
    1,A,1,2024-01-05,10\n\
    2,A,2,2024-02-05,20\n\
    3,B,1,2024-03-05,30\n\
    4,B,9,2024-01-05,40\n\
    5,A,,2024-01-05,50\n";

const CUSTOMERS: &str = "shop,number,name,discount\nA,1,Ann,0.10\nA,2,Bob,0.50\nB,1,Cy,\n";

fn load(
    files: &Files,
    database: &TestDatabase<'_>,
    more: &str,
    lookup: &str,
    args: &[&str],
) -> Output {
    files.write("a.csv", ROWS);
    files.write("customers.csv", CUSTOMERS);
    let job = format!(
        "to = \"{}\"\n[[table]]\nname = \"ours\"\nsources = [\"{}\"]\n{more}\n{lookup}",
        database.url(),
        files.path("a.csv").display()
    );
    let job = files.write("job.toml", job);
    files.fullbore(&[&["load", &job, "--max-rejects", "10"], args].concat())
}

fn of_file(files: &Files, more: &str) -> String {
    format!(
        "[[table.lookup]]\nname = \"c\"\nsources = \"{}\"\n\
         key = {{ shop = \"shop\", number = \"customer\" }}\n{more}\n",
        files.path("customers.csv").display()
    )
}

const SELECT: &str = "[table.select]\nname = \"c.name\"\npaid = \"amount * (1 - coalesce(c.discount, 0))\"\nday = \"\"\n";
const TABLE: &str = "CREATE TABLE ours (id int, name text, paid numeric(9,2))";
const FOUND: &str = "1|Ann|9.00\n2|Bob|10.00\n3|Cy|30.00";

#[test]
fn columns_come_from_files_and_missing_keys_are_rejected_or_not() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    for (missing, args, expected, code) in [
        ("", &["--as-text"][..], FOUND.to_owned(), 3),
        ("", &["--publish", "replace"], FOUND.to_owned(), 3),
        ("missing = \"null\"", &[], format!("{FOUND}\n4||40.00\n5||50.00"), 0),
        (
            "default = { name = \"none\", discount = \"1\" }",
            &[],
            format!("{FOUND}\n4|none|0.00\n5|none|0.00"),
            0,
        ),
    ] {
        let database = fresh(cluster);
        let files = Files::new();
        database.psql(TABLE);
        let lookup = of_file(&files, missing);
        let publish = if args.contains(&"replace") { "publish = \"replace\"" } else { "" };
        let as_text = if args.contains(&"--as-text") { "as_text = true" } else { "" };
        let more = format!("{publish}\n{as_text}\n{SELECT}");
        let output = load(&files, &database, &more, &lookup, &[]);
        assert_eq!(output.code, code, "{missing}: {}", output.stderr);
        assert_eq!(database.psql("SELECT * FROM ours ORDER BY id"), expected, "{missing}");
        if code == 3 {
            let mut rejects = files.reasons();
            rejects.sort_by_key(|reject| reject["line"].as_u64());
            let words: Vec<_> = rejects
                .iter()
                .map(|one| {
                    (one["line"].as_u64(), one["constraint"].as_str(), one["reason"].as_str())
                })
                .collect();
            let reason = "no row of lookup c has shop = B, number = 9";
            assert_eq!(words[0], (Some(5), Some("c"), Some(reason)));
            assert_eq!(words[1].0, Some(6));
        }
    }
}

#[test]
fn tables_of_the_destination_are_looked_up_too() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql(&format!(
        "{TABLE}; CREATE TABLE dims (shop varchar(3), number bigint, name text, discount numeric, born date);
         INSERT INTO dims VALUES ('A', 1, E'A\\tnn', 0.1, '2000-01-01'), ('A', 2, 'Bob', 0.5, NULL), ('B', 1, NULL, NULL, NULL)"
    ));
    let lookup = "[[table.lookup]]\nname = \"c\"\ntable = \"dims\"\n\
                  key = { shop = \"shop\", number = \"customer\" }\n";
    // Rows that are left out are not looked up.
    let more = format!("where = \"id < 4\"\n{SELECT}");
    let output = load(&files, &database, &more, lookup, &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let found = database.psql("SELECT * FROM ours ORDER BY id");
    assert_eq!(found, "1|A\tnn|9.00\n2|Bob|10.00\n3||30.00");
    let job = files.path("job.toml");
    let plan = files.fullbore(&["plan", job.to_str().expect("UTF-8"), "--if-loaded", "again"]);
    assert!(
        plan.stdout.contains("lookup c: dims, 3 rows, shop = shop AND number = customer"),
        "{}{}",
        plan.stdout,
        plan.stderr
    );
}

#[test]
fn the_version_of_a_key_is_that_of_the_row() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE ours (id int, level text)");
    let versions = "shop,level,since,until\nA,bronze,,2024-02-01\nA,silver,2024-02-01,\nB,gold,2024-02-01,2024-03-06\n";
    let path = files.write("levels.csv", versions);
    let lookup = |file: &str| {
        format!(
            "[[table.lookup]]\nname = \"l\"\nsources = \"{file}\"\nkey = {{ shop = \"shop\" }}\n\
             valid = {{ from = \"since\", to = \"until\", at = \"day\" }}\nmissing = \"null\"\n"
        )
    };
    let select = "[table.select]\nlevel = \"l.level\"\n";
    let output = load(
        &files,
        &database,
        &format!(
            "columns = [\"id\", \"shop\", \"-\", \"day\", \"-\"]\nheader = \"skip\"\n{select}\nshop = \"\"\n"
        ),
        &lookup(&path),
        &[],
    );
    assert_eq!(output.code, 0, "{}", output.stderr);
    let found = database.psql("SELECT * FROM ours ORDER BY id");
    assert_eq!(found, "1|bronze\n2|silver\n3|gold\n4|\n5|bronze");
    database.psql("DELETE FROM ours; DROP SCHEMA fullbore_ledger CASCADE");
    let twice = files.write("twice.csv", format!("{versions}A,iron,2024-01-01,2024-01-02\n"));
    let output = load(
        &files,
        &database,
        &format!(
            "columns = [\"id\", \"shop\", \"-\", \"day\", \"-\"]\nheader = \"skip\"\n{select}\nshop = \"\"\n"
        ),
        &lookup(&twice),
        &[],
    );
    assert_eq!(output.code, 2);
    assert!(
        output.stderr.contains("two rows of its key shop = A are valid at the same time"),
        "{}",
        output.stderr
    );
}

#[test]
fn missing_keys_are_inserted_once_by_all_parsers() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = fresh(cluster);
    let files = Files::new();
    let text: String = (0..40_000).map(|n| format!("{n},c{}\n", n * 7919 % 3000)).collect();
    files.write("a.csv", format!("id,customer\n{text}"));
    database.psql(
        "CREATE TABLE ours (id int, customer_id int);
         CREATE TABLE dims (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, code text UNIQUE, name text DEFAULT 'inferred');
         INSERT INTO dims (code, name) SELECT 'c' || n, 'known' FROM generate_series(0, 999) n",
    );
    let lookup = "c=table:dims on code=customer or insert";
    let args = [
        "--header",
        "true",
        "--select",
        "customer_id=c.id",
        "--lookup",
        lookup,
        "--streams",
        "4",
        "--parsers",
        "4",
        "--piece-size",
        "100kB",
        "--publish",
        "replace",
    ];
    let output = files.load(&database, "a.csv", "ours", &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let found = database.psql(
        "SELECT count(*), count(*) FILTER (WHERE d.code = 'c' || o.id::bigint * 7919 % 3000) FROM ours o JOIN dims d ON d.id = o.customer_id",
    );
    assert_eq!(found, "40000|40000");
    let found = database.psql("SELECT name, count(*) FROM dims GROUP BY 1 ORDER BY 1");
    assert_eq!(found, "inferred|2000\nknown|1000");
    database.psql("ALTER TABLE dims DROP CONSTRAINT dims_code_key");
    let output = files.load(&database, "a.csv", "ours", &args);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("unique constraint"), "{}", output.stderr);
}

/// A name is that of the computed column, also where a field has it and a lookup computes it.
#[test]
fn conditions_mean_what_is_computed_by_a_lookup() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE ours (id int, customer text)");
    let select = "where = \"customer = 'Bob'\"\n[table.select]\ncustomer = \"c.name\"\nshop = \"\"\nday = \"\"\namount = \"\"\n";
    let lookup = of_file(&files, "missing = \"null\"");
    let output = load(&files, &database, select, &lookup, &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT * FROM ours"), "2|Bob");
}

#[test]
fn keys_are_equal_as_their_column_says() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    files.write("a.csv", format!("code,id\nA,{}\nB,\n", uuid.to_uppercase()));
    database.psql(&format!(
        "CREATE TABLE ours (code text, name text, n int);
         CREATE TABLE codes (code char(3) UNIQUE, name char(5) DEFAULT 'new');
         INSERT INTO codes VALUES ('A', 'Ann'); CREATE TABLE ids (id uuid, n int); INSERT INTO ids VALUES ('{uuid}', 7);
         CREATE FUNCTION other(bpchar, text) RETURNS bool LANGUAGE sql AS 'SELECT true';
         CREATE OPERATOR = (LEFTARG = bpchar, RIGHTARG = text, FUNCTION = other)"
    ));
    let args = [
        "--lookup",
        "c=table:codes on code=code or insert",
        "--lookup",
        "i=table:ids on id=id or null",
        "--select",
        "name=c.name",
        "--select",
        "n=i.n",
        "--select",
        "id=",
    ];
    let output = files.load(&database, "a.csv", "ours", &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let found = database.psql("SELECT code, '<' || name || '>', n FROM ours ORDER BY 1");
    assert_eq!(found, "A|<Ann>|7\nB|<new>|");
    assert_eq!(database.psql("SELECT count(*) FROM codes"), "2");
}
