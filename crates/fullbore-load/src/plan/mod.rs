//! The plan: all decisions of a run, made in advance and printable.
//!
//! [`assemble`] runs the steps and returns a [`Draft`]; with the ledger's data it becomes the final
//! [`Plan`]. The steps: [`look`] samples the sources and finds their format; [`header`] decides what the
//! first line is; [`streams`] counts sessions; [`columns`] maps fields to columns; [`pieces`] cuts the work; [`keys`] reads keys, and
//! [`partitions`] forms the pieces that become partitions; [`lineage`] adds the origin of rows; [`infer`]
//! proposes a schema; [`transform`] computes columns by expressions; [`recorded`] is the part of a plan that a resume needs.

pub mod applied;
pub mod assemble;
pub mod columns;
mod controls;
mod draft;
mod format;
pub mod header;
pub mod infer;
pub mod key_end;
pub mod keys;
pub mod lineage;
pub mod look;
mod names;
pub mod partitions;
pub mod pieces;
pub mod recorded;
mod schema;
mod stored;
pub mod streams;
#[cfg(feature = "transform")]
pub mod transform;
#[cfg(not(feature = "transform"))]
#[path = "transform_off.rs"]
pub mod transform;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fullbore_parse::Lane;
use fullbore_parse::types::{ParseColumn, ParseShape};
use fullbore_read::{FileRange, SourceFile};
use fullbore_record::ceilings::{Ceilings, Used};
use fullbore_record::terms::{Compress, Method, Publish, Stage, Statistics, Verify};
use serde::{Deserialize, Serialize};

use crate::TargetColumn;
use crate::job::control::Control;
use crate::job::{MaxRate, Placement};
use crate::job::{OtherWriters, PartSpec, PauseWhen, RejectLimit, Staged, Upsert};
use crate::run_id::RunId;
pub use draft::{Completion, Draft, Planned};
pub use format::Format;
pub use key_end::KeyEnd;

/// What a run will do.
#[derive(Debug)]
pub struct Plan {
    pub run_id: String,
    pub tables: Vec<TablePlan>,
    /// All tables' pieces, in the order in which they are given out.
    pub pieces: Vec<PlannedPiece>,
    pub streams: usize,
    pub parsers: usize,
    /// How these numbers may change while it runs; none where they are fixed.
    pub tuning: Option<Tuning>,
    /// What all streams together may send.
    pub max_rate: Option<MaxRate>,
    pub max_rejects: RejectLimit,
    pub max_field_bytes: usize,
    /// The run's own folder: its record, its spools, its rejects.
    pub run_dir: PathBuf,
    /// Where rejected rows are written.
    pub reject_dir: PathBuf,
    /// Tables are loaded side by side rather than one after the other.
    pub tables_at_once: bool,
    pub continuity: Continuity,
    /// How much of what is loaded is compared with what was read.
    pub verify: Verify,
    /// The memory nodes that threads run on.
    pub placement: Placement,
    /// Others have the network first.
    pub is_polite: bool,
    /// How rows are packed on their way.
    pub compress: Compress,
    /// Who makes statistics of what is loaded.
    pub statistics: Statistics,
    /// What its way can do, where that was measured before.
    pub ceilings: Option<Ceilings>,
    /// Where rows go, as people call it and without a password.
    pub destination: String,
}

impl Plan {
    /// Whether its sources are gone with this process, so that no other can resume the run.
    pub fn ends_with_process(&self) -> bool {
        self.tables.iter().flat_map(|table| &table.files).any(|file| file.arrow.is_some())
    }

    /// The streams that it begins with.
    pub fn begins_with(&self) -> usize {
        self.tuning.map_or(self.streams, |tuning| tuning.first)
    }

    /// The settings that ceilings depend on.
    pub fn used(&self) -> Used {
        Used { streams: self.streams, parsers: self.parsers, codec: self.compress }
    }

    /// The id that names what the run shares with the other parts of its load, if there are any.
    pub fn shared_id(&self) -> &str {
        self.continuity.part.as_ref().map_or(&self.run_id, |part| &part.whole)
    }
}

/// How the number of streams may change while a run loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// What the run begins with.
    pub first: usize,
    pub first_parsers: usize,
    pub most: usize,
    /// The number of parsers may change too.
    pub parsers: bool,
    /// An earlier run of the job has settled on the first number.
    pub is_known: bool,
}

/// What may end a run and how it goes on then.
#[derive(Debug, Clone, Default)]
pub struct Continuity {
    /// The destination keeps a ledger of its pieces.
    pub is_resumable: bool,
    /// Why there is none, where there is none.
    pub reason: String,
    /// It is the server that let none be kept, not the job.
    pub is_unkept: bool,
    /// The run was begun before, and goes on.
    pub resumes: bool,
    /// What is committed is kept also where the data or the job made the run fail.
    pub keeps: bool,
    /// How long a server that is gone is waited for.
    pub patience: Duration,
    /// Which share of the load this host has, where several load together.
    pub part: Option<Part>,
    /// What tasks of an engine have staged for it to publish.
    pub staged: Vec<Staged>,
    /// The write that staged it.
    pub write: Option<RunId>,
    /// Limits at which it holds still.
    pub pause_when: Option<PauseWhen>,
    /// How long one attempt waits for a lock that others hold; zero: without bound.
    pub lock_timeout: Duration,
    /// What is done about rows that others write to a table that is being replaced.
    pub other_writers: OtherWriters,
}

/// A share of a load that several hosts have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub spec: PartSpec,
    /// What all parts share in the destination is named by this.
    pub whole: String,
    /// The hash of what their jobs have in common.
    pub identity: String,
}

/// What happens to one table.
#[derive(Debug)]
pub struct TablePlan {
    /// The target's name as people write it.
    pub name: String,
    pub files: Vec<Arc<SourceFile>>,
    pub format: Format,
    /// What a record is made of and where its fields go.
    pub shape: Arc<ParseShape>,
    /// As `shape`, every column as text.
    pub text_shape: Arc<ParseShape>,
    pub lane: Lane,
    /// Why the table goes as text, where it does.
    pub lane_reason: Option<String>,
    /// How rows enter the destination; never `Auto`.
    pub method: Method,
    /// Why that way.
    pub method_reason: String,
    pub publish: Publish,
    /// How its rows are merged with those of the target, where they are.
    pub upsert: Option<Upsert>,
    pub columns: Vec<TargetColumn>,
    /// Bytes of source, where known.
    pub bytes: Option<u64>,
    /// Pieces of `piece_bytes` are taken from the streams of this table until they end.
    pub piece_bytes: u64,
    /// Where else its files can be cut than between pieces, where that was found on the way.
    pub joints: pieces::Joints,
    /// One session only can fill it, so its sources make one piece.
    pub is_joined: bool,
    /// The header line, where the source has one.
    pub header_line: Option<Vec<u8>>,
    /// What its last columns say of its rows; no field stands behind these.
    pub lineage: lineage::Lineage,
    /// What is made of what is read, where that is not what is sent.
    pub transform: Option<Arc<transform::apply::Transform>>,
    /// What its rows should amount to.
    pub controls: Vec<Control>,
    /// Append in one transaction.
    pub is_atomic: bool,
    /// Columns that can't be NULL, by their places among those that are sent, in the target's order;
    /// none where the destination may fill them in.
    pub not_null: Vec<usize>,
    /// The target asks something of its rows beyond their types.
    pub is_constrained: bool,
    /// The table that is replaced is kept.
    pub keeps_old: bool,
    /// Bytes that are read to count its rows in the end, where that is done.
    pub count_bytes: Option<u64>,
    /// Options that decide what is loaded beyond the rest of this, as they were given.
    pub asked: BTreeMap<String, String>,
    /// Columns whose nanoseconds are rounded to microseconds.
    pub rounded: Vec<String>,
    /// What the sniffer and the planner want to be known.
    pub notes: Vec<String>,
    /// Why columns were inferred as they were.
    pub schema_notes: Vec<String>,
    /// Columns whose types were inferred, with the types' names: what does not fit one of them may
    /// be a wrong guess rather than a wrong value.
    pub inferred: BTreeMap<String, String>,
}

/// A piece: the unit of commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedPiece {
    /// Its number within the run, from 0.
    pub number: usize,
    pub table: usize,
    pub input: PieceInput,
    /// Bytes of source, where known.
    pub bytes: u64,
    /// The key range, for pieces that become partitions.
    pub bounds: Option<KeyBounds>,
}

/// Where a piece's rows come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PieceInput {
    /// Ranges of text, cut at record boundaries. A file that can only be read from its beginning
    /// is read up to them; its bytes are those after decompression.
    Ranges(Vec<FileRange>),
    /// A share of a file that can only be read from its beginning.
    Stream { file: usize },
    /// Rows of Parquet files; `start` and `end` count rows.
    Rows(Vec<FileRange>),
}

impl PieceInput {
    /// The ranges that it is made of; none of a file that is read on.
    pub fn ranges(&self) -> Option<&[FileRange]> {
        match self {
            Self::Stream { .. } => None,
            Self::Ranges(ranges) | Self::Rows(ranges) => Some(ranges),
        }
    }

    /// The file that it is from, or the first of them.
    pub fn first_file(&self) -> Option<usize> {
        match self {
            Self::Stream { file } => Some(*file),
            Self::Ranges(ranges) | Self::Rows(ranges) => Some(ranges.first()?.file),
        }
    }
}

/// The key range of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyBounds {
    pub lower: KeyEnd,
    /// Exclusive.
    pub upper: KeyEnd,
    /// The same by their order, for the check of each row on its way.
    pub keys: KeyLimits,
    /// The empty partition of the target whose place it takes.
    pub replaces: Option<String>,
}

/// The keys that a piece may have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyLimits {
    /// The key's place among the columns that are sent.
    pub column: usize,
    #[serde(with = "recorded::key")]
    pub lower: Option<keys::Key>,
    /// Exclusive.
    #[serde(with = "recorded::key")]
    pub upper: Option<keys::Key>,
}

impl Plan {
    /// Why rows of a file that is read on are judged one by one from the beginning, if they are: a
    /// piece of it that was refused could not be read again.
    pub fn careful_stream(&self, table: usize, file: usize) -> Option<&'static str> {
        let table = &self.tables[table];
        let is_lost = !table.files[file].is_regular || !self.continuity.is_resumable;
        (table.is_constrained && self.max_rejects.allows_any() && is_lost)
            .then_some("the source can be read only once, and the table has constraints")
    }

    /// Whether rows that violate a key are looked for in the sources, and rejected. Of rows in parts, other hosts
    /// have the files.
    pub fn rejects_violations(&self) -> bool {
        let mut files = self.tables.iter().flat_map(|table| &table.files);
        let is_whole = self.continuity.part.is_none();
        is_whole && self.max_rejects.allows_any() && files.all(|file| file.is_regular)
    }
}

impl TablePlan {
    /// Why its rows go as text, where they do.
    pub fn why_text(&self) -> Option<&str> {
        (self.lane == Lane::Text).then(|| self.lane_reason.as_deref().unwrap_or("asked for"))
    }

    /// What a column says of its rows, where no field stands behind it.
    pub fn lineage_of(&self, column: &ParseColumn) -> Option<lineage::Says> {
        let mut its = self.lineage.columns.iter();
        its.find(|known| known.name == column.name).map(|known| known.says)
    }

    /// The expression that a column is computed by, where it is.
    pub fn expression_of(&self, column: &ParseColumn) -> Option<&str> {
        self.transform.as_ref()?.expression(&column.name)
    }

    /// What its sources are read into: what is sent, but for what is computed and the lineage.
    pub fn read_shape(&self, lane: Lane) -> Arc<ParseShape> {
        if let Some(transform) = &self.transform {
            return transform.shape(lane).clone();
        }
        let shape = match lane {
            Lane::Binary => &self.shape,
            Lane::Text => &self.text_shape,
        };
        if self.lineage.is_empty() {
            return shape.clone();
        }
        let mut read = ParseShape::clone(shape);
        read.columns.truncate(shape.columns.len() - self.lineage.columns.len());
        Arc::new(read)
    }

    /// Whether its pieces are visible as soon as they are committed, and stay if the run fails.
    pub fn is_piecewise(&self) -> bool {
        self.publish.stage(self.is_atomic) == Stage::Target
    }
}
