//! `--live` and `watch` at the command line; what their page shows is tested in a browser
//! (`python/tests/page`).

use crate::common::Files;

#[test]
fn a_load_says_where_it_is_shown_also_where_it_is_quiet() {
    let files = Files::new();
    let file = files.write("rows.csv", "n\n1\n2\n");
    let shown = files.fullbore(&["load", &file, "--to", "null:", "--quiet", "--live"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stderr.starts_with("live: http://127.0.0.1:"), "{}", shown.stderr);
    // An address is part of the option: what follows is a source.
    let both = files.fullbore(&["load", "--live", &file, "--to", "null:", "--quiet"]);
    assert_eq!(both.code, 0, "{}", both.stderr);
}

#[test]
fn an_address_that_cannot_be_served_is_refused_with_a_hint() {
    let files = Files::new();
    let file = files.write("rows.csv", "n\n1\n2\n");
    // The second one is nobody's: it is kept for documents.
    for (address, why) in
        [("127.0.0.1:http", "is no address to listen on"), ("192.0.2.1:0", "can't listen on")]
    {
        let option = format!("--live={address}");
        let refused = files.fullbore(&["load", &file, "--to", "null:", &option]);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
        assert!(refused.stderr.contains("hint:"), "{}", refused.stderr);
    }
}

#[test]
fn a_run_that_is_not_there_cannot_be_watched() {
    let files = Files::new();
    for run in [&["watch"][..], &["watch", "nothing"], &["watch", "../x"]] {
        let refused = files.fullbore(run);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("there is no run"), "{}", refused.stderr);
    }
}
