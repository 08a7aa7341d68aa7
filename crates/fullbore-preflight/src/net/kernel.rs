//! Settings of this host's kernel that decide what a connection can do: the values in effect.

use std::ffi::CStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use super::message::Side;
use crate::limits::SETTING_BYTES_MAX;

/// What is asked for; where a container or an older kernel does not tell, it is left out.
pub const SETTINGS: [&str; 20] = [
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];

/// This host, as the connection sees it.
pub fn this_side(connection: &TcpStream) -> Side {
    let settings = SETTINGS.iter().filter_map(|name| {
        let value = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
        Some(((*name).to_owned(), short(&value)))
    });
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let interface = connection.local_addr().ok().and_then(|address| interface_of(&address));
    let mtu = interface.as_deref().and_then(|name| mtu_of(connection, name));
    Side {
        kernel: short(&kernel),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        interface: interface.map(|name| short(&name)),
        mtu,
        settings: settings.collect(),
    }
}

/// Numbers of a setting: `tcp_rmem` has three.
pub fn numbers(side: &Side, name: &str) -> Option<Vec<u64>> {
    side.settings.get(name)?.split_whitespace().map(|word| word.parse().ok()).collect()
}

/// A setting that is one number.
pub fn number(side: &Side, name: &str) -> Option<u64> {
    numbers(side, name)?.first().copied()
}

fn short(text: &str) -> String {
    let kept: String = text.trim().chars().filter(|c| !c.is_control() || *c == '\t').collect();
    let mut end = kept.len().min(SETTING_BYTES_MAX);
    while !kept.is_char_boundary(end) {
        end -= 1;
    }
    kept[..end].to_owned()
}

/// The interface that has this address.
fn interface_of(address: &SocketAddr) -> Option<String> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the list is the system's, read only, and given back below.
    unsafe {
        if libc::getifaddrs(&raw mut list) != 0 {
            return None;
        }
        let mut entry = list;
        let mut found = None;
        while let Some(this) = entry.as_ref() {
            if address_of(this.ifa_addr) == Some(unmapped(address.ip())) {
                found = CStr::from_ptr(this.ifa_name).to_str().ok().map(str::to_owned);
                break;
            }
            entry = this.ifa_next;
        }
        libc::freeifaddrs(list);
        found
    }
}

/// An IPv4 address that an IPv6 socket shows as its own kind.
fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// # Safety
/// The pointer is null or to an address of the family that it says.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as the caller promises; the casts follow the family.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let four = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(four.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let six = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(six.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

fn mtu_of(socket: &TcpStream, interface: &str) -> Option<u32> {
    // SAFETY: a zeroed request is valid; the name fits with its NUL; the kernel fills in the number.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        if interface.len() >= request.ifr_name.len() {
            return None;
        }
        for (place, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *place = byte as libc::c_char;
        }
        let done =
            libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as libc::Ioctl, &raw mut request);
        if done != 0 {
            return None;
        }
        u32::try_from(request.ifr_ifru.ifru_mtu).ok()
    }
}
