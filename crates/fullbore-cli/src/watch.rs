//! The live page: `fullbore watch`, and `--live` of a load.

use std::path::Path;
use std::sync::atomic::Ordering;

use clap::Args;
use fullbore::Ended;
use fullbore::state::folder_of;
use fullbore_read::error::{Error, Result};
use fullbore_report::live::{self, Live};

use crate::args::values::HERE;
use crate::load::signals::{INTERRUPTED, listen_for_signals};
use crate::words::complain;

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Run id [default: the newest run]
    #[arg(default_value = "last", hide_default_value = true)]
    run: String,
    /// Address of the page, and its port if it should not be any free one
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = HERE)]
    listen: String,
}

/// Shows a run until it is interrupted.
pub fn run(args: &WatchArgs) -> Ended {
    let opened = folder_of(&args.run).and_then(|folder| open(&args.listen, &folder));
    match opened {
        Ok(live) => {
            tell!("ends with Ctrl-C");
            listen_for_signals();
            live.serve_until(|| INTERRUPTED.load(Ordering::Relaxed));
            Ended::Loaded
        }
        Err(error) => {
            complain(&error.to_string(), error.hint());
            Ended::Usage
        }
    }
}

/// Begins to serve a run's page, and says where.
pub fn open(listen: &str, run_dir: &Path) -> Result<Live> {
    let live = Live::start(listen, run_dir).map_err(refusal)?;
    // Also where nothing else is to be said: without it the page can't be found.
    tell!("live: {}", live.url());
    if live.is_open() {
        tell!(
            "  anyone with this URL can see names, settings and messages of the run; they are sent \
             unencrypted"
        );
    }
    Ok(live)
}

fn refusal(error: live::Error) -> Error {
    match error {
        live::Error::Record(error) => error,
        error => Error::Usage { message: error.to_string(), hint: error.hint().map(str::to_owned) },
    }
}
