//! `fullbore runs publish`: publishes a load in parts whose last host could not.

use fullbore::Ended;
use fullbore_load::plan::Part;
use fullbore_read::error::{Error, Result};

use super::args::{LedgerArgs, PublishArgs, ResumeArgs};
use super::resume;
use super::take_back::Opened;
use crate::args::output::LogArgs;

pub fn publish(args: &PublishArgs) -> Result<Ended> {
    let id = fullbore::state::id_of(&args.run)?;
    {
        let ledger = LedgerArgs { to: args.to.clone(), ledger_schema: None };
        let opened = Opened::at(&ledger, Some(&id))?;
        let known = opened.postgres.part_of(&opened.schema, &opened.run(&id)?.run_id)?;
        let known = known.ok_or_else(|| {
            Error::usage_with_hint(
                format!("run {id} is not a part of a load by several hosts"),
                format!("`fullbore runs resume {id}` resumes and publishes it"),
            )
        })?;
        let spec = format!("{}/{}", known.number, known.of).parse().map_err(Error::usage)?;
        let part = Part { spec, whole: known.whole.into(), identity: known.identity };
        let missing = opened.postgres.parts_missing(&opened.schema, &part)?;
        if !missing.is_empty() {
            return Err(Error::usage_with_hint(
                format!("not all parts are loaded: {}", missing.join("; ")),
                "load them, or resume them with `fullbore runs resume` on their hosts",
            ));
        }
    }
    // What is left of any part is to publish them all.
    resume::resume(&ResumeArgs {
        run: id,
        to: args.to.clone(),
        streams: None,
        max_rejects: None,
        retry_for: None,
        lock_timeout: None,
        replace_anyway: false,
        verify: None,
        answer: args.answer,
        log: LogArgs::default(),
        live: None,
        silence: args.silence,
    })
}
