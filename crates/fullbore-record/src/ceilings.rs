//! Ceilings: what each part of a load's way can do alone, and what that allows the load.
//!
//! They are measured before a load (`fullbore preflight all`); a run that knows them says how much of
//! them it achieved. Parts that share processors compose: the processors over the CPU seconds that a
//! gigabyte takes in all of them. Of the rest the smallest counts. All rates are of source bytes, after
//! decompression.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnose::Limit;
use crate::terms::{Compress, Method};

const GIGABYTE: f64 = 1e9;

/// One part of the way, measured alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// Of source.
    pub bytes_per_second: f64,
    /// CPU seconds of this process for a gigabyte of source.
    pub client_cpu: f64,
    /// The same of the server, where it is on this machine.
    #[serde(default)]
    pub server_cpu: Option<f64>,
    /// Sessions side by side, where there are any.
    #[serde(default)]
    pub sessions: Option<usize>,
    /// How much was measured.
    pub bytes: u64,
    pub seconds: f64,
}

/// How a table's rows were sent when it was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredTable {
    pub name: String,
    pub method: Method,
}

/// What can hold a load back, as far as it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Reading the sources.
    Read,
    /// Parsing and encoding by the threads that the job has.
    Encode,
    /// The processors of this machine, for all that runs on it.
    Cpu,
    /// The network to the server.
    Send,
    /// The server, fed with rows that are ready.
    Database,
}

impl Resource {
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Encode => "encode",
            Self::Cpu => "cpu",
            Self::Send => "send",
            Self::Database => "database",
        }
    }

    /// In words, to follow "limited by".
    pub fn words(self) -> &'static str {
        match self {
            Self::Read => "reading the source",
            Self::Encode => "parsing and encoding",
            Self::Cpu => "this machine's processors",
            Self::Send => "the network to the server",
            Self::Database => "the server",
        }
    }
}

/// Bytes in words, for sentences made where nothing is printed.
pub fn size_words(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes >= 1e12 => format!("{:.1} TB", bytes / 1e12),
        bytes if bytes >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        bytes if bytes >= 1e6 => format!("{:.0} MB", bytes / 1e6),
        bytes => format!("{:.0} kB", (bytes / 1e3).max(1.0)),
    }
}

/// A resource and the rate that it allows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    pub resource: Resource,
    pub bytes_per_second: f64,
}

/// Settings that ceilings depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Used {
    pub streams: usize,
    pub parsers: usize,
    pub codec: Compress,
}

/// All ceilings of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceilings {
    pub measured_unix_ms: u64,
    pub fullbore: String,
    /// The job's hash, the way to its server without a password, and this machine's name.
    pub job: String,
    pub target: String,
    pub machine: String,
    pub server: Option<String>,
    pub tables: Vec<MeasuredTable>,
    /// How they were sent; none in ceilings of earlier versions.
    #[serde(default)]
    pub used: Option<Used>,
    /// Processors of this machine.
    pub cores: usize,
    /// The server shares them.
    pub server_is_here: bool,
    pub read: Option<Stage>,
    /// Reading and parsing.
    pub parse: Option<Stage>,
    /// Reading, parsing and encoding.
    pub encode: Option<Stage>,
    pub send: Option<Stage>,
    pub database: Option<Stage>,
    /// A part of the job, loaded in earnest with the job's own settings.
    pub trial: Option<Stage>,
}

impl Ceilings {
    /// The rates that the resources allow, in the order of the way.
    pub fn all(&self) -> Vec<Ceiling> {
        self.lifting(None)
    }

    /// The smallest of them: what the load can't pass.
    pub fn lowest(&self) -> Option<Ceiling> {
        self.smallest(self.all())
    }

    /// What a load may be expected to do: what the trial did, which no ceiling is below.
    pub fn predicted(&self) -> Option<f64> {
        let ceiling = self.lowest()?.bytes_per_second;
        Some(self.trial.as_ref().map_or(ceiling, |trial| trial.bytes_per_second))
    }

    /// The ceiling that would be left if a limit were mended: what it has a part in is lifted.
    pub fn without(&self, limit: Limit) -> Option<Ceiling> {
        self.smallest(self.lifting(Some(limit)))
    }

    fn lifting(&self, mended: Option<Limit>) -> Vec<Ceiling> {
        use Limit::{
            ClientCpu, Congestion, DatabaseCpu, DatabaseDisk, ExtensionLock, FlowCap, LockWait,
            ReadDepth, ReceiveCap, SendWindow, SourceDisk, Wal,
        };
        let is = |limits: &[Limit]| mended.is_some_and(|limit| limits.contains(&limit));
        let of = |resource, stage: &Option<Stage>| {
            let rate = stage.as_ref().map(|stage| stage.bytes_per_second);
            rate.map(|bytes_per_second| Ceiling { resource, bytes_per_second })
        };
        let (mends_client, mends_server) = (is(&[ClientCpu]), is(&[DatabaseCpu]));
        let mut all = Vec::new();
        if !is(&[SourceDisk, ReadDepth]) {
            all.extend(of(Resource::Read, &self.read));
        }
        if !mends_client {
            all.extend(of(Resource::Encode, &self.encode));
        }
        all.extend(self.processors(!mends_client, !mends_server));
        if !is(&[SendWindow, ReceiveCap, Congestion, FlowCap]) {
            all.extend(of(Resource::Send, &self.send));
        }
        if !is(&[DatabaseCpu, Wal, DatabaseDisk, ExtensionLock, LockWait]) {
            all.extend(of(Resource::Database, &self.database));
        }
        all
    }

    /// The smallest of ceilings, but at least what the trial did: what all parts did together, each of
    /// them can do.
    fn smallest(&self, all: Vec<Ceiling>) -> Option<Ceiling> {
        let lowest =
            all.into_iter().min_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))?;
        let trial = self.trial.as_ref().map_or(0.0, |trial| trial.bytes_per_second);
        Some(Ceiling { bytes_per_second: lowest.bytes_per_second.max(trial), ..lowest })
    }

    /// What the processors of this machine allow to all that runs on it.
    fn processors(&self, client: bool, server: bool) -> Option<Ceiling> {
        let (encode, database) = (self.encode.as_ref(), self.database.as_ref());
        let mut cpu = 0.0;
        if client {
            cpu += encode.map_or(0.0, |stage| stage.client_cpu);
            cpu += database.map_or(0.0, |stage| stage.client_cpu);
        }
        if server && self.server_is_here {
            cpu += database.and_then(|stage| stage.server_cpu).unwrap_or(0.0);
        }
        let rate = self.cores as f64 / cpu * GIGABYTE;
        (cpu > 0.0).then_some(Ceiling { resource: Resource::Cpu, bytes_per_second: rate })
    }

    /// How much of the ceiling a run achieved: by its source bytes a second, while its rows moved.
    pub fn achieved(&self, bytes_per_second: f64) -> Option<Achieved> {
        let ceiling = self.lowest().filter(|ceiling| ceiling.bytes_per_second > 0.0)?;
        Some(Achieved {
            bytes_per_second,
            ceiling,
            over_ceiling: bytes_per_second / ceiling.bytes_per_second,
        })
    }
}

/// The rate of a run, compared with its ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Achieved {
    /// Source bytes while rows moved.
    pub bytes_per_second: f64,
    pub ceiling: Ceiling,
    pub over_ceiling: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(megabytes: f64, client_cpu: f64, server_cpu: Option<f64>) -> Option<Stage> {
        let bytes_per_second = megabytes * 1e6;
        Some(Stage { bytes_per_second, client_cpu, server_cpu, ..Stage::default() })
    }

    /// Two processors for everything: 1.0 s/GB to encode, 0.5 to send, 2.5 at the server.
    fn shared() -> Ceilings {
        Ceilings {
            cores: 2,
            server_is_here: true,
            read: stage(3000.0, 0.2, None),
            encode: stage(1900.0, 1.0, None),
            database: stage(800.0, 0.5, Some(2.5)),
            ..Ceilings::default()
        }
    }

    fn megabytes(ceiling: Option<Ceiling>) -> (Resource, f64) {
        let ceiling = ceiling.expect("one");
        (ceiling.resource, (ceiling.bytes_per_second / 1e6).round())
    }

    #[test]
    fn what_shares_processors_composes_and_of_the_rest_the_smallest_counts() {
        let mut ceilings = shared();
        assert_eq!(megabytes(ceilings.lowest()), (Resource::Cpu, 500.0));
        // A server elsewhere has processors of its own.
        ceilings.server_is_here = false;
        assert_eq!(megabytes(ceilings.lowest()), (Resource::Database, 800.0));
        ceilings.send = stage(117.0, 0.1, None);
        assert_eq!(megabytes(ceilings.lowest()), (Resource::Send, 117.0));
        assert_eq!(Ceilings::default().lowest(), None);
    }

    #[test]
    fn a_limit_that_is_mended_leaves_the_next_ceiling() {
        let ceilings = Ceilings { database: stage(700.0, 0.5, Some(2.5)), ..shared() };
        // Without the server's 2.5 s/GB the processors allow 2 / 1.5.
        assert_eq!(megabytes(shared().without(Limit::DatabaseCpu)), (Resource::Cpu, 1333.0));
        assert_eq!(megabytes(ceilings.without(Limit::ClientCpu)), (Resource::Database, 700.0));
        // Waits cost no CPU: the processors stay as they are.
        assert_eq!(megabytes(ceilings.without(Limit::Wal)), (Resource::Cpu, 500.0));
        assert_eq!(megabytes(ceilings.without(Limit::TooFewStreams)), (Resource::Cpu, 500.0));
    }

    #[test]
    fn a_trial_predicts_and_no_ceiling_is_below_it() {
        let mut ceilings = shared();
        let predicted = |ceilings: &Ceilings| ceilings.predicted().map(|rate| rate / 1e6);
        assert_eq!(predicted(&ceilings), Some(500.0));
        ceilings.trial = stage(430.0, 1.5, Some(2.6));
        assert_eq!(predicted(&ceilings), Some(430.0));
        assert_eq!(megabytes(ceilings.lowest()), (Resource::Cpu, 500.0));
        ceilings.trial = stage(530.0, 1.5, Some(2.0));
        assert_eq!(predicted(&ceilings), Some(530.0));
        assert_eq!(megabytes(ceilings.lowest()), (Resource::Cpu, 530.0));
    }

    #[test]
    fn a_rate_is_held_against_the_lowest_ceiling() {
        let achieved = shared().achieved(4e8).expect("known");
        assert_eq!((achieved.bytes_per_second, achieved.over_ceiling), (4e8, 0.8));
    }

    /// With serde_json's fast reading of numbers one in some is another number in its last bit.
    #[test]
    fn figures_are_read_back_as_they_were_written() {
        for bits in (0..10_000_u64).map(|n| (85e6_f64 + n as f64).to_bits() + n * 7919) {
            let stage = Stage { bytes_per_second: f64::from_bits(bits) / 3.0, ..Stage::default() };
            let text = serde_json::to_string(&stage).expect("plain data becomes JSON");
            assert_eq!(serde_json::from_str::<Stage>(&text).expect("as written"), stage);
        }
    }
}
