//! TUN devices, and the thread that carries packets from one to the other.

use std::ffi::c_int;
use std::fs::OpenOptions;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::line::{Counted, Line};

/// What stands before each packet: `struct virtio_net_hdr`.
const HEADER_BYTES: usize = 10;
/// The longest packet that a kernel hands over in one piece.
const PACKET_BYTES_MAX: usize = HEADER_BYTES + (64 << 10);
/// Packets taken in before those that are due are looked at again.
const PACKETS_AT_ONCE: usize = 64;
/// How often a quiet line looks whether it is to end.
const LOOK_UP: Duration = Duration::from_millis(20);

const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
/// Checksums left to the device, and packets larger than the MTU.
const OFFLOAD_CHECKSUM: c_int = 1;
const OFFLOAD_LARGE: c_int = 2 | 4;

/// Makes a device in the network namespace of the calling thread.
pub fn open(name: &str, large_packets: bool) -> io::Result<OwnedFd> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: a zeroed request is valid, and the name is short; the kernel reads what it is given.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes().take(15)) {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        if libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) != 0 {
            return Err(io::Error::last_os_error());
        }
        let offload = OFFLOAD_CHECKSUM | if large_packets { OFFLOAD_LARGE } else { 0 };
        if libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, offload) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(file.into())
}

/// Carries packets until told to stop.
pub fn carry(from: &OwnedFd, to: &OwnedFd, mut line: Line, stop: &AtomicBool) -> io::Result<()> {
    // Otherwise every wait may be 50 us late.
    // SAFETY: it sets a number of this thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    let counted = line.counted();
    let began = Instant::now();
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    while !stop.load(Ordering::Relaxed) {
        while let Some(packet) = line.due(began.elapsed()) {
            match write(to, &packet) {
                Ok(()) => Counted::add(&counted.delivered, 1),
                Err(_) => Counted::add(&counted.refused, 1),
            }
        }
        counted.busy_us.store(thread_time().as_micros() as u64, Ordering::Relaxed);
        counted.wall_us.store(began.elapsed().as_micros() as u64, Ordering::Relaxed);
        let wait = line.next_due().map_or(LOOK_UP, |at| at.saturating_sub(began.elapsed()));
        wait_readable(from, wait.min(LOOK_UP))?;
        for _ in 0..PACKETS_AT_ONCE {
            let Some(length) = read(from, &mut buffer)? else { break };
            let packet = &buffer[..length];
            line.take(began.elapsed(), packet, wire_bytes(packet));
        }
    }
    Ok(())
}

/// Bytes on the wire: a large packet is many there, each with its headers.
fn wire_bytes(packet: &[u8]) -> u64 {
    let Some((header, packet)) = packet.split_at_checked(HEADER_BYTES) else { return 0 };
    let short = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
    let (part, tcp_at) = (short(4), short(6));
    let whole = packet.len() as u64;
    if header[1] == 0 || part == 0 {
        return whole;
    }
    let headers = tcp_at + packet.get(tcp_at + 12).map_or(0, |byte| usize::from(byte >> 4) * 4);
    let parts = packet.len().saturating_sub(headers).div_ceil(part).max(1);
    whole + ((parts - 1) * headers) as u64
}

fn wait_readable(from: &OwnedFd, time: Duration) -> io::Result<()> {
    let mut wanted = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: one structure of ours, a time of ours, and no signal mask.
    let found = unsafe { libc::ppoll(&raw mut wanted, 1, &raw const time, std::ptr::null()) };
    let error = io::Error::last_os_error();
    if found < 0 && error.kind() != io::ErrorKind::Interrupted { Err(error) } else { Ok(()) }
}

fn read(from: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the buffer is ours and as long as it says.
    let count = unsafe { libc::read(from.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    match usize::try_from(count) {
        Ok(count) => Ok(Some(count)),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error => Err(error),
        },
    }
}

fn write(to: &OwnedFd, packet: &[u8]) -> io::Result<()> {
    // SAFETY: the packet is as long as it says.
    let count = unsafe { libc::write(to.as_raw_fd(), packet.as_ptr().cast(), packet.len()) };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// CPU time of this thread.
fn thread_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the structure is ours; a zeroed one is valid.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of TCP over IPv4 with 12 bytes of options, as a device hands it over.
    fn packet(kind: u8, part: u16, payload: usize) -> Vec<u8> {
        let mut packet = vec![1, kind, 0, 0];
        packet.extend(part.to_ne_bytes());
        packet.extend(20_u16.to_ne_bytes());
        packet.extend([16, 0]);
        let mut headers = [0; 52];
        headers[20 + 12] = 8 << 4;
        packet.extend(headers);
        packet.extend(vec![0; payload]);
        packet
    }

    #[test]
    fn a_large_packet_is_many_on_the_wire() {
        assert_eq!(wire_bytes(&packet(0, 0, 1448)), 1500);
        assert_eq!(wire_bytes(&packet(1, 1448, 2 * 1448)), 3000);
        assert_eq!(wire_bytes(&packet(1, 1448, 2 * 1448 + 1)), 3000 + 53);
        assert_eq!(wire_bytes(&[0; 4]), 0);
    }
}
