//! The ceilings of jobs, as they were measured last.

use std::path::{Path, PathBuf};

use fullbore_load::job::Job;
use fullbore_load::plan::Plan;
use fullbore_postgres::Server;
use fullbore_read::error::{Error, Result};
use fullbore_record::ceilings::{Ceilings, Used};

use crate::kept::{self, cores, machine, target_of};

const KIND: &str = "ceilings";

/// Keeps what was measured in place of what was measured there before; where.
pub fn keep(measured: &Ceilings) -> Result<PathBuf> {
    let is_same = |known: &Ceilings| is_same_place(known, measured);
    kept::keep(KIND, &measured.job, measured.clone(), is_same)
}

fn is_same_place(a: &Ceilings, b: &Ceilings) -> bool {
    (&a.target, &a.machine) == (&b.target, &b.machine)
}

/// The ceilings of a load: those of a file that is named, else those that were measured last for this
/// job, server and machine. They hold only for the methods and settings that they were measured with.
pub fn of(
    job: &Job,
    server: Option<&Server>,
    plan: &Plan,
    named: Option<&Path>,
) -> Result<Option<Ceilings>> {
    if let Some(file) = named {
        let ceilings = read(file)?;
        if let Some(difference) = difference(&ceilings, plan) {
            return Err(Error::usage_with_hint(
                format!("--ceilings {}: {difference}", file.display()),
                "measure this job with `fullbore preflight all`, or omit --ceilings",
            ));
        }
        return Ok(Some(ceilings));
    }
    let all: Vec<Ceilings> = kept::all(KIND, &job.identity()?)?;
    let here =
        Ceilings { target: target_of(job, server), machine: machine(), ..Ceilings::default() };
    let found = all.into_iter().find(|known| is_same_place(known, &here));
    Ok(found.filter(|known| known.cores == cores() && difference(known, plan).is_none()))
}

/// Reads ceilings, or the report that has them in it.
fn read(file: &Path) -> Result<Ceilings> {
    let text =
        std::fs::read(file).map_err(|source| Error::Read { path: file.to_path_buf(), source })?;
    let wrong = |error: serde_json::Error| {
        Error::usage_with_hint(
            format!("--ceilings {}: {error}", file.display()),
            "name a file that `fullbore preflight all ... --json` wrote",
        )
    };
    let mut value: serde_json::Value = serde_json::from_slice(&text).map_err(wrong)?;
    let inner = value.get_mut("ceilings").map(serde_json::Value::take);
    serde_json::from_value(inner.unwrap_or(value)).map_err(wrong)
}

/// Why ceilings don't hold for a plan.
fn difference(ceilings: &Ceilings, plan: &Plan) -> Option<String> {
    if ceilings.tables.len() != plan.tables.len() {
        return Some(format!(
            "they are of {} tables, and the job has {}",
            ceilings.tables.len(),
            plan.tables.len()
        ));
    }
    let now = plan.used();
    if let Some(then) = ceilings.used.filter(|then| *then != now) {
        let words = |used: Used| {
            let Used { streams, parsers, codec } = used;
            format!("--streams {streams} --parsers {parsers} --compress {}", codec.name())
        };
        return Some(format!("they were measured with {}, this is {}", words(then), words(now)));
    }
    let pairs = ceilings.tables.iter().zip(&plan.tables);
    pairs
        .filter(|(then, now)| then.method != now.method)
        .map(|(then, now)| {
            format!(
                "they were measured by method {}, and {} is loaded by {}",
                then.method.name(),
                now.name,
                now.method.name()
            )
        })
        .next()
}
