//! `fullbore preflight` as people run it.

mod all;
mod copies;
mod db;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use fullbore_testing::{Output, fullbore_command, output_of, run_fullbore, skip};
use serde_json::Value;

/// A folder with direct I/O, or none.
fn folder() -> Option<tempfile::TempDir> {
    let folder = tempfile::TempDir::new().expect("a folder");
    let output = disk(&folder, &["--block", "64k", "--depth", "1", "--json"]);
    if output.stderr.contains("has no direct I/O") { None } else { Some(folder) }
}

fn disk(folder: &tempfile::TempDir, more: &[&str]) -> Output {
    let path = folder.path().to_str().expect("a plain name");
    run_fullbore(
        &[&["preflight", "disk", path, "--size", "16M", "--seconds", "0.05"], more].concat(),
    )
}

fn json(output: &Output) -> Value {
    assert_eq!(output.code, 0, "{}", output.stderr);
    serde_json::from_str(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", output.stdout))
}

fn is_empty(folder: &tempfile::TempDir) -> bool {
    std::fs::read_dir(folder.path()).expect("it is there").next().is_none()
}

#[test]
fn disk_prints_a_matrix_with_its_knee() {
    let Some(folder) = folder() else { skip!("no direct I/O in the folder for temporary files") };
    let output = disk(&folder, &["--block", "64k,1M", "--depth", "1,4"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    for text in ["p99 us", "CPU s/GB", "knee: ", "\nread ", "\nwrite ", "first written at "] {
        assert!(output.stdout.contains(text), "{text}: {}", output.stdout);
    }
    let report = json(&disk(&folder, &["--block", "64k", "--depth", "1,4", "--json", "--read"]));
    assert_eq!(report["cells"].as_array().expect("cells").len(), 2);
    assert!(report["cells"][0]["bytes_per_second"].as_f64().expect("a rate") > 0.0);
    assert!(is_empty(&folder));
}

#[test]
fn a_killed_disk_probe_leaves_nothing() {
    let Some(folder) = folder() else { skip!("no direct I/O in the folder for temporary files") };
    let mut command = fullbore_command();
    command.args(["preflight", "disk"]).arg(folder.path());
    command.args(["--size", "16M", "--seconds", "0.2", "--depth", "1"]);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
    // The first setting is measured, so there is a scratch file.
    let mut line = String::new();
    BufReader::new(child.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
    assert!(line.starts_with("read "), "{line}");
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
    assert!(is_empty(&folder));
}

/// Takes io_uring away from a process, as the profiles of containers do.
fn without_io_uring() -> std::io::Result<()> {
    let number = libc::SYS_io_uring_setup as u32;
    let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, refused),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter is four statements of ours, which the kernel copies.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn threads_do_where_io_uring_is_forbidden() {
    let Some(folder) = folder() else { skip!("no direct I/O in the folder for temporary files") };
    let probe = |engine: &str| {
        let mut command = fullbore_command();
        command.args(["preflight", "disk"]).arg(folder.path()).args(["--engine", engine]);
        command.args(["--size", "16M", "--seconds", "0.05", "--block", "64k", "--depth", "4"]);
        command.arg("--json");
        // SAFETY: between fork and exec, it makes system calls only.
        unsafe { command.pre_exec(without_io_uring) };
        output_of(command)
    };
    let report = json(&probe("auto"));
    assert_eq!(report["engine"], "threads");
    let reason = report["engine_reason"].as_str().expect("a reason");
    assert!(reason.contains("not permitted"), "{reason}");
    assert_eq!(report["cells"].as_array().expect("cells").len(), 2);
    let output = probe("io_uring");
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("--engine threads"), "{}", output.stderr);
}

#[test]
fn what_can_t_be_measured_is_said_with_the_option() {
    let folder = tempfile::TempDir::new().expect("a folder");
    for (more, code, text) in [
        (&["--size", "900T"][..], 2, "--size"),
        (&["--block", "1000"], 2, "--block"),
        (&["--depth", "0"], 2, "--depth"),
        (&["--read", "--write"], 2, "cannot be used with"),
        (&["--block", "ten"], 2, "64k, 1M"),
    ] {
        let path = folder.path().to_str().expect("a plain name");
        let output = run_fullbore(&[&["preflight", "disk", path], more].concat());
        assert_eq!(output.code, code, "{more:?}: {}", output.stderr);
        assert!(output.stderr.contains(text), "{more:?}: {}", output.stderr);
    }
    let output = run_fullbore(&["preflight", "disk", "/no/such/path"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("/no/such/path"), "{}", output.stderr);
}

/// A listener of its own port and token.
struct Listening {
    child: Child,
    address: String,
    token: String,
}

fn listen() -> Listening {
    let mut command = fullbore_command();
    command.args(["preflight", "net", "--listen", "127.0.0.1:0", "--once", "--for", "60"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut word = |before: &str, number: usize| {
        let line = lines.next().expect("a line").expect("text");
        assert!(line.starts_with(before), "{line}");
        line.split_whitespace().nth(number).expect("a word").to_owned()
    };
    let (address, token) = (word("listening on ", 2), word("token ", 1));
    Listening { child, address, token }
}

fn send(listening: &Listening, token: Option<&str>, more: &[&str]) -> Output {
    let mut command = fullbore_command();
    command.env_remove("FULLBORE_PREFLIGHT_TOKEN");
    if let Some(token) = token {
        command.env("FULLBORE_PREFLIGHT_TOKEN", token);
    }
    command.args(["preflight", "net", &listening.address, "--seconds", "0.5", "--streams", "1,2"]);
    command.args(more);
    output_of(command)
}

#[test]
fn net_tells_of_both_ends() {
    let mut listening = listen();
    let output = send(&listening, None, &[]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("--token-file"), "{}", output.stderr);
    let wrong = "0123456789abcdef0123456789abcdef";
    let output = send(&listening, Some(wrong), &[]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("refuses the token"), "{}", output.stderr);
    assert!(!output.stderr.contains(wrong));

    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), format!("{}\n", listening.token)).expect("written");
    let path = file.path().to_str().expect("a plain name");
    let output = send(&listening, None, &["--token-file", path, "--target-rate", "1Mb/s"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    for text in ["round trip", "tcp_rmem", "at most", "knee: ", "each stream", "it was reached"] {
        assert!(output.stdout.contains(text), "{text}: {}", output.stdout);
    }
    assert!(listening.child.wait().expect("it has ended").success());
    let mut said = String::new();
    let stderr = listening.child.stderr.as_mut().expect("piped");
    stderr.read_to_string(&mut said).expect("text");
    assert!(said.contains("finished a measurement") && said.contains("refused"), "{said}");
    assert!(!said.contains(&listening.token), "{said}");
}

#[test]
fn net_as_json() {
    let mut listening = listen();
    let token = listening.token.clone();
    let report = json(&send(&listening, Some(&token), &["--json", "--window", "auto,256k"]));
    assert_eq!(report["cells"].as_array().expect("cells").len(), 4);
    assert_eq!(report["caps"].as_array().expect("caps").len(), 2);
    let stream = &report["cells"][0]["each"][0];
    assert!(stream["bytes_per_second"].as_f64().expect("a rate") > 0.0);
    assert!(!report.to_string().contains(&token));
    listening.child.wait().expect("it has ended");
}
