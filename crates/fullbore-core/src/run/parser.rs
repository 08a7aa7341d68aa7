//! A parser's loop: take a block, parse, encode, hand on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::checksum;
use super::key_check::{KeyCheck, check_for};
use super::piece::SourceRow;
use super::schedule::{Origin, Schedule, Unit};
use crate::destination::{Destination, Encoder, Lane, Summer};
use crate::error::Result;
use crate::parse::Parser;
use crate::parse::block::Block;
use crate::parse::dialect::Dialect;
use crate::plan::{Format, KeyLimits, Plan};
use crate::source::feed::Fed;

/// What a parser keeps for one table in one lane.
struct Tools {
    /// None for sources that come as batches.
    parser: Option<Parser>,
    encoder: Box<dyn Encoder>,
    /// For typed rows whose sums are asked for.
    summer: Option<Box<dyn Summer>>,
}

pub fn parse_until_done(
    plan: &Arc<Plan>,
    destination: &dyn Destination,
    schedule: &Schedule<'_>,
) -> Result<()> {
    let mut tools: HashMap<(usize, bool), Tools> = HashMap::new();
    let mut checks = Vec::new();
    let mut block = Block::default();
    while let Some(job) = schedule.next_job() {
        let (fed, sequence, is_last) = {
            let mut feed = job.feed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let fed = feed.next(&mut block, job.lane)?;
            let is_last = feed.has_ended();
            let sequence = match fed {
                Fed::End => 0,
                _ => job.sequence.fetch_add(1, Ordering::Relaxed),
            };
            (fed, sequence, is_last)
        };
        if matches!(fed, Fed::End) {
            schedule.exhausted(job.activation);
            continue;
        }
        let is_text = job.lane == Lane::Text;
        let tools = match tools.entry((job.table, is_text)) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(new_tools(plan, destination, job.table, job.lane)?)
            }
        };
        let mut unit = Unit { encoded: schedule.buffer(), is_text, ..Unit::default() };
        match fed {
            Fed::Batch(batch) => {
                unit.rows = batch.num_rows() as u64;
                unit.source_bytes = batch.get_array_memory_size() as u64;
                unit.sums = tools.summer.as_mut().map(|summer| summer.sums(&batch));
                tools.encoder.encode(&batch, &mut unit.encoded)?;
            }
            _ => {
                let check = match &job.limits {
                    Some(limits) => {
                        check_for(&mut checks, plan, job.table, limits)?.zip(Some(limits))
                    }
                    None => None,
                };
                parse_block(plan, job.table, tools, &block, check, &mut unit)?;
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
        schedule.deliver(job.activation, sequence, unit);
    }
    Ok(())
}

fn new_tools(
    plan: &Arc<Plan>,
    destination: &dyn Destination,
    table: usize,
    lane: Lane,
) -> Result<Tools> {
    let encoder = destination.encoder(plan, table, lane)?;
    let summer = match lane {
        Lane::Binary => destination.summer(plan, table)?,
        // What becomes of a text is for the destination to say.
        Lane::Text => None,
    };
    let table = &plan.tables[table];
    let parser = match &table.format {
        Format::Delimited(dialect) => Some(parser_for(table, dialect, lane)),
        Format::Parquet => None,
    };
    Ok(Tools { parser, encoder, summer })
}

/// The parser of a table in a lane.
pub fn parser_for(table: &crate::plan::TablePlan, dialect: &Dialect, lane: Lane) -> Parser {
    let shape = match lane {
        Lane::Binary => &table.shape,
        Lane::Text => &table.text_shape,
    };
    Parser::new(dialect.clone(), shape.clone())
}

fn parse_block(
    plan: &Plan,
    table: usize,
    tools: &mut Tools,
    block: &Block,
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
    unit.rows = parsed.batch.num_rows() as u64;
    unit.source_bytes = block.len() as u64;
    unit.origin = Some(Origin {
        file: block.file,
        offset: block.offset,
        first_line: block.first_line,
        lines: parsed.lines,
        is_last: false,
    });
    unit.sums = tools.summer.as_mut().map(|summer| summer.sums(&parsed.batch));
    tools.encoder.encode(&parsed.batch, &mut unit.encoded)?;
    let shape = &plan.tables[table].shape;
    unit.faults = parsed
        .faults
        .into_iter()
        .map(|fault| (SourceRow::of(block, fault.range), fault.reason.message(shape)))
        .collect();
    unit.odd = parsed
        .odd
        .into_iter()
        .map(|odd| (SourceRow::of(block, odd.range), odd.copy_text))
        .collect();
    Ok(())
}
