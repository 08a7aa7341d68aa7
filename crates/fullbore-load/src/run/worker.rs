//! A worker: the threads that load the pieces of a plan which are not committed yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fullbore_read::error::Result;
use fullbore_record::observe::{Clocks, Seen};
use fullbore_record::terms::Compress;
use fullbore_record::{Event, Recorder, watch_run};

use super::packing::Packing;
use super::placement::Nodes;
use super::rejects::Rejects;
use super::schedule::{Hold, Schedule};
use super::threads::{Threads, not_started};
use super::tuning::{Round, Tuner};
use super::{parser, pause, polite, stream};
use crate::plan::Plan;
use crate::sink::Sink;

/// How often progress is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);

/// What the threads of a worker share.
pub struct Worker<'a> {
    pub plan: &'a Arc<Plan>,
    pub sink: &'a dyn Sink,
    pub recorder: &'a Recorder,
    pub schedule: &'a Schedule<'a>,
    pub rejects: &'a Rejects,
    pub clocks: &'a Clocks,
    pub nodes: &'a Nodes,
    /// Where the number of streams may change.
    pub tuner: Option<&'a Tuner>,
}

impl Worker<'_> {
    /// Loads until the schedule has no piece left: all threads live and end in here. Adds the seconds of
    /// pauses to `paused`.
    pub fn load(&self, seen: &mut Seen, paused: &mut f64) -> Result<()> {
        let Self { plan, sink, recorder, schedule, clocks, tuner, .. } = *self;
        let finished = AtomicBool::new(false);
        let throttled = sink.throttled().filter(|_| plan.continuity.pause_when.is_some());
        let has_ended = || finished.load(Ordering::Relaxed);
        // Nothing is sent before it was looked for the first time.
        if throttled.is_some() {
            schedule.hold(Hold::Everywhere);
        }
        sink.packs().iter().for_each(|packs| packs.begin(plan));
        std::thread::scope(|scope| {
            let threads = Threads { scope, schedule };
            let crew = Crew { worker: self, threads };
            let (streams, parsers) = tuner.map_or((plan.streams, plan.parsers), Tuner::wanted);
            schedule.want(streams, parsers);
            if let Err(error) = crew.grow(streams, parsers) {
                schedule.fail(not_started(&error));
            }
            // Signals are noticed here, and pauses end below: a panic in one of them must not leave streams
            // waiting for it.
            let sampler = threads.start("sampler".into(), || {
                clocks.count_as_observing();
                let mut since = None;
                schedule.guard(|| {
                    while !has_ended() {
                        recorder.record(schedule.sample());
                        std::thread::park_timeout(SAMPLE_INTERVAL);
                        sink.news().into_iter().for_each(|event| recorder.record(event));
                        if let Some(changed) = schedule.look_for_rate() {
                            recorder.record(changed);
                        }
                        if let Some(notice) = schedule.notice_interrupt(&mut since) {
                            recorder.record(Event::Notice { notice });
                        }
                    }
                    Ok(())
                });
            });
            // Apart from the sampler: a server that doesn't answer must not hold up the progress shown.
            let observer = threads.start("observer".into(), || {
                watch_run(clocks, sink.observed(), recorder, seen, &has_ended);
            });
            let watch = throttled.map(|sink| {
                threads.start("pause".into(), || {
                    let mut total = Duration::ZERO;
                    schedule.guard(|| {
                        total = pause::watch(plan, sink, recorder, schedule, &finished);
                        Ok(())
                    });
                    total
                })
            });
            let tuning = tuner.map(|tuner| {
                threads.start("tuner".into(), move || {
                    clocks.count_as_observing();
                    let grow = |streams, parsers| crew.grow(streams, parsers).is_ok();
                    let round = Round { plan, schedule, clocks, recorder, grow: &grow };
                    schedule.guard(|| {
                        tuner.watch(&round, &has_ended);
                        Ok(())
                    });
                })
            });
            let packs = sink.packs().filter(|_| plan.compress == Compress::Auto);
            let packing = packs.map(|packs| {
                threads.start("packing".into(), move || {
                    clocks.count_as_observing();
                    let packing = Packing { plan, schedule, clocks, recorder, packs };
                    schedule.guard(|| {
                        packing.watch(&has_ended);
                        Ok(())
                    });
                })
            });
            let paced = sink.paced().filter(|_| plan.is_polite);
            let polite = paced.map(|paced| {
                threads.start("polite".into(), move || {
                    clocks.count_as_observing();
                    schedule.guard(|| {
                        polite::watch(paced, &has_ended);
                        Ok(())
                    });
                })
            });
            schedule.wait_for_streams();
            schedule.close();
            finished.store(true, Ordering::Relaxed);
            let [tuning, packing, polite] = [tuning, packing, polite].map(Option::flatten);
            for thread in [sampler, observer, tuning, packing, polite].iter().flatten() {
                thread.thread().unpark();
            }
            if let Some(watch) = watch.flatten() {
                watch.thread().unpark();
                *paused += watch.join().unwrap_or_default().as_secs_f64();
            }
        });
        sink.news().into_iter().for_each(|event| recorder.record(event));
        recorder.record(schedule.sample());
        schedule.take_failure().map_or(Ok(()), Err)
    }
}

/// Starts the streams and parsers of a round.
#[derive(Clone, Copy)]
struct Crew<'scope, 'env, 'a> {
    worker: &'scope Worker<'scope>,
    threads: Threads<'scope, 'env, 'a>,
}

impl<'scope> Crew<'scope, '_, '_> {
    /// Starts as many as are lacking to so many.
    fn grow(self, streams: usize, parsers: usize) -> std::io::Result<()> {
        let Worker { plan, sink, recorder, schedule, rejects, clocks, nodes, .. } = *self.worker;
        for number in schedule.parsers_lacking(parsers) {
            let Some(clock) = clocks.begin_parser(number) else { break };
            let parse = move || parser::parse_until_done(plan, sink, schedule, number);
            self.threads.try_start(format!("parser-{number}"), move || {
                nodes.place_parser();
                clock.time(|| schedule.guard(parse));
            })?;
        }
        for number in schedule.streams_lacking(streams) {
            let Some(clock) = clocks.begin_stream(number) else { break };
            let load = move || {
                stream::load_until_done(plan, sink, recorder, schedule, rejects, clocks, number)
            };
            schedule.begin_stream();
            let started = self.threads.try_start(format!("stream-{number}"), move || {
                nodes.place_stream();
                clock.time(|| schedule.guard(load));
                schedule.end_stream();
            });
            if let Err(error) = started {
                schedule.end_stream();
                return Err(error);
            }
        }
        Ok(())
    }
}
