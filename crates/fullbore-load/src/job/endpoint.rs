//! `--endpoint 10.0.2.5:5432,source=eth1,weight=2`: one of several ways to one server.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An address of the server, and where connections to it begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address; IPv6 without its brackets.
    pub host: String,
    /// None: that of the destination.
    pub port: Option<u16>,
    /// An address or an interface of this machine.
    pub source: Option<String>,
    /// Its share under `weighted`.
    pub weight: u32,
}

/// How pieces are divided among several endpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EndpointPolicy {
    /// To the endpoint with the fewest bytes left to send.
    #[default]
    LeastQueue,
    /// To each endpoint in turn.
    RoundRobin,
    /// In turn, each as often as its weight.
    Weighted,
}

impl EndpointPolicy {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::LeastQueue => "least-queue",
            Self::RoundRobin => "round-robin",
            Self::Weighted => "weighted",
        }
    }
}

const WEIGHT_MAX: u32 = 1000;

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',').map(str::trim);
        let (host, port) = host_and_port(parts.next().unwrap_or_default())
            .ok_or_else(|| format!("{text:?} does not begin with a host, or a host and a port"))?;
        let mut endpoint = Self { host, port, source: None, weight: 1 };
        for part in parts {
            match part.split_once('=') {
                Some(("source", source)) if !source.is_empty() => {
                    endpoint.source = Some(source.into());
                }
                Some(("weight", weight)) => {
                    let weight = weight.parse().ok().filter(|n| (1..=WEIGHT_MAX).contains(n));
                    endpoint.weight = weight.ok_or_else(|| {
                        format!(
                            "the weight of endpoint {text:?} is not a number from 1 to {WEIGHT_MAX}"
                        )
                    })?;
                }
                _ => {
                    return Err(format!(
                        "{part:?} of endpoint {text:?} is neither source=... nor weight=..."
                    ));
                }
            }
        }
        Ok(endpoint)
    }
}

/// `db:5432`, `db`, `[::1]:5432`, `::1`.
fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let port = |text: &str| text.parse().ok().filter(|port| *port != 0);
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, after)) => (host, Some(port(after.strip_prefix(':')?)?)),
        None => match text.split_once(':') {
            Some((host, after)) if !after.contains(':') => (host, Some(port(after)?)),
            _ => (text, None),
        },
    };
    let is_host = !host.is_empty() && !host.contains(['/', '@', '=', ' ', '[', ']']);
    is_host.then(|| (host.to_owned(), port))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.host.contains(':'), self.port) {
            (true, Some(port)) => write!(f, "[{}]:{port}", self.host)?,
            (false, Some(port)) => write!(f, "{}:{port}", self.host)?,
            (_, None) => f.write_str(&self.host)?,
        }
        if let Some(source) = &self.source {
            write!(f, ",source={source}")?;
        }
        if self.weight != 1 {
            write!(f, ",weight={}", self.weight)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_they_are_written() {
        for text in [
            "db",
            "db:5433",
            "10.0.2.5:5432,source=eth1",
            "[fe80::1]:5432,source=10.0.2.9,weight=3",
            "::1,weight=2",
        ] {
            let endpoint: Endpoint = text.parse().expect(text);
            assert_eq!(endpoint.to_string(), text);
        }
        let endpoint: Endpoint = "[::1], weight=2 , source=eth0".parse().expect("an endpoint");
        assert_eq!((endpoint.host.as_str(), endpoint.port, endpoint.weight), ("::1", None, 2));
        assert_eq!(endpoint.source.as_deref(), Some("eth0"));
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for wrong in [
            "",
            ":5432",
            "db:0",
            "db:x",
            "db,weight=0",
            "db,weight=x",
            "db,source=",
            "db,port=1",
            "postgresql://db",
            "/run/postgresql",
            "user@db",
            "[::1",
            "[::1]5432",
        ] {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
        }
    }
}
