//! Shell completions and man pages, both from the command line's own definition.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use fullbore::Ended;
use fullbore_read::error::{Error, Result};

use crate::args::CommandLine;
use crate::words::complain;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory to write fullbore.1, fullbore-load.1 and so on into
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub fn completions(args: &CompletionsArgs) -> Ended {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut CommandLine::command(), "fullbore", &mut script);
    // A reader that has seen enough may close its end.
    let _ = std::io::stdout().write_all(&script);
    Ended::Loaded
}

pub fn man(args: &ManArgs) -> Ended {
    let mut command = CommandLine::command();
    command.build();
    match write_pages(&args.out, &command) {
        Ok(()) => Ended::Loaded,
        Err(error) => {
            complain(&error.to_string(), error.hint());
            Ended::Failed
        }
    }
}

/// A page for a command, and one for each of its subcommands.
fn write_pages(folder: &Path, command: &Command) -> Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let path = folder.join(format!("{name}.1"));
    let page = || {
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).title(name.clone()).render(&mut page)?;
        fs::create_dir_all(folder)?;
        fs::write(&path, page)
    };
    page().map_err(|source| Error::Write { path: path.clone(), source })?;
    command
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
        .try_for_each(|command| write_pages(folder, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_help_of_load_fits_a_screen() {
        let mut command = CommandLine::command();
        command.build();
        let load = command.find_subcommand_mut("load").expect("it is there");
        let help = load.render_help().to_string();
        assert!(help.lines().count() <= 60, "{} lines:\n{help}", help.lines().count());
    }

    #[test]
    fn every_command_has_a_page_and_every_shell_its_completions() {
        let folder = tempfile::tempdir().expect("a folder");
        let ended = man(&ManArgs { out: folder.path().to_owned() });
        assert!(matches!(ended, Ended::Loaded));
        for page in ["fullbore.1", "fullbore-load.1", "fullbore-runs-resume.1"] {
            let text = fs::read_to_string(folder.path().join(page)).expect(page);
            assert!(text.contains(".TH") && text.contains("SYNOPSIS"), "{page}");
        }
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut CommandLine::command(), "fullbore", &mut script);
            let script = String::from_utf8(script).expect("UTF-8");
            assert!(script.contains("pause-when"), "{shell}");
        }
    }
}
