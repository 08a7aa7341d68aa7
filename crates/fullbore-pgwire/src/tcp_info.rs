//! What the kernel knows of a connection.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};

/// `struct tcp_info` of linux/tcp.h, as far as it has ever grown; an older kernel fills in less, and
/// what it does not know stays 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    pub window_scales: u8,
    pub flags: u8,
    pub rto: u32,
    pub ato: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub last_data_sent: u32,
    pub last_ack_sent: u32,
    pub last_data_recv: u32,
    pub last_ack_recv: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub rehash: u32,
}

const _: () = assert!(size_of::<TcpInfo>() == 240);

/// Asks for it.
pub fn tcp_info(stream: &impl AsFd) -> io::Result<TcpInfo> {
    let mut info = MaybeUninit::<TcpInfo>::zeroed();
    let mut length = size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: room and length agree, and all fields are plain numbers, valid when zero.
    unsafe {
        let done = libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        );
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(info.assume_init())
    }
}

/// Bytes that have arrived and were not read yet.
pub fn unread_bytes(stream: &impl AsFd) -> u64 {
    let mut count: libc::c_int = 0;
    // SAFETY: the number is ours and of the type that this ioctl writes.
    let done = unsafe { libc::ioctl(stream.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut count) };
    if done == 0 { u64::try_from(count).unwrap_or(0) } else { 0 }
}
