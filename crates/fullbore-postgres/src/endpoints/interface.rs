//! The network interface by which a server is reached, from the kernel's routes.

use std::cmp::Reverse;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};

use fullbore_pgwire::{ConnectionOptions, Host, Source};

/// The interface of all hosts, where it is one and not the loopback.
pub fn of_all<'a>(ways: impl Iterator<Item = &'a ConnectionOptions>) -> Option<String> {
    let mut names: Vec<Option<String>> = ways
        .flat_map(|way| &way.hosts)
        .map(|host| match (&host.way.source, &host.host) {
            (Some(Source::Interface(name)), _) => Some(name.clone()),
            (_, Host::Tcp { address: Some(address), .. }) => interface_to(*address),
            (_, Host::Tcp { name, .. }) => {
                let address = (name.as_str(), host.port).to_socket_addrs().ok()?.next()?;
                interface_to(address.ip())
            }
            (_, Host::Unix { .. }) => None,
        })
        .collect();
    names.dedup();
    match names.as_slice() {
        [Some(name)] if name != "lo" => Some(name.clone()),
        _ => None,
    }
}

fn interface_to(address: IpAddr) -> Option<String> {
    match address {
        IpAddr::V4(address) => v4(&fs::read_to_string("/proc/net/route").ok()?, address),
        IpAddr::V6(address) => v6(&fs::read_to_string("/proc/net/ipv6_route").ok()?, address),
    }
}

/// The longest route of a table: interface, destination, gateway, flags, 3 numbers, mask.
fn v4(table: &str, address: Ipv4Addr) -> Option<String> {
    // Numbers are printed as they lie in memory.
    let number = |text: &str| {
        u32::from_str_radix(text, 16).ok().map(u32::to_ne_bytes).map(u32::from_be_bytes)
    };
    let routes = table.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, to, mask) = (words.first()?, number(words.get(1)?)?, number(words.get(7)?)?);
        let metric: u32 = words.get(6)?.parse().ok()?;
        let order = (mask.count_ones(), Reverse(metric));
        (u32::from(address) & mask == to).then(|| (order, (*name).to_owned()))
    });
    routes.max_by_key(|(order, _)| *order).map(|(_, name)| name)
}

/// The same: destination, its length, source, its length, gateway, 4 numbers, interface.
fn v6(table: &str, address: Ipv6Addr) -> Option<String> {
    let routes = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let to = u128::from_str_radix(words.first()?, 16).ok()?;
        let length = u32::from_str_radix(words.get(1)?, 16).ok()?;
        let mask = u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0);
        let metric = u32::from_str_radix(words.get(5)?, 16).ok()?;
        let (order, name) = ((length, Reverse(metric)), words.get(9)?);
        // A route to nowhere stands under the loopback.
        (u128::from(address) & mask == to && *name != "lo").then(|| (order, (*name).to_owned()))
    });
    routes.max_by_key(|(order, _)| *order).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_route_counts() {
        let table = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
                     eth0 00000000 0101A8C0 0003 0 0 0 00000000 0 0 0\n\
                     eth1 0002000A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n";
        assert_eq!(v4(table, [10, 0, 2, 5].into()).as_deref(), Some("eth1"));
        assert_eq!(v4(table, [8, 8, 8, 8].into()).as_deref(), Some("eth0"));
        assert_eq!(v4("Iface\n", [8, 8, 8, 8].into()), None);
        let zero = "0".repeat(32);
        let table = format!(
            "fd000000000000000000000000000000 08 {zero} 00 {zero} 100 1 0 1 eth1\n\
             {zero} 00 {zero} 00 {zero} 400 1 0 3 eth0\n{zero} 00 {zero} 00 {zero} 0 1 0 200200 lo\n"
        );
        assert_eq!(v6(&table, "fd12::1".parse().expect("one")).as_deref(), Some("eth1"));
        assert_eq!(v6(&table, "2001::1".parse().expect("one")).as_deref(), Some("eth0"));
    }
}
