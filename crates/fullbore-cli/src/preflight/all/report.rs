//! What `preflight all` found, as one JSON object or for people.

use std::io::{self, Write};
use std::path::PathBuf;

use fullbore::kept::target_of;
use fullbore_load::job::Job;
use fullbore_load::plan::Plan;
use fullbore_postgres::Server;
use fullbore_record::ceilings::{Ceiling, Ceilings, Stage};
use serde_json::json;

use super::data::{Finding, Scan};
use super::space::Space;
use crate::table::Table;
use crate::words::{Screen, bytes, complain, counted, grouped, seconds};

/// Less was measured too shortly to be sure.
const SECONDS_MIN: f64 = 0.3;

#[derive(Debug, Default)]
pub struct Report {
    /// What is loaded, where to and how, in words.
    pub about: Vec<String>,
    pub ceilings: Ceilings,
    /// The network and the server by sessions.
    pub send: Vec<Stage>,
    pub database: Vec<Stage>,
    pub is_network: bool,
    /// Share of what was read that came from the page cache.
    pub cached: Option<f64>,
    /// Source bytes of the whole job.
    pub total: u64,
    pub scan: Scan,
    pub findings: Vec<Finding>,
    pub space: Option<Space>,
    pub notes: Vec<String>,
    /// Why the server, or some number of sessions, was not measured.
    pub server_notes: Vec<String>,
    /// Why nothing is known of the server that rows go to.
    pub unmeasured: Option<String>,
    pub kept_in: Option<PathBuf>,
}

impl Report {
    /// Whether the job can't work as it is.
    pub fn stops(&self) -> bool {
        self.findings.iter().any(|finding| finding.stops)
    }

    /// Says what the plan is.
    pub fn describe(&mut self, job: &Job, plan: &Plan, server: Option<&Server>) {
        let target = target_of(job, server);
        self.about = plan
            .tables
            .iter()
            .map(|table| {
                format!(
                    "{}: {} by {} ({}) to {target}",
                    table.name,
                    counted(table.files.len() as u64, "file"),
                    table.method.name(),
                    table.method_reason
                )
            })
            .collect();
        self.notes.extend(plan.tables.iter().flat_map(|table| table.notes.clone()));
    }

    fn predicted(&self) -> Option<(f64, f64)> {
        let rate = self.ceilings.predicted().filter(|_| self.unmeasured.is_none())?;
        Some((rate, self.total as f64 / rate))
    }

    pub fn print(&self, as_json: bool) {
        if as_json {
            let _ = writeln!(io::stdout(), "{}", self.json());
        } else {
            // A reader that has gone away is no error.
            let _ = self.say(&mut Screen);
        }
        if let Some(reason) = &self.unmeasured {
            complain(
                &format!("no prediction, since the server was not measured: {reason}"),
                Some(
                    "use a role with CREATE privilege on the database, or load a part of the data",
                ),
            );
        }
        for finding in &self.findings {
            let place = match (&finding.file, finding.line, finding.byte) {
                (Some(file), Some(line), _) => format!("{file}, line {line}: "),
                (Some(file), None, Some(byte)) => format!("{file}, byte {byte}: "),
                // The message names it.
                _ => String::new(),
            };
            complain(&format!("{place}{}", finding.message), finding.hint.as_deref());
        }
    }

    fn json(&self) -> String {
        let predicted = self.predicted().map(|(rate, seconds)| {
            json!({ "bytes_per_second": rate, "seconds": seconds, "bytes": self.total })
        });
        json!({
            "works": !self.stops(),
            "findings": self.findings,
            "scan": self.scan,
            "ceilings": self.ceilings,
            "ceiling": self.ceilings.lowest().filter(|_| self.unmeasured.is_none()),
            "all": self.ceilings.all(),
            "by_sessions": { "send": self.send, "database": self.database },
            "page_cache": self.cached,
            "predicted": predicted,
            "space": self.space,
            "notes": self.notes,
            "unmeasured": self.unmeasured,
            "kept_in": self.kept_in,
        })
        .to_string()
    }

    fn say(&self, out: &mut impl Write) -> io::Result<()> {
        if let Some(reason) = &self.unmeasured {
            writeln!(out, "the server was not measured: {reason}")?;
        }
        for line in &self.about {
            writeln!(out, "{line}")?;
        }
        if self.scan.places > 0 {
            writeln!(
                out,
                "sampled {} of {}: {} in {}, {} to be checked by the server",
                counted(self.scan.places, "place"),
                counted(self.scan.files, "file"),
                counted(self.scan.rows, "row"),
                bytes(self.scan.bytes),
                counted(self.scan.odd, "row")
            )?;
        }
        if let Some(space) = &self.space
            && let Some(predicted) = space.predicted_bytes
        {
            writeln!(
                out,
                "the table will need about {}; {} has {} free",
                bytes(predicted),
                space.folder.display(),
                bytes(space.free_bytes)
            )?;
        }
        if self.ceilings.read.is_some() {
            writeln!(out)?;
            self.stages().print(out)?;
            writeln!(out)?;
            self.conclude(out)?;
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        for note in &self.server_notes {
            writeln!(out, "note: the server alone was not measured: {note}")?;
        }
        if let Some(path) = &self.kept_in {
            writeln!(out, "saved for loads of this job in {}", path.display())?;
        }
        Ok(())
    }

    fn stages(&self) -> Table {
        let head = ["alone", "sessions", "MB/s", "client CPU s/GB", "server CPU s/GB", ""];
        let mut table = Table::new(&head, 1);
        let mut add = |name: &str, stage: &Stage, said: String| {
            let said = match stage.seconds {
                ..SECONDS_MIN if said.is_empty() => "too short to be reliable".into(),
                _ => said,
            };
            table.add(vec![
                name.to_owned(),
                stage.sessions.map_or_else(String::new, |sessions| sessions.to_string()),
                grouped((stage.bytes_per_second / 1e6).round() as u64),
                format!("{:.2}", stage.client_cpu),
                match (stage.sessions, stage.server_cpu) {
                    // The server has no part in it.
                    (None, _) => String::new(),
                    (Some(_), None) => "not measured".into(),
                    (Some(_), Some(cpu)) => format!("{cpu:.2}"),
                },
                said,
            ]);
        };
        let ceilings = &self.ceilings;
        if let Some(read) = &ceilings.read {
            let cached = self.cached.map_or_else(String::new, |share| {
                format!("{:.0}% from the page cache", share * 100.0)
            });
            add("read", read, cached);
        }
        for (name, stage) in [("parse", &ceilings.parse), ("encode", &ceilings.encode)] {
            if let Some(stage) = stage {
                add(name, stage, String::new());
            }
        }
        for (name, stages) in [("send", &self.send), ("database", &self.database)] {
            stages.iter().for_each(|stage| add(name, stage, String::new()));
        }
        if let Some(trial) = &ceilings.trial {
            add("trial", trial, "a real load of a part of the job".into());
        }
        table
    }

    fn conclude(&self, out: &mut impl Write) -> io::Result<()> {
        if self.ceilings.server.is_some() && !self.is_network {
            writeln!(out, "send: a unix socket, not measured")?;
        }
        let mut ceilings = self.ceilings.all();
        ceilings.sort_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second));
        let rate = |ceiling: &Ceiling| bytes(ceiling.bytes_per_second as u64);
        let [lowest, others @ ..] = ceilings.as_slice() else { return Ok(()) };
        match self.unmeasured {
            None => {
                writeln!(out, "ceiling: {}/s, set by {}", rate(lowest), lowest.resource.words())?
            }
            Some(_) => writeln!(
                out,
                "without the server: at most {}/s, set by {}",
                rate(lowest),
                lowest.resource.words()
            )?,
        }
        let others: Vec<String> = others
            .iter()
            .map(|other| format!("{} {}/s", other.resource.name(), rate(other)))
            .collect();
        if !others.is_empty() {
            writeln!(out, "other ceilings: {}", others.join(", "))?;
        }
        if let Some((rate, time)) = self.predicted() {
            writeln!(
                out,
                "predicted: {}/s, {} for {}, plus indexes of new tables and ANALYZE",
                bytes(rate as u64),
                seconds(time),
                bytes(self.total)
            )?;
        }
        Ok(())
    }
}
