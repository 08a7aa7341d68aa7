//! One of the two hosts: a network namespace with a device for each path.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use super::WanOptions;
use super::tun;

/// Packets that may wait for the line's thread: more than it ever lets wait.
const DEVICE_QUEUE: &str = "10000";

/// A namespace of a name, as `ip netns` knows it.
#[derive(Debug, Clone)]
pub struct Host {
    pub namespace: String,
    /// By the first path.
    pub address: Ipv4Addr,
    /// By each path.
    pub addresses: Vec<Ipv4Addr>,
}

impl Host {
    /// A command that runs on this host.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }

    /// Runs this on a thread of this host, and so are threads that it starts.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter().expect("the namespace is there as long as its host");
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Moves the calling thread into the namespace.
    fn enter(&self) -> io::Result<()> {
        let namespace = File::open(format!("/run/netns/{}", self.namespace))?;
        // SAFETY: it changes the namespace of this thread, which is ours.
        let done = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub(super) fn new(namespace: String, addresses: Vec<Ipv4Addr>) -> Self {
        Self { namespace, address: addresses[0], addresses }
    }

    fn ip(&self, args: &[&str]) -> io::Result<()> {
        ip(&[&["-n", self.namespace.as_str()], args].concat())
    }

    /// Makes the namespace.
    pub(super) fn make(&self) -> io::Result<()> {
        ip(&["netns", "add", &self.namespace])?;
        self.ip(&["link", "set", "lo", "up"])?;
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter()?;
                // What one measurement learned of the way must not help the next.
                fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1")
            });
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        })
    }

    /// Makes the device of a path.
    pub(super) fn make_device(&self, path: usize, options: &WanOptions) -> io::Result<OwnedFd> {
        let name = format!("wan{path}");
        let device = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter()?;
                tun::open(&name, options.loss == 0.0)
            });
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        })?;
        let mtu = options.mtu.to_string();
        self.ip(&["link", "set", &name, "mtu", &mtu, "txqueuelen", DEVICE_QUEUE])?;
        self.ip(&["address", "add", &format!("{}/30", self.addresses[path]), "dev", &name])?;
        self.ip(&["link", "set", &name, "up"])?;
        Ok(device)
    }

    /// What the devices have thrown away by themselves; none of it was the lines' doing.
    pub fn device_drops(&self) -> u64 {
        self.inside(|| {
            let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
            let lines = text.lines().filter(|line| line.trim().starts_with("wan"));
            let dropped = lines.map(|line| {
                let numbers = line.split_whitespace().skip(1).map(|word| word.parse().unwrap_or(0));
                let numbers: Vec<u64> = numbers.collect();
                numbers.get(3).unwrap_or(&0) + numbers.get(11).unwrap_or(&0)
            });
            dropped.sum()
        })
    }
}

fn ip(args: &[&str]) -> io::Result<()> {
    let output = Command::new("ip")
        .args(args)
        .output()
        .map_err(|error| io::Error::other(format!("ip (iproute2) does not run: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {}: {}", args.join(" "), said.trim())))
}

/// Removes the namespaces when dropped, and when the process ends without dropping it: a shell that
/// waits for the end of a pipe whose other end only this process has.
#[derive(Debug)]
pub(super) struct Reaper {
    shell: Child,
}

const SCRIPT: &str = r#"
cat > /dev/null
for name in "$@"; do ip netns del "$name"; done
"#;

impl Reaper {
    pub fn watch(hosts: &[&Host]) -> io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "reaper"])
            .args(hosts.iter().map(|host| &host.namespace))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C goes to the whole group of the tests.
            .process_group(0)
            .spawn()?;
        Ok(Self { shell })
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
