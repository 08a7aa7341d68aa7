//! A parser's loop: take a block, parse, encode, hand on.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use arrow_array::RecordBatch;
use fullbore_parse::block::Block;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::{Lane, Parser};
use fullbore_read::error::{Error, Result};
use fullbore_read::feed::{Fed, Rows};
use fullbore_read::{checksum, columnar};
use fullbore_record::observe::clock::{self, Activity};

use super::key_check::{KeyCheck, check_for};
use super::nulls;
use super::reject_record::Reject;
use super::schedule::{Gatherers, Origin, ParseTask, Schedule, Unit};
use super::source_row::{Records, SourceRow};
use super::transformed;
use crate::plan::lineage::{Anchor, Places};
use crate::plan::{Format, KeyLimits, Plan};
use crate::sink::{Encoder, Gatherer, Sink, Summer};

/// What a parser keeps for one table in one lane.
struct Tools {
    /// None for sources that come as batches.
    parser: Option<Parser>,
    encoder: Box<dyn Encoder>,
    /// For typed rows whose sums are asked for.
    summer: Option<Box<dyn Summer>>,
    /// That of the piece at hand, for typed rows, where the destination gathers statistics.
    gatherer: Option<Box<dyn Gatherer>>,
    /// Reads as text what the destination must judge, where rows are transformed.
    as_text: Option<Parser>,
}

pub fn parse_until_done(
    plan: &Arc<Plan>,
    sink: &dyn Sink,
    schedule: &Schedule<'_>,
    number: usize,
) -> Result<()> {
    let mut tools: HashMap<(usize, bool), Tools> = HashMap::new();
    let mut checks = Vec::new();
    let mut block = Block::default();
    while let Some(task) = schedule.next_task(number) {
        clock::work_for(task.table);
        let (fed, sequence, order, is_last) = {
            clock::enter(Activity::Queueing);
            let mut feed = task.feed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            clock::enter(Activity::Reading);
            let fed = feed.next(&mut block, task.lane)?;
            let is_last = feed.has_ended();
            let sequence = match fed {
                Fed::End | Fed::Later => 0,
                _ => task.sequence.fetch_add(1, Ordering::Relaxed),
            };
            // Blocks of a piece have the order of its source.
            (fed, sequence, schedule.next_block(), is_last)
        };
        clock::enter(Activity::Parsing);
        match fed {
            Fed::End => {
                schedule.exhausted(task.activation);
                continue;
            }
            Fed::Later => {
                schedule.later(task.activation);
                continue;
            }
            Fed::Block | Fed::Rows(_) => {}
        }
        let is_text = task.lane == Lane::Text;
        let tools = match tools.entry((task.table, is_text)) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(new_tools(plan, sink, task.table, task.lane)?)
            }
        };
        let mut unit = Unit { encoded: schedule.buffer(), is_text, ..Unit::default() };
        tools.gatherer = take_gatherer(plan, sink, &task);
        match fed {
            Fed::Rows(rows) => take_rows(plan, sink, &task, tools, (rows, order), &mut unit)?,
            _ => {
                let check = match &task.limits {
                    Some(limits) => {
                        check_for(&mut checks, plan, task.table, limits)?.zip(Some(limits))
                    }
                    None => None,
                };
                parse_block(plan, task.table, tools, (&block, order), check, &mut unit)?;
                if let Some(origin) = &mut unit.origin {
                    origin.is_last = is_last;
                }
                if plan.continuity.is_resumable {
                    unit.checksum = Some(checksum::of(block.text()));
                }
                if is_text {
                    unit.block = Some(std::mem::replace(&mut block, schedule.block()));
                }
            }
        }
        if let Some(gatherer) = tools.gatherer.take() {
            lock(&task.gatherers).push(gatherer);
        }
        schedule.deliver(task.activation, sequence, unit);
    }
    Ok(())
}

/// What notes the piece's rows, unless they go as text.
fn take_gatherer(plan: &Plan, sink: &dyn Sink, task: &ParseTask) -> Option<Box<dyn Gatherer>> {
    let gathers = sink.gathers().filter(|_| task.lane == Lane::Binary)?;
    let idle = lock(&task.gatherers).pop();
    idle.or_else(|| gathers.gatherer(plan, task.table))
}

fn lock(gatherers: &Gatherers) -> MutexGuard<'_, Vec<Box<dyn Gatherer>>> {
    gatherers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Takes rows that came as a batch.
fn take_rows(
    plan: &Plan,
    sink: &dyn Sink,
    task: &ParseTask,
    tools: &mut Tools,
    (rows, order): (Rows, u64),
    unit: &mut Unit,
) -> Result<()> {
    let Rows { mut batch, file, mut numbers, faults, rounded } = rows;
    let found = &plan.tables[task.table];
    unit.source_bytes = columnar::bytes_of(&batch);
    unit.rounded = rounded;
    unit.faults = faults.into_iter().map(|fault| Reject::unfit(file, fault)).collect();
    if let Some(transform) = &found.transform {
        let applied = transform.apply(&batch, task.lane)?;
        let place = |row: usize| SourceRow {
            file,
            offset: numbers[row],
            line: 0,
            raw: columnar::line_of(batch.columns().iter().map(Some), row),
        };
        unit.faults.extend(transformed::rejects(applied.failed, place));
        unit.counts.filtered += applied.filtered;
        transformed::keep(applied.kept.as_deref(), &mut numbers);
        batch = applied.batch;
    }
    let broken = if unit.is_text { Vec::new() } else { nulls::broken(found, &batch) };
    if !broken.is_empty() {
        let raw = nulls::as_lines(plan, sink, task.table, &batch, &broken)?;
        let mut raw = raw.into_iter();
        unit.faults.extend(nulls::rejects(found, &broken, |row| SourceRow {
            file,
            offset: numbers[row],
            line: 0,
            raw: raw.next().unwrap_or_default(),
        }));
        batch = nulls::without(&batch, &broken, &mut numbers)?;
    }
    let lines: Vec<u64> = numbers.iter().map(|number| number + 1).collect();
    let path = path_of(plan, task.table, file);
    let anchor = Anchor { file, ..Anchor::default() };
    let places = Places { file: &path, lines: &lines, anchor };
    let batch = found.lineage.extend(&batch, task.lane, &places)?;
    unit.rows = batch.num_rows() as u64;
    unit.numbers = Some((file, numbers));
    tools.send(&batch, order, unit)
}

impl Tools {
    /// Encodes a batch, and notes what is asked for of its rows.
    fn send(&mut self, batch: &RecordBatch, order: u64, unit: &mut Unit) -> Result<()> {
        unit.sums = self.summer.as_mut().map(|summer| summer.sums(batch));
        if let Some(gatherer) = &mut self.gatherer {
            gatherer.gather(batch, order)?;
        }
        self.encoder.encode(batch, &mut unit.encoded)
    }
}

fn new_tools(plan: &Arc<Plan>, sink: &dyn Sink, table: usize, lane: Lane) -> Result<Tools> {
    let encoder = sink.encoder(plan, table, lane)?;
    let summer = match lane {
        Lane::Binary => match sink.verifying() {
            Some(verifying) => verifying.summer(plan, table)?,
            None => None,
        },
        // What becomes of a text is for the destination to say.
        Lane::Text => None,
    };
    let table = &plan.tables[table];
    let parser_in = |lane| match &table.format {
        Format::Delimited(dialect) => Some(parser_for(table, dialect, lane)),
        Format::Columnar(_) => None,
    };
    let as_text = table.transform.as_ref().and_then(|_| parser_in(Lane::Text));
    Ok(Tools { parser: parser_in(lane), encoder, summer, gatherer: None, as_text })
}

/// The parser of a table in a lane.
pub fn parser_for(table: &crate::plan::TablePlan, dialect: &Dialect, lane: Lane) -> Parser {
    Parser::new(dialect.clone(), table.read_shape(lane))
}

/// The path of a source as lineage and rejects tell it.
pub fn path_of(plan: &Plan, table: usize, file: usize) -> String {
    plan.tables[table].files[file].told()
}

fn parse_block(
    plan: &Plan,
    table: usize,
    tools: &mut Tools,
    (block, order): (&Block, u64),
    check: Option<(&mut KeyCheck, &Arc<KeyLimits>)>,
    unit: &mut Unit,
) -> Result<()> {
    let parser = tools.parser.as_mut().expect("delimited sources have a parser");
    let parsed = parser.parse(block);
    match check {
        // Rows that aren't in the batch have keys too: then the block is read for its keys alone.
        Some((check, limits)) if unit.is_text || !parsed.odd.is_empty() => {
            check.check_block(plan, limits, block)?;
        }
        Some((check, limits)) => {
            check.check_keys(plan, limits, block, parsed.batch.column(limits.column))?;
        }
        None => {}
    }
    unit.source_bytes = block.len() as u64;
    unit.origin = Some(Origin {
        file: block.file,
        offset: block.offset,
        first_line: block.first_line,
        lines: parsed.lines,
        is_last: false,
    });
    let found = &plan.tables[table];
    let mut odd = parsed.odd;
    let mut batch = parsed.batch;
    let mut lines = Vec::new();
    let first = match (block.line_of_file, found.lineage.has_lines()) {
        (Some(line), _) => line,
        (None, false) => 1,
        (None, true) => return Err(Error::usage("a block of rows came without its line")),
    };
    if !found.lineage.is_empty() {
        let parser = tools.parser.as_ref().expect("it was just used");
        lines = parser.lines_of_rows(block).into_iter().map(|line| line + first).collect();
    }
    let mut kept = None;
    unit.counts = parsed.counts;
    if let Some(transform) = &found.transform {
        let applied =
            transform.apply(&batch, if unit.is_text { Lane::Text } else { Lane::Binary })?;
        if !applied.failed.is_empty() {
            let parser = tools.parser.as_ref().expect("it was just used");
            let records = parser.parsed_records(block);
            let mut stood = Records::of(block);
            let place = |row: usize| stood.at(records[row].clone());
            unit.faults = transformed::rejects(applied.failed, place);
        }
        unit.counts.filtered += applied.filtered;
        transformed::keep(applied.kept.as_deref(), &mut lines);
        (batch, kept) = (applied.batch, applied.kept);
        if let (false, Some(as_text)) = (odd.is_empty(), &mut tools.as_text) {
            let made = transformed::odd_rows(transform, &found.format, as_text, block, odd)?;
            odd = made.rows;
            unit.faults.extend(made.rejects);
            unit.counts.filtered += made.filtered;
        }
    }
    unit.rows = batch.num_rows() as u64;
    // Of text the destination tells the NULLs, by their places among all rows.
    let broken = if unit.is_text { Vec::new() } else { nulls::broken(found, &batch) };
    if !broken.is_empty() {
        let parser = tools.parser.as_ref().expect("it was just used");
        let records = parser.parsed_records(block);
        let mut stood = Records::of(block);
        let row_of = |nth: usize| kept.as_ref().map_or(nth, |kept| kept[nth]);
        let place = |nth: usize| stood.at(records[row_of(nth)].clone());
        unit.faults.extend(nulls::rejects(found, &broken, place));
        batch = nulls::without(&batch, &broken, &mut lines)?;
        unit.rows = batch.num_rows() as u64;
    }
    if !found.lineage.is_empty() {
        let lane = if unit.is_text { Lane::Text } else { Lane::Binary };
        let path = path_of(plan, table, block.file);
        let anchor = Anchor { file: block.file, line: first, offset: block.offset };
        batch =
            found.lineage.extend(&batch, lane, &Places { file: &path, lines: &lines, anchor })?;
        for row in &mut odd {
            let before = block.lines_between(0, row.range.start);
            found.lineage.extend_line(&mut row.copy_text, (&path, anchor), first + before);
        }
    }
    // Of what is sent: without the rows that were refused, with what was added.
    tools.send(&batch, order, unit)?;
    unit.kept = kept.filter(|_| unit.is_text);
    let format = &found.format;
    let shape = match &found.transform {
        Some(transform) => transform.shape(if unit.is_text { Lane::Text } else { Lane::Binary }),
        None => &found.shape,
    };
    let Format::Delimited(dialect) = format else { unreachable!("a block holds delimited text") };
    let mut stood = Records::of(block);
    unit.faults.extend(parsed.faults.into_iter().map(|fault| {
        let lines = block.lines_between(fault.range.start, fault.range.end);
        Reject::fault(stood.at(fault.range), &fault.reason, lines, shape, dialect)
    }));
    let mut stood = Records::of(block);
    unit.odd = odd.into_iter().map(|odd| (stood.at(odd.range), odd.copy_text)).collect();
    Ok(())
}
