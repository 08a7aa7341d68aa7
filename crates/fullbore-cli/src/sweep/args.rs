//! The options of `fullbore sweep`.

use std::path::PathBuf;

use clap::Args;
use fullbore_load::job::Sample;
use fullbore_sweep::Factor;

use crate::load::LoadArgs;

const EXPERIMENT: &str = "Experiment";

/// What is varied, and how it is measured.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Option and its values; repeatable
    ///
    /// Any option of `load`: streams=1,2,4 or method=copy,direct. A setting of the sessions:
    /// set.maintenance_work_mem=64MB,1GB. Values that contain commas are separated by semicolons.
    #[arg(long, value_name = "NAME=A,B,C", required = true, help_heading = EXPERIMENT)]
    pub vary: Vec<Factor>,
    /// One change at a time, each upon those that were kept
    ///
    /// In the order of --vary. The fastest value is kept if it is certainly faster. Otherwise, every
    /// combination is measured.
    #[arg(long, help_heading = EXPERIMENT)]
    pub stepwise: bool,
    /// Value that others are compared with [default: the first]
    #[arg(long, value_name = "NAME=A", value_parser = named, help_heading = EXPERIMENT)]
    pub baseline: Vec<(String, String)>,
    /// Blocks to measure at most; each has every combination once
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000),
          help_heading = EXPERIMENT)]
    pub repeat: u32,
    /// Stop once all intervals are this narrow
    ///
    /// Half of the 95% interval of a change, after four blocks or more.
    #[arg(long, value_name = "P%", default_value = "2%", value_parser = percent, help_heading = EXPERIMENT)]
    pub precision: f64,
    /// Load a random part of the files or records
    ///
    /// 10%: of the records, in runs as long as a piece. Sources that can't be cut, such as compressed ones,
    /// are left out as a whole.
    #[arg(long, value_name = "P%", help_heading = EXPERIMENT)]
    pub sample: Option<Sample>,
    /// Drop the files from the page cache before each load
    #[arg(long, help_heading = EXPERIMENT)]
    pub cold: bool,
    /// Decides the order of loads, and the sample
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = EXPERIMENT)]
    pub seed: u64,
    /// Directory of measurements and the page [default: sweep-ID]
    ///
    /// The same command continues an experiment that was interrupted.
    #[arg(long, short, value_name = "DIR", help_heading = EXPERIMENT)]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub load: LoadArgs,
}

fn named(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, such as streams=4")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    let within = number.filter(|percent| (0.1..=50.0).contains(percent));
    within.map(|percent| percent / 100.0).ok_or_else(|| "write a share from 0.1% to 50%".to_owned())
}
