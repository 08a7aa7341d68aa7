use fullbore_parse::dialect::Quotes;

use super::*;

fn cutting() -> Cutting {
    Cutting {
        every: Duration::from_secs(3600),
        bytes: 1_000_000,
        rows: None,
        is_of_lines: false,
        dialect: Dialect::csv(),
        has_header: false,
        replays: false,
    }
}

fn files(folder: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("listed")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| !path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.')))
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name.replace('0', ""), fs::read_to_string(path).expect("read"))
        })
        .collect();
    files.sort();
    files
}

fn texts(folder: &Path) -> Vec<String> {
    files(folder).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn files_end_with_whole_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = Spool::open(folder.path(), cutting()).expect("opened");
    spool.add(b"1,a\n2,\"b\nc\"\n3,\"d\n").expect("added");
    spool.cut(false).expect("cut");
    assert_eq!(texts(folder.path()), ["1,a\n2,\"b\nc\"\n"]);
    spool.add(b"e\"\n4,f").expect("added");
    spool.cut(true).expect("cut");
    assert_eq!(texts(folder.path()), ["1,a\n2,\"b\nc\"\n", "3,\"d\ne\"\n4,f"]);
}

#[test]
fn records_end_where_those_of_the_format_do() {
    let cut = |dialect: Dialect, text: &[u8]| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool =
            Spool::open(folder.path(), Cutting { dialect, ..cutting() }).expect("opened");
        // However it arrives.
        text.chunks(3).for_each(|part| spool.add(part).expect("added"));
        spool.cut(false).expect("cut");
        texts(folder.path()).concat()
    };
    let escaped = Dialect { escape: b'\\', ..Dialect::csv() };
    assert_eq!(
        cut(escaped, b"1,\"a \\\" b\"\n2,\"x\ny\"\n3,\"z\n"),
        "1,\"a \\\" b\"\n2,\"x\ny\"\n"
    );
    let tabs = Dialect { delimiter: b'\t', ..Dialect::csv() };
    assert_eq!(cut(tabs, b"1\t\"a\nb\"\n2\t\"c\n"), "1\t\"a\nb\"\n");
    let strict = Dialect { quotes: Quotes::Strict, delimiter: b';', ..Dialect::csv() };
    assert_eq!(cut(strict, b"1;5\" a\n2;\"b\nc\"\n3;\"d\n"), "1;5\" a\n2;\"b\nc\"\n");
    assert_eq!(cut(Dialect::text(), b"1\ta\\\nb\n2\tc\\\\\n3\td\\\n"), "1\ta\\\nb\n2\tc\\\\\n");
}

#[test]
fn a_record_without_an_end_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = Spool::open(folder.path(), Cutting { bytes: 4, ..cutting() }).expect("opened");
    let (to, blocks) = sync_channel(9);
    to.send(Ok(b"1,\"a\n2,b\n3,c\n4,d\n5,e\n".to_vec())).expect("sent");
    spool.begin().expect("begun");
    let error = spool.take(&blocks, &|| false).expect_err("stuck");
    assert!(error.to_string().contains("a quote may be unterminated"), "{error}");
}

#[test]
fn files_have_the_header_of_their_sender() {
    let folder = tempfile::tempdir().expect("a folder");
    let cutting = Cutting { has_header: true, ..cutting() };
    let send = |spool: &mut Spool, text: &str, stop: &Stop| {
        let (to, blocks) = sync_channel(9);
        to.send(Ok(text.as_bytes().to_vec())).expect("sent");
        drop(to);
        spool.begin().expect("begun");
        spool.take(&blocks, stop).expect("taken");
    };
    let mut spool = Spool::open(folder.path(), cutting.clone()).expect("opened");
    send(&mut spool, "id,a\n1,x\n", &|| false);
    send(&mut spool, "id,a\n2,x\n", &|| false);
    assert_eq!(texts(folder.path()), ["id,a\n1,x\n", "id,a\n2,x\n"]);
    // Others are waited for, and nothing is taken until they are loaded.
    let asked = std::sync::atomic::AtomicU32::new(0);
    let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 1;
    send(&mut spool, "a,id\ny,3\n", &stop);
    assert_eq!(texts(folder.path()).len(), 2);
    for (name, _) in fs::read_dir(folder.path())
        .expect("listed")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            (path.clone(), path.file_name().expect("a name").to_string_lossy().starts_with('.'))
        })
        .filter(|(_, is_hidden)| !is_hidden)
    {
        fs::remove_file(name).expect("removed");
    }
    send(&mut spool, "a,id\ny,3\n", &|| false);
    assert_eq!(texts(folder.path()), ["a,id\ny,3\n"]);
    drop(spool);
    // A process that ended before its file had the header that is written down.
    fs::write(current(folder.path(), 12), "id,a\n").expect("written");
    let mut spool = Spool::open(folder.path(), cutting).expect("opened");
    send(&mut spool, "a,id\nz,4\n", &|| false);
    let mut found = texts(folder.path());
    found.sort();
    assert_eq!(found, ["a,id\ny,3\n", "a,id\nz,4\n"]);
}

#[test]
fn so_many_records_are_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let cutting = Cutting { rows: Some(2), ..cutting() };
    let mut spool = Spool::open(folder.path(), cutting).expect("opened");
    let (to, blocks) = sync_channel(9);
    to.send(Ok(b"1\n2\n3\n4\n5\n6".to_vec())).expect("sent");
    drop(to);
    spool.begin().expect("begun");
    assert_eq!(spool.take(&blocks, &|| false).expect("taken"), 0);
    assert_eq!(texts(folder.path()), ["1\n2\n", "3\n4\n", "5\n6"]);
}

#[test]
fn what_an_interrupted_sender_left_of_a_record_is_not_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let cutting = Cutting { is_of_lines: true, ..cutting() };
    let mut spool = Spool::open(folder.path(), cutting.clone()).expect("opened");
    spool.add(b"1\n2,\"a\n").expect("added");
    drop(spool);
    let mut spool = Spool::open(folder.path(), cutting).expect("opened");
    let (to, blocks) = sync_channel(9);
    to.send(Ok(b"3\n4\n5".to_vec())).expect("sent");
    drop(to);
    assert_eq!(spool.begin().expect("begun"), 5);
    assert_eq!(spool.take(&blocks, &|| false).expect("taken"), 1);
    assert_eq!(texts(folder.path()), ["1\n3\n4\n"]);
}

#[test]
fn what_follows_an_interrupted_sender_stands_where_that_was_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let cutting = Cutting { is_of_lines: true, has_header: true, ..cutting() };
    let mut spool = Spool::open(folder.path(), cutting).expect("opened");
    for text in ["id,a\n1,x\n2,", "id,a\n3,y\n"] {
        spool.begin().expect("begun");
        let data = spool.without_header(text.as_bytes(), &|| false).expect("passed");
        spool.add(data.expect("not stopped")).expect("added");
    }
    spool.cut(true).expect("cut");
    assert_eq!(texts(folder.path()), ["id,a\n1,x\n3,y\n"]);
}

#[test]
fn what_a_process_left_is_gone_on_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = Spool::open(folder.path(), cutting()).expect("opened");
    spool.add(b"1\n2").expect("added");
    drop(spool);
    let mut spool = Spool::open(folder.path(), cutting()).expect("opened");
    spool.add(b"2\n").expect("added");
    spool.cut(true).expect("cut");
    assert_eq!(files(folder.path()), [("-5".to_owned(), "1\n22\n".to_owned())]);
}

#[test]
fn a_cut_that_was_not_finished_is_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = Spool::open(folder.path(), cutting()).expect("opened");
    spool.add(b"1\n2").expect("added");
    // The next file is there, and the process ends before this one is cut.
    durably(&current(folder.path(), 2), b"2").expect("made");
    drop(spool);
    let mut spool = Spool::open(folder.path(), cutting()).expect("opened");
    assert_eq!((spool.start, spool.length), (2, 1));
    spool.add(b"2\n").expect("added");
    spool.cut(true).expect("cut");
    assert_eq!(texts(folder.path()), ["1\n", "22\n"]);
}

#[test]
fn a_stream_that_is_sent_again_is_skipped_up_to_where_it_was_read() {
    for has_header in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let cutting = Cutting { has_header, ..cutting() };
        let text = b"id,v\n1,a\n2,b\n3,c\n";
        let mut spool = Spool::open(folder.path(), cutting.clone()).expect("opened");
        spool.begin().expect("begun");
        let data = spool.without_header(&text[..9], &|| false).expect("passed");
        spool.add(data.expect("not stopped")).expect("added");
        spool.cut(false).expect("cut");
        spool.add(&text[9..11]).expect("added");
        drop(spool);
        let replayed = Cutting { replays: true, ..cutting };
        let mut spool = Spool::open(folder.path(), replayed).expect("opened");
        let (to, blocks) = sync_channel(9);
        text.chunks(4).for_each(|part| to.send(Ok(part.to_vec())).expect("sent"));
        drop(to);
        spool.begin().expect("begun");
        spool.take(&blocks, &|| false).expect("taken");
        let header = if has_header { "id,v\n" } else { "" };
        assert_eq!(texts(folder.path()), ["id,v\n1,a\n", &format!("{header}2,b\n3,c\n")]);
    }
}
