//! `fullbore runs report`: a run's record as a page.

use std::path::Path;

use fullbore::state::folder_of;
use fullbore_read::error::{Error, Result};
use fullbore_record::read_events;

pub fn report(run: &str, output: &Path) -> Result<()> {
    let page = fullbore_report::render(&read_events(&folder_of(run)?)?);
    std::fs::write(output, page).map_err(|source| Error::Write { path: output.to_owned(), source })
}
