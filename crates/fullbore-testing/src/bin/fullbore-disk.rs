//! A slow disk for scripts: mounts a folder's files in another one, and stands until its standard input ends.
//!
//! `fullbore-disk FOLDER MOUNTED MB_PER_S [LATENCY_MS [ARMS [WORSE_FROM [WORSE_TIMES]]]]`: from the part `WORSE_FROM`
//! of each file on, requests take `WORSE_TIMES` as long.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fullbore_testing::disk::{Disk, DiskOptions};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Option<Vec<f64>> = args.iter().skip(2).map(|arg| arg.parse().ok()).collect();
    let Some(numbers) = numbers.filter(|numbers| (1..=5).contains(&numbers.len())) else {
        eprintln!(
            "usage: fullbore-disk FOLDER MOUNTED MB_PER_S [LATENCY_MS [ARMS [WORSE_FROM [WORSE_TIMES]]]]"
        );
        return ExitCode::from(2);
    };
    let at = |index: usize, default: f64| numbers.get(index).copied().unwrap_or(default);
    let default = DiskOptions::default();
    let options = DiskOptions {
        bytes_per_second: numbers[0] * 1e6,
        latency: Duration::from_secs_f64(at(1, 0.1) / 1e3),
        arms: at(2, 1.0) as usize,
        worse_from: at(3, default.worse_from),
        worse_times: at(4, default.worse_times),
    };
    let disk = match Disk::mount(Path::new(&args[0]), Path::new(&args[1]), options) {
        Ok(disk) => disk,
        Err(error) => {
            eprintln!("{}: {error}", args[1]);
            return ExitCode::FAILURE;
        }
    };
    println!("mounted");
    let _ = io::stdout().flush();
    let _ = io::stdin().read_to_end(&mut Vec::new());
    drop(disk);
    ExitCode::SUCCESS
}
