//! Where a live page listens, and the names by which it may be asked for.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};

use super::Error;

/// An address to listen on.
#[derive(Debug, Clone)]
pub struct Place {
    addresses: Vec<SocketAddr>,
    /// Names of this machine, beside `localhost` and addresses.
    names: Vec<String>,
}

impl Place {
    /// `ADDRESS`, `ADDRESS:PORT`, a name of this machine in place of the address.
    pub fn of(text: &str) -> Result<Self, Error> {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        let host = match (text.parse::<SocketAddr>(), bare.parse::<IpAddr>()) {
            (Ok(address), _) => return Ok(Self::at(vec![address], None)),
            (_, Ok(ip)) => return Ok(Self::at(vec![SocketAddr::new(ip, 0)], None)),
            _ => text.rsplit_once(':').map_or(text, |(host, _)| host),
        };
        let with_port = if host == text { format!("{text}:0") } else { text.to_owned() };
        let found = with_port.to_socket_addrs();
        let addresses: Vec<SocketAddr> =
            found.map_err(|error| Error::Address(text.into(), error.to_string()))?.collect();
        if addresses.is_empty() {
            return Err(Error::Address(text.into(), "it has no address".into()));
        }
        Ok(Self::at(addresses, Some(host)))
    }

    fn at(addresses: Vec<SocketAddr>, name: Option<&str>) -> Self {
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let short = own.split('.').next().unwrap_or_default().to_owned();
        let mut names: Vec<String> = name.map(str::to_owned).into_iter().collect();
        names.extend([own, short].into_iter().filter(|name| !name.is_empty()));
        Self { addresses, names }
    }

    /// Begins to listen; a name may stand for several addresses, of which the first one serves.
    pub fn listen(&self, text: &str) -> Result<tokio::net::TcpListener, Error> {
        TcpListener::bind(self.addresses.as_slice())
            .and_then(|listener| {
                listener.set_nonblocking(true)?;
                tokio::net::TcpListener::from_std(listener)
            })
            .map_err(|error| Error::Listen(text.into(), error))
    }

    /// An address that was bound, as others can write it.
    pub fn shown(&self, bound: SocketAddr) -> String {
        match (bound.ip().is_unspecified(), self.names.first()) {
            (true, Some(name)) => format!("{name}:{}", bound.port()),
            _ => bound.to_string(),
        }
    }

    /// Whether a page may be asked for by this `Host`. A page of a stranger can make its own name lead
    /// to this machine (DNS rebinding); what is asked for by such a name is not answered. An address
    /// can't be made to lead elsewhere.
    pub fn is_own(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => {
                return rest
                    .split_once(']')
                    .is_some_and(|(ip, port)| ip.parse::<Ipv6Addr>().is_ok() && is_port(port));
            }
            None => match host.split_once(':') {
                Some((name, port)) if is_port(&format!(":{port}")) => name,
                Some(_) => return false,
                None => host,
            },
        };
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// Nothing, or a colon and a port.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Whether only this machine can reach an address.
pub fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for text in
            ["127.0.0.1", "127.0.0.1:0", "::1", "[::1]", "[::1]:0", "localhost", "localhost:0"]
        {
            let place = Place::of(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(place.addresses.iter().all(|address| is_loopback(address.ip())), "{text}");
        }
        assert!(!is_loopback("10.1.2.3".parse().expect("an address")));
        assert!(is_loopback("::ffff:127.0.0.1".parse().expect("an address")));
        for text in ["", "127.0.0.1:http", "127.0.0.1:99999"] {
            assert!(Place::of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_own_names_and_addresses_are_answered() {
        let place = Place::of("127.0.0.1:0").expect("an address");
        for host in
            ["127.0.0.1", "127.0.0.1:80", "localhost:1234", "LOCALHOST", "[::1]:80", "10.0.0.7"]
        {
            assert!(place.is_own(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "[::1].evil.example",
            "[evil]",
            "127.0.0.1:80:80",
            "localhost:port",
            "127.0.0.1@evil.example",
        ] {
            assert!(!place.is_own(host), "{host}");
        }
    }

    proptest! {
        /// Whatever a client sends as its host: a name that is not ours is not taken for one.
        #[test]
        fn no_name_of_a_stranger_is_own(host in "[a-z0-9.:@\\[\\]%-]{0,40}", end in "[a-z]{2,8}") {
            let place = Place::of("127.0.0.1:0").expect("an address");
            let _ = place.is_own(&host);
            let stranger = format!("{host}.{end}.example");
            prop_assert!(!place.is_own(&stranger));
        }
    }
}
