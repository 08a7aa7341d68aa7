//! Parses a source on several threads; what comes of its blocks is given in their order.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard};

use arrow_array::RecordBatch;
use fullbore_parse::Parser;
use fullbore_parse::block::Block;
use fullbore_read::error::Result;
use fullbore_read::ranges::RangeFeed;

/// Blocks that wait for the one who takes them, for each thread.
const WAITING_PER_THREAD: usize = 2;

/// What came of a block.
pub struct Ahead {
    pub block: Block,
    pub batch: RecordBatch,
    /// Where the rows of the batch stand in the block.
    pub records: Vec<Range<usize>>,
    /// Where those stand that are no rows.
    pub odd: Vec<Range<usize>>,
    pub lines: u64,
}

/// What the threads share.
struct Source {
    feed: Mutex<(RangeFeed, u64)>,
    spare: Mutex<Vec<Block>>,
}

/// Parses all blocks of a feed, on a thread for each parser, where `judge` makes of them what `take` is given. `take`
/// gives the block back when it is done with it.
pub fn parse_in_order<T: Send>(
    feed: RangeFeed,
    parsers: Vec<Parser>,
    judge: &(impl Fn(Ahead) -> Result<T> + Sync),
    take: &mut dyn FnMut(T) -> Result<Block>,
) -> Result<()> {
    let source = Source { feed: Mutex::new((feed, 0)), spare: Mutex::default() };
    let (give, taken) = sync_channel(WAITING_PER_THREAD * parsers.len());
    std::thread::scope(|scope| {
        for parser in parsers {
            let (source, give) = (&source, give.clone());
            scope.spawn(move || source.parse(parser, judge, &give));
        }
        drop(give);
        // Where this ends early, there is nobody to give to, and they end as well.
        source.take_in_order(taken, take)
    })
}

type Numbered<T> = (u64, Result<T>);

impl Source {
    fn parse<T>(
        &self,
        mut parser: Parser,
        judge: &impl Fn(Ahead) -> Result<T>,
        give: &SyncSender<Numbered<T>>,
    ) {
        loop {
            let mut block = lock(&self.spare).pop().unwrap_or_default();
            let mut feed = lock(&self.feed);
            let fed = feed.0.next(&mut block);
            let number = feed.1;
            feed.1 += 1;
            drop(feed);
            let found = match fed {
                Ok(false) => return,
                Ok(true) => {
                    let parsed = parser.parse(&block);
                    let odd = parsed.odd.into_iter().map(|odd| odd.range).collect();
                    let records = parser.parsed_records(&block);
                    judge(Ahead { block, batch: parsed.batch, records, odd, lines: parsed.lines })
                }
                Err(error) => Err(error),
            };
            let is_over = found.is_err();
            if give.send((number, found)).is_err() || is_over {
                return;
            }
        }
    }

    fn take_in_order<T>(
        &self,
        taken: Receiver<Numbered<T>>,
        take: &mut dyn FnMut(T) -> Result<Block>,
    ) -> Result<()> {
        let (mut next, mut waiting) = (0, BTreeMap::new());
        for (number, found) in taken {
            waiting.insert(number, found);
            while let Some(found) = waiting.remove(&next) {
                let block = take(found?)?;
                lock(&self.spare).push(block);
                next += 1;
            }
        }
        Ok(())
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
