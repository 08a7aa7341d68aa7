//! Checks data before the load: parses several places of each file and reports errors with file and line.

use std::sync::Arc;

use fullbore_load::plan::{Format, PieceInput, Plan, TablePlan};
use fullbore_parse::block::Block;
use fullbore_parse::{Lane, Parser};
use fullbore_read::FileRange;
use fullbore_read::error::{Error, Result};
use fullbore_read::lines::line_at;
use fullbore_read::ranges::RangeFeed;
use fullbore_read::stream::StreamFeed;
use serde::Serialize;

/// Places of a file that are looked at, and blocks (of 256 KiB) at each.
const PLACES_MAX: usize = 16;
const BLOCKS_MAX: usize = 2;
/// Blocks of a file that can only be read from its beginning.
const FIRST_BLOCKS_MAX: usize = 32;
/// Bytes of all files together; further files get one block each.
const BYTES_MAX: u64 = 512 << 20;
/// Findings of one table that are told.
const FINDINGS_MAX: usize = 20;
/// Lines before a place are counted where it is not further into its file.
const COUNTED_BYTES_MAX: u64 = 8 << 30;

/// Something that is wrong with the job, or may be.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The job can't work as it is.
    pub stops: bool,
    pub file: Option<String>,
    pub line: Option<u64>,
    pub byte: Option<u64>,
    pub message: String,
    pub hint: Option<String>,
}

impl Finding {
    /// An error of planning or of a trial, which ends a load in the same way.
    pub fn of_error(error: &Error) -> Self {
        let file = match error {
            Error::Source { path, .. } | Error::Read { path, .. } => {
                Some(path.display().to_string())
            }
            _ => None,
        };
        Self {
            stops: true,
            file,
            line: None,
            byte: None,
            message: error.to_string(),
            hint: error.hint().map(str::to_owned),
        }
    }
}

/// What was looked at, and what was found.
#[derive(Debug, Default, Serialize)]
pub struct Scan {
    pub files: u64,
    pub places: u64,
    pub bytes: u64,
    pub rows: u64,
    /// Rows that only the server can judge.
    pub odd: u64,
    pub findings: Vec<Finding>,
}

pub fn scan(plan: &Plan) -> Result<Scan> {
    let mut scan = Scan::default();
    for (number, table) in plan.tables.iter().enumerate() {
        // Rows of Parquet are typed already; its files were opened when the plan was made.
        let Format::Delimited(dialect) = &table.format else { continue };
        let lane = table.lane;
        let mut looker = Looker {
            parser: Parser::new(dialect.clone(), table.read_shape(lane)),
            table,
            allows_rejects: plan.max_rejects.allows_any(),
            found: 0,
            more: 0,
            scan: &mut scan,
        };
        for file in 0..table.files.len() {
            let starts = starts_in(plan, number, file);
            looker.look(plan, file, &starts)?;
        }
        looker.conclude();
    }
    Ok(scan)
}

/// Places where records begin, spread over the file: cuts of pieces are such.
fn starts_in(plan: &Plan, table: usize, file: usize) -> Vec<FileRange> {
    let mut ranges: Vec<FileRange> = Vec::new();
    for piece in plan.pieces.iter().filter(|piece| piece.table == table) {
        if let PieceInput::Ranges(its) = &piece.input {
            ranges.extend(its.iter().filter(|range| range.file == file).cloned());
        }
    }
    ranges.sort_by_key(|range| range.start);
    let count = ranges.len();
    if count <= PLACES_MAX {
        return ranges;
    }
    (0..PLACES_MAX).map(|n| ranges[n * (count - 1) / (PLACES_MAX - 1)].clone()).collect()
}

struct Looker<'a> {
    parser: Parser,
    table: &'a TablePlan,
    allows_rejects: bool,
    found: usize,
    /// Findings that are not told.
    more: usize,
    scan: &'a mut Scan,
}

impl Looker<'_> {
    fn look(&mut self, plan: &Plan, file: usize, starts: &[FileRange]) -> Result<()> {
        let Format::Delimited(dialect) = &self.table.format else { return Ok(()) };
        let source = &self.table.files[file];
        let is_late = self.scan.bytes >= BYTES_MAX;
        self.scan.files += 1;
        let mut block = Block::default();
        if !source.is_seekable() {
            let (source, most) = (source.clone(), plan.max_field_bytes);
            let mut feed = StreamFeed::open_at(source, file, dialect.clone(), most, 0)?;
            for _ in 0..if is_late { 1 } else { FIRST_BLOCKS_MAX } {
                if !feed.next(&mut block)? {
                    break;
                }
                self.take(&block);
            }
            self.scan.places += 1;
            return Ok(());
        }
        for range in starts.iter().take(if is_late { 1 } else { PLACES_MAX }) {
            let files: Vec<Arc<_>> = self.table.files.clone();
            let mut feed =
                RangeFeed::new(files, vec![range.clone()], dialect.clone(), plan.max_field_bytes);
            for _ in 0..if is_late { 1 } else { BLOCKS_MAX } {
                if !feed.next(&mut block)? {
                    break;
                }
                self.take(&block);
            }
            self.scan.places += 1;
        }
        Ok(())
    }

    fn take(&mut self, block: &Block) {
        let parsed = self.parser.parse(block);
        self.scan.bytes += block.len() as u64;
        self.scan.rows += (parsed.batch.num_rows() + parsed.odd.len()) as u64;
        // Of the text lane the server judges every row.
        let is_typed = self.table.lane == Lane::Binary;
        self.scan.odd += if is_typed { parsed.odd.len() as u64 } else { 0 };
        for fault in parsed.faults {
            self.found += 1;
            if self.found > FINDINGS_MAX {
                self.more += 1;
                continue;
            }
            let source = &self.table.files[block.file];
            let byte = block.offset + fault.range.start as u64;
            // Of what is packed, or not UTF-8, places are those of the text that comes of it.
            let line = match source.is_seekable() && byte <= COUNTED_BYTES_MAX {
                true => line_at(source, byte),
                false => {
                    block.first_line.map(|first| first + block.lines_between(0, fault.range.start))
                }
            };
            self.scan.findings.push(Finding {
                stops: !self.allows_rejects,
                file: Some(source.path.display().to_string()),
                line,
                byte: Some(byte),
                message: fault.reason.message(&self.table.shape, block.file),
                hint: Some(HINT.into()),
            });
        }
    }

    fn conclude(&mut self) {
        if self.more > 0 {
            self.scan.findings.push(Finding {
                stops: !self.allows_rejects,
                file: None,
                line: None,
                byte: None,
                message: format!(
                    "{}: {} more bad rows in the sampled places",
                    self.table.name, self.more
                ),
                hint: None,
            });
        }
    }
}

const HINT: &str = "correct the file, describe its format (--encoding, --delimiter, --quote, \
                    --null, --header), or allow bad rows with --max-rejects N or P%";
