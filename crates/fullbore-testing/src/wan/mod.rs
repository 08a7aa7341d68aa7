//! A long way between two hosts, on one machine and without netem: two network namespaces, and between
//! them a delay line in user space, on a TUN device at each end.
//!
//! Packets stay what the kernels made of them (large ones are handed on whole), so windows, losses and
//! congestion control behave as they do far away; a proxy in their place would hide all of that.
//!
//! ```no_run
//! use fullbore_testing::wan::{Wan, WanOptions};
//!
//! let options = WanOptions { rtt_ms: 90.0, rate_mbit: Some(100.0), ..WanOptions::default() };
//! let wan = Wan::start(&options).expect("root, and TUN");
//! wan.far.command("iperf3").args(["-s", "-1"]).spawn().expect("it is installed");
//! let _ = wan.near.inside(|| std::net::TcpStream::connect((wan.far.address, 5201)));
//! ```

mod host;
mod line;
mod tun;

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use host::Host;
pub use line::{Counted, Faults, Line, LineOptions};

/// What the way is like, in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WanOptions {
    /// There and back.
    pub rtt_ms: f64,
    /// What the link carries; `None`: as much as this machine passes on.
    pub rate_mbit: Option<f64>,
    /// What waits before the link at the most, beside what is on its way; more is dropped.
    pub queue_bytes: u64,
    /// Share of packets that are lost on the way.
    pub loss: f64,
    pub mtu: u32,
    /// Of the losses.
    pub seed: u64,
}

impl Default for WanOptions {
    fn default() -> Self {
        Self { rtt_ms: 0.0, rate_mbit: None, queue_bytes: 64 << 20, loss: 0.0, mtu: 1500, seed: 1 }
    }
}

/// Why there is no such lab here.
#[derive(Debug)]
pub struct NoWan(String);

impl fmt::Display for NoWan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "no WAN lab: {}", self.0)
    }
}

/// The two hosts and what is between them; gone when dropped, and when the process ends.
pub struct Wan {
    pub near: Host,
    pub far: Host,
    stop: Arc<AtomicBool>,
    paths: Vec<Path>,
    // The last field: the namespaces go when nothing uses them any more.
    _reaper: host::Reaper,
}

/// One path: its two directions, and what befalls them.
struct Path {
    there: Direction,
    back: Direction,
    faults: [Arc<Faults>; 2],
}

/// One direction, and the thread that carries it.
struct Direction {
    counted: Arc<Counted>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Wan {
    pub fn start(options: &WanOptions) -> Result<Self, NoWan> {
        Self::start_paths(std::slice::from_ref(options))
    }

    /// The same with several paths, each of a net of its own.
    pub fn start_paths(paths: &[WanOptions]) -> Result<Self, NoWan> {
        // SAFETY: it only asks.
        if unsafe { libc::geteuid() } != 0 {
            return Err(NoWan("network namespaces need root".into()));
        }
        if !std::path::Path::new("/dev/net/tun").exists() {
            return Err(NoWan("there is no /dev/net/tun".into()));
        }
        Self::build(paths).map_err(|error| NoWan(error.to_string()))
    }

    fn build(options: &[WanOptions]) -> io::Result<Self> {
        static LABS: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), LABS.fetch_add(1, Ordering::Relaxed));
        let addresses =
            |last| (77..).take(options.len()).map(move |net| Ipv4Addr::new(10, 214, net, last));
        let near = Host::new(format!("fb-near-{id}"), addresses(1).collect());
        let far = Host::new(format!("fb-far-{id}"), addresses(2).collect());
        let reaper = host::Reaper::watch(&[&near, &far])?;
        near.make()?;
        far.make()?;
        let stop = Arc::new(AtomicBool::new(false));
        let made = options.iter().enumerate().map(|(number, options)| {
            let near = Arc::new(near.make_device(number, options)?);
            let far = Arc::new(far.make_device(number, options)?);
            let faults = [Arc::default(), Arc::default()];
            let number = 2 * number as u64;
            Ok(Path {
                there: start_line(options, &near, &far, number, &faults[0], &stop)?,
                back: start_line(options, &far, &near, number + 1, &faults[1], &stop)?,
                faults,
            })
        });
        let paths = made
            .collect::<io::Result<Vec<_>>>()
            .inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        Ok(Self { near, far, stop, paths, _reaper: reaper })
    }

    /// Cuts a path, or mends it: nothing comes through, and nobody is notified.
    pub fn cut(&self, path: usize, is_cut: bool) {
        let faults = &self.paths[path].faults;
        faults.iter().for_each(|faults| faults.is_cut.store(is_cut, Ordering::Relaxed));
    }

    /// Loses so many of the next packets with data that go there by a path.
    pub fn lose(&self, path: usize, packets: u64) {
        self.paths[path].faults[0].to_lose.store(packets, Ordering::Relaxed);
    }

    /// How many paths there are.
    pub fn paths(&self) -> usize {
        self.paths.len()
    }

    /// What went from the near host to the far one by the first path.
    pub fn there(&self) -> &Counted {
        self.there_by(0)
    }

    /// What went back by it.
    pub fn back(&self) -> &Counted {
        self.back_by(0)
    }

    pub fn there_by(&self, path: usize) -> &Counted {
        &self.paths[path].there.counted
    }

    pub fn back_by(&self, path: usize) -> &Counted {
        &self.paths[path].back.counted
    }
}

impl Drop for Wan {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for line in self.paths.iter_mut().flat_map(|path| [&mut path.there, &mut path.back]) {
            if let Some(thread) = line.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

fn start_line(
    options: &WanOptions,
    from: &Arc<OwnedFd>,
    to: &Arc<OwnedFd>,
    number: u64,
    faults: &Arc<Faults>,
    stop: &Arc<AtomicBool>,
) -> io::Result<Direction> {
    let options = LineOptions {
        delay: Duration::from_secs_f64(options.rtt_ms / 2e3),
        bytes_per_second: options.rate_mbit.map(|rate| rate * 1e6 / 8.0),
        queue_bytes: options.queue_bytes,
        loss: options.loss,
        seed: options.seed.wrapping_mul(16) + number,
    };
    let line = Line::with_faults(options, faults.clone());
    let counted = line.counted();
    let (from, to, stop) = (Arc::clone(from), Arc::clone(to), Arc::clone(stop));
    let thread = thread::Builder::new()
        .name("wan".into())
        .spawn(move || tun::carry(&from, &to, line, &stop))?;
    Ok(Direction { counted, thread: Some(thread) })
}
