//! The `fullbore` command: flags and glue, and the only crate that prints.
//!
//! stdout carries data (`--json`, `plan`, `runs`), stderr talks to people. Exit codes are in
//! [`Ended`].

#[macro_use]
mod words;

mod args;
mod extension;
mod generate;
mod ingest;
mod limit_now;
mod load;
mod log_file;
mod manual;
mod orphans;
mod preflight;
mod progress;
#[cfg(test)]
mod reference;
mod runs;
mod scratch;
mod server;
mod summary;
mod sweep;
mod table;
mod watch;

use std::process::ExitCode;

use clap::Parser;
use fullbore::Ended;

use args::{Command, CommandLine};

fn main() -> ExitCode {
    keep_freed_memory();
    let command_line = match CommandLine::try_parse() {
        Ok(command_line) => command_line,
        Err(error) => {
            // Help and version are no errors; they go to stdout.
            let _ = error.print();
            return if error.use_stderr() { Ended::Usage.into() } else { Ended::Loaded.into() };
        }
    };
    let ended = match command_line.command {
        Command::Load(args) => load::run(&args),
        Command::Plan(args) => load::plan(&args),
        Command::Ingest(args) => ingest::run(&args),
        Command::Gen(args) => match generate::run(&args) {
            Ok(()) => Ended::Loaded,
            Err(error) => {
                let ended = if error.is_usage() { Ended::Usage } else { Ended::Failed };
                words::complain(&error.to_string(), error.hint());
                ended
            }
        },
        Command::Server(args) => server::run(&args),
        Command::Extension(args) => extension::run(&args),
        Command::Psql(args) => server::psql(&args),
        Command::Runs(args) => runs::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Preflight(args) => preflight::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
    };
    words::ended(ended).into()
}

/// Tells the allocator to keep what is freed: buffers of a few hundred KiB come and go with every
/// batch, and giving them back to the kernel costs a page fault for each page of them (measured:
/// 0.1 CPU s/GB).
fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt only sets parameters; it is called before any other thread exists.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
        libc::mallopt(libc::M_ARENA_MAX, 16);
    }
}
