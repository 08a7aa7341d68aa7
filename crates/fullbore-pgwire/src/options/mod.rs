//! Where to connect, as whom, and how guarded.
//!
//! Everything is read as libpq reads it: what the connection string says wins over the service
//! file, which wins over the environment, which wins over the defaults; a password that nobody
//! gave is looked up in the password file, host by host.
//!
//! ```
//! use fullbore_pgwire::{ConnectionOptions, Environment};
//!
//! let environment = Environment::empty().with_variable("PGPORT", "6000");
//! let options = ConnectionOptions::resolve(
//!     Some("postgresql://ann:secret@db.example/sales"),
//!     &environment,
//! )
//! .unwrap();
//! assert_eq!(options.redacted(), "postgresql://ann@db.example:6000/sales");
//! assert!(!format!("{options:?}").contains("secret"));
//! ```

mod build;
mod choices;
mod conninfo;
mod passfile;
mod service;
mod settings;
mod stored;
#[cfg(test)]
mod tests;
mod url;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::environment::Environment;
use super::error::ConnectionError;
use super::secret::Secret;
pub use choices::{
    AuthenticationMethod, ChannelBindingMode, RequiredAuthentication, SslMode, SslNegotiation,
    TargetSession,
};
use settings::Settings;
pub use stored::StoredConnection;

/// All that is needed to open a session.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// The servers to try, in this order; at least one.
    pub hosts: Vec<HostOptions>,
    /// Whether to try them in random order instead.
    pub shuffle_hosts: bool,
    /// Which kind of server will do.
    pub target_session: TargetSession,
    /// Whom to log in as.
    pub user: String,
    /// The database.
    pub database: String,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
    /// Command-line options for the server process: `-c work_mem=64MB`.
    pub options: Option<String>,
    /// Settings of the session, sent with the login: (`synchronous_commit`, `off`).
    pub runtime: Vec<(String, String)>,
    /// Bytes of one message of COPY; none: as they come.
    pub message_bytes: Option<usize>,
    /// How long each address may take until the session is ready; none: as long as it takes.
    pub connect_timeout: Option<Duration>,
    /// When to notice that the peer is gone.
    pub keepalive: Keepalive,
    /// Encryption.
    pub tls: TlsOptions,
    /// Whether the login must be bound to the encrypted channel.
    pub channel_binding: ChannelBindingMode,
    /// The methods of login allowed.
    pub required_authentication: RequiredAuthentication,
    /// What was found on the way and a person should hear of: a password file that others can read.
    pub warnings: Vec<String>,
}

/// One server to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostOptions {
    /// Where it is.
    pub host: Host,
    /// Its port; part of the socket's name too.
    pub port: u16,
    /// The password for it.
    pub password: Option<Secret>,
    /// How its packets travel.
    pub way: Way,
}

/// How packets travel to a server; what is not given the system chooses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Way {
    /// Where connections begin on this machine.
    pub source: Option<Source>,
    /// The congestion control, by the kernel's name: `bbr`.
    pub congestion: Option<String>,
    /// Bytes that may wait in a socket. The kernel grows no buffer that is given.
    pub send_buffer: Option<usize>,
}

/// Where connections begin on this machine, if it has several ways out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An address of its own.
    Address(IpAddr),
    /// An interface: `eth1`.
    Interface(String),
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// On the network.
    Tcp {
        /// Name or address, as given; what a certificate must be for.
        name: String,
        /// `hostaddr`: its address, which saves the lookup.
        address: Option<IpAddr>,
    },
    /// On this machine: the folder of its socket.
    Unix {
        /// The folder; with a leading `@`, an abstract name.
        directory: PathBuf,
    },
}

/// TCP keepalive; `None` leaves a figure to the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keepalive {
    /// Whether to probe at all.
    pub enabled: bool,
    /// Silence before the first probe.
    pub idle: Option<Duration>,
    /// Between probes.
    pub interval: Option<Duration>,
    /// Probes lost until the connection counts as lost.
    pub count: Option<u32>,
    /// How long sent data may stay unacknowledged.
    pub user_timeout: Option<Duration>,
}

/// Encryption, as the `ssl...` options say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// How much is demanded of it.
    pub mode: SslMode,
    /// How it begins.
    pub negotiation: SslNegotiation,
    /// Whom to trust.
    pub roots: Roots,
    /// Where a list of revoked certificates is looked for, as libpq does; it may be missing.
    pub revoked: Option<PathBuf>,
    /// The client's certificate.
    pub client: Option<ClientCertificate>,
    /// Whether the host name is sent in clear, for proxies to choose by.
    pub server_name_indication: bool,
    /// Whether TLS 1.2 is refused.
    pub only_1_3: bool,
}

/// Whom to trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roots {
    /// The authorities of this file; it may turn out to be missing.
    File(PathBuf),
    /// The authorities that this system trusts: `sslrootcert=system`.
    System,
    /// Nobody: there is not even a home folder to look in.
    None,
}

/// The files of the client's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, with its chain (PEM).
    pub certificate: PathBuf,
    /// Its private key (PEM).
    pub key: PathBuf,
}

impl ConnectionOptions {
    /// Reads a connection string, and fills in what it leaves open.
    ///
    /// The string is a URL, a `key=value` string or, having neither form, a database's name.
    pub fn resolve(text: Option<&str>, environment: &Environment) -> Result<Self, ConnectionError> {
        let mut settings = match text.map(str::trim).filter(|text| !text.is_empty()) {
            None => Settings::default(),
            Some(text) if url::is_url(text) => url::parse(text)?,
            Some(text) if starts_with_keyword(text) => conninfo::parse(text)?,
            // Not quoted: somebody's URL of another kind, with a password in it.
            Some(text) if text.contains(['=', ':', '@', '/']) => {
                return Err(ConnectionError::usage_with_hint(
                    "the connection string is neither a URL of PostgreSQL nor key=value",
                    "write postgresql://user@host/database or host=... user=... dbname=...",
                ));
            }
            Some(name) => {
                let mut settings = Settings::default();
                settings.set("dbname", name.into())?;
                settings
            }
        };
        if let Some(name) = settings
            .get("service")
            .map(str::to_owned)
            .or_else(|| environment.filled("PGSERVICE").map(Into::into))
        {
            let file = settings.get("servicefile").map(PathBuf::from);
            settings.fill_from(service::look_up(&name, file, environment)?);
        }
        settings.fill_from_environment(environment);
        build::options(&settings, environment)
    }

    /// The same server at another address, from `source`. The port, the password and all else stay as they are for
    /// the first host, where they are not given.
    #[must_use]
    pub fn by_way_of(&self, name: &str, port: Option<u16>, source: Option<Source>) -> Self {
        let first = &self.hosts[0];
        let way = Way { source, ..first.way.clone() };
        let host = HostOptions {
            host: Host::Tcp { name: name.into(), address: None },
            port: port.unwrap_or(first.port),
            password: first.password.clone(),
            way,
        };
        Self { hosts: vec![host], ..self.clone() }
    }

    /// Whether the server is surely on this machine, whichever host answers.
    pub fn is_this_machine(&self) -> bool {
        self.hosts.iter().all(|host| match &host.host {
            Host::Unix { .. } => true,
            Host::Tcp { address: Some(address), .. } => address.is_loopback(),
            Host::Tcp { name, .. } => {
                name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
            }
        })
    }

    /// The connection as a URL, without its password: for logs and records.
    pub fn redacted(&self) -> String {
        let hosts: Vec<String> = self
            .hosts
            .iter()
            .map(|host| match &host.host {
                Host::Tcp { name, .. } if name.contains(':') => format!("[{name}]:{}", host.port),
                Host::Tcp { name, .. } => format!("{}:{}", url::encode(name), host.port),
                Host::Unix { directory } => {
                    format!("{}:{}", url::encode(&directory.to_string_lossy()), host.port)
                }
            })
            .collect();
        let mut text = format!(
            "postgresql://{}@{}/{}",
            url::encode(&self.user),
            hosts.join(","),
            url::encode(&self.database)
        );
        if self.tls.mode != SslMode::Prefer {
            text.push_str(&format!("?sslmode={}", self.tls.mode));
        }
        text
    }
}

/// Whether this looks like `key=value`.
fn starts_with_keyword(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        name.trim_end().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

impl fmt::Display for ConnectionOptions {
    /// As [`ConnectionOptions::redacted`].
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.redacted())
    }
}

impl HostOptions {
    /// Host and port, or the socket's path: for messages.
    pub fn describe(&self) -> String {
        match &self.host {
            Host::Tcp { name, .. } if name.contains(':') => format!("[{name}]:{}", self.port),
            Host::Tcp { name, .. } => format!("{name}:{}", self.port),
            Host::Unix { .. } => self.socket_path().display().to_string(),
        }
    }

    /// The path of the socket, empty for TCP.
    pub(super) fn socket_path(&self) -> PathBuf {
        match &self.host {
            Host::Tcp { .. } => PathBuf::new(),
            Host::Unix { directory } => directory.join(format!(".s.PGSQL.{}", self.port)),
        }
    }
}
