//! From options by name to options that mean something.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::environment::Environment;
use super::super::error::ConnectionError;
use super::super::secret::Secret;
use super::choices::{
    ChannelBindingMode, RequiredAuthentication, SslMode, SslNegotiation, TargetSession,
};
use super::settings::Settings;
use super::{
    ClientCertificate, ConnectionOptions, Host, HostOptions, Keepalive, Roots, TlsOptions, Way,
    passfile,
};

const DEFAULT_PORT: u16 = 5432;
pub(super) const APPLICATION_NAME: &str = "fullbore";

/// Reads every option and fills in the defaults.
pub(super) fn options(
    settings: &Settings,
    environment: &Environment,
) -> Result<ConnectionOptions, ConnectionError> {
    settings.check_all()?;
    let encoding = settings.get("client_encoding").unwrap_or("auto").to_ascii_lowercase();
    if !["auto", "utf8", "utf-8", "unicode"].contains(&encoding.as_str()) {
        return Err(ConnectionError::usage_with_hint(
            format!("client_encoding={encoding} can't be used: Fullbore sends UTF-8"),
            "leave it out; the encoding of the files is an option of the load",
        ));
    }
    // Encryption by GSSAPI can be declined like any other, but not when it is demanded.
    if settings.get("gssencmode") == Some("require") {
        return Err(ConnectionError::usage("Fullbore does not support gssencmode=require"));
    }
    let user = settings.get("user").or(environment.user()).ok_or_else(|| {
        ConnectionError::usage_with_hint(
            "no user to log in as, and this process's user has no name",
            "give it in the URL (postgresql://user@host/database) or in PGUSER",
        )
    })?;
    let database = settings.get("dbname").unwrap_or(user);
    let mut warnings = Vec::new();
    let mut hosts = hosts(settings, environment)?;
    find_passwords(&mut hosts, settings, environment, database, user, &mut warnings);

    Ok(ConnectionOptions {
        hosts,
        shuffle_hosts: match settings.get("load_balance_hosts") {
            None | Some("disable") => false,
            Some("random") => true,
            Some(other) => {
                return Err(ConnectionError::usage(format!(
                    "load_balance_hosts={other} is unknown; it is one of disable, random"
                )));
            }
        },
        target_session: settings
            .get("target_session_attrs")
            .map_or(Ok(TargetSession::Any), TargetSession::parse)?,
        user: user.into(),
        database: database.into(),
        application_name: settings
            .get("application_name")
            .or(settings.get("fallback_application_name"))
            .unwrap_or(APPLICATION_NAME)
            .into(),
        options: settings.get("options").map(Into::into),
        runtime: runtime(environment),
        message_bytes: None,
        connect_timeout: duration(settings, "connect_timeout", Duration::from_secs)?,
        keepalive: keepalive(settings)?,
        tls: tls(settings, environment)?,
        channel_binding: settings
            .get("channel_binding")
            .map_or(Ok(ChannelBindingMode::Prefer), ChannelBindingMode::parse)?,
        required_authentication: settings
            .get("require_auth")
            .map_or(Ok(RequiredAuthentication::default()), RequiredAuthentication::parse)?,
        warnings,
    })
}

/// Settings that libpq sends with the login where a variable names them, "default" for the server's own
/// (`EnvironmentOptions` in fe-connect.c).
const LOGIN_SETTINGS: [(&str, &str); 2] = [("PGDATESTYLE", "DateStyle"), ("PGTZ", "TimeZone")];

fn runtime(environment: &Environment) -> Vec<(String, String)> {
    let filled = LOGIN_SETTINGS.iter().filter_map(|(variable, name)| {
        let value = environment.filled(variable)?;
        (!value.eq_ignore_ascii_case("default")).then(|| ((*name).into(), value.into()))
    });
    filled.collect()
}

fn hosts(
    settings: &Settings,
    environment: &Environment,
) -> Result<Vec<HostOptions>, ConnectionError> {
    let list = |name: &str| -> Vec<&str> {
        settings.get(name).map_or_else(Vec::new, |text| text.split(',').map(str::trim).collect())
    };
    let (names, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
    let count = names.len().max(addresses.len()).max(1);
    let fits = |values: &[&str]| values.is_empty() || values.len() == count;
    if !fits(&names) || !fits(&addresses) {
        return Err(ConnectionError::usage(format!(
            "{} host names don't match {} addresses (hostaddr)",
            names.len(),
            addresses.len()
        )));
    }
    if !fits(&ports) && ports.len() != 1 {
        return Err(ConnectionError::usage(format!(
            "{} ports don't match {count} hosts",
            ports.len()
        )));
    }
    (0..count)
        .map(|index| {
            let port = port(ports.get(index).or(ports.first()).copied().unwrap_or_default())?;
            let at = |values: &[&str]| values.get(index).copied().unwrap_or_default().to_owned();
            Ok(HostOptions {
                host: host(at(&names), &at(&addresses), port, environment)?,
                port,
                password: None,
                way: Way::default(),
            })
        })
        .collect()
}

fn port(text: &str) -> Result<u16, ConnectionError> {
    if text.is_empty() {
        return Ok(DEFAULT_PORT);
    }
    text.parse().ok().filter(|&port| port != 0).ok_or_else(|| {
        ConnectionError::usage(format!("port {text} is not a number from 1 to 65535"))
    })
}

fn host(
    name: String,
    address: &str,
    port: u16,
    environment: &Environment,
) -> Result<Host, ConnectionError> {
    if !address.is_empty() {
        let address: IpAddr = address.parse().map_err(|_| {
            ConnectionError::usage(format!("hostaddr={address} is not an IP address"))
        })?;
        let name = if name.is_empty() { address.to_string() } else { name };
        return Ok(Host::Tcp { name, address: Some(address) });
    }
    if name.starts_with(['/', '@']) {
        return Ok(Host::Unix { directory: name.into() });
    }
    if !name.is_empty() {
        // Never quoted: in a URL gone wrong this may be the end of a password.
        if name.contains(['@', '/']) || name.contains(char::is_whitespace) {
            return Err(ConnectionError::usage_with_hint(
                "the host's name has characters that no host name has",
                "inside user and password of a URL, write @ as %40 and / as %2F",
            ));
        }
        return Ok(Host::Tcp { name, address: None });
    }
    let directories = environment.socket_directories();
    let has_socket = |directory: &&PathBuf| {
        is_trustworthy(&directory.join(format!(".s.PGSQL.{port}")), directory, environment)
    };
    Ok(match directories.iter().find(has_socket).or(directories.first()) {
        Some(directory) => Host::Unix { directory: directory.clone() },
        None => Host::Tcp { name: "localhost".into(), address: None },
    })
}

/// Whether a socket that nobody named may be taken for the server's: where everybody may put one, it has to
/// be root's, our own, or that of the user whom servers run as.
fn is_trustworthy(socket: &Path, directory: &Path, environment: &Environment) -> bool {
    const WRITABLE_BY_ALL: u32 = 0o002;
    let (Ok(socket), Ok(directory)) = (socket.metadata(), directory.metadata()) else {
        return false;
    };
    let own = rustix::process::geteuid().as_raw();
    directory.mode() & WRITABLE_BY_ALL == 0
        || [0, own].contains(&socket.uid())
        || environment.server_user() == Some(socket.uid())
}

fn find_passwords(
    hosts: &mut [HostOptions],
    settings: &Settings,
    environment: &Environment,
    database: &str,
    user: &str,
    warnings: &mut Vec<String>,
) {
    if let Some(password) = settings.get("password") {
        for host in hosts {
            host.password = Some(Secret::new(password));
        }
        return;
    }
    let file =
        settings.get("passfile").map(PathBuf::from).or_else(|| environment.at_home(".pgpass"));
    let text = match file.map(|file| passfile::read(&file)) {
        Some(Ok(Some(text))) => text,
        Some(Err(warning)) => return warnings.push(warning),
        Some(Ok(None)) | None => return,
    };
    for host in hosts {
        let name = match &host.host {
            Host::Tcp { name, .. } => name.clone(),
            Host::Unix { directory } if environment.socket_directories().contains(directory) => {
                "localhost".into()
            }
            Host::Unix { directory } => directory.to_string_lossy().into_owned(),
        };
        host.password = passfile::look_up(&text, &name, host.port, database, user);
    }
}

fn number(settings: &Settings, name: &str) -> Result<Option<i32>, ConnectionError> {
    settings
        .get(name)
        .map(|text| {
            text.trim()
                .parse()
                .map_err(|_| ConnectionError::usage(format!("{name}={text} is not a whole number")))
        })
        .transpose()
}

/// Zero and less stand for the default.
fn duration(
    settings: &Settings,
    name: &str,
    unit: fn(u64) -> Duration,
) -> Result<Option<Duration>, ConnectionError> {
    Ok(number(settings, name)?
        .and_then(|value| u64::try_from(value).ok())
        .filter(|&value| value != 0)
        .map(unit))
}

fn keepalive(settings: &Settings) -> Result<Keepalive, ConnectionError> {
    Ok(Keepalive {
        enabled: number(settings, "keepalives")?.unwrap_or(1) != 0,
        idle: duration(settings, "keepalives_idle", Duration::from_secs)?,
        interval: duration(settings, "keepalives_interval", Duration::from_secs)?,
        count: number(settings, "keepalives_count")?
            .and_then(|count| u32::try_from(count).ok())
            .filter(|&count| count != 0),
        user_timeout: duration(settings, "tcp_user_timeout", Duration::from_millis)?,
    })
}

fn tls(settings: &Settings, environment: &Environment) -> Result<TlsOptions, ConnectionError> {
    let roots = match settings.get("sslrootcert") {
        Some("system") => Roots::System,
        Some(file) => Roots::File(file.into()),
        None => environment.at_home(".postgresql/root.crt").map_or(Roots::None, Roots::File),
    };
    let mode = match (settings.get("sslmode"), &roots) {
        (Some(word), _) => SslMode::parse(word)?,
        (None, Roots::System) => SslMode::VerifyFull,
        (None, _) => SslMode::Prefer,
    };
    // Anybody can get a certificate from an authority that the system trusts.
    if roots == Roots::System && mode != SslMode::VerifyFull {
        return Err(ConnectionError::usage_with_hint(
            format!("sslmode={mode} is too weak for sslrootcert=system"),
            "use sslmode=verify-full",
        ));
    }
    let negotiation = settings
        .get("sslnegotiation")
        .map_or(Ok(SslNegotiation::Postgres), SslNegotiation::parse)?;
    if negotiation == SslNegotiation::Direct && mode < SslMode::Require {
        return Err(ConnectionError::usage_with_hint(
            format!("sslmode={mode} is too weak for sslnegotiation=direct"),
            "use sslmode=require or better",
        ));
    }
    Ok(TlsOptions {
        revoked: environment.at_home(".postgresql/root.crl"),
        mode,
        negotiation,
        roots,
        client: client_certificate(settings, environment)?,
        server_name_indication: settings.get("sslsni") != Some("0"),
        only_1_3: match settings.get("ssl_min_protocol_version") {
            None | Some("TLSv1" | "TLSv1.1" | "TLSv1.2") => false,
            Some("TLSv1.3") => true,
            Some(other) => {
                return Err(ConnectionError::usage(format!(
                    "ssl_min_protocol_version={other} is unknown; it is one of TLSv1.2, TLSv1.3"
                )));
            }
        },
    })
}

fn client_certificate(
    settings: &Settings,
    environment: &Environment,
) -> Result<Option<ClientCertificate>, ConnectionError> {
    match settings.get("sslcertmode") {
        Some("disable") => return Ok(None),
        None | Some("allow") => {}
        Some(_) => {
            return Err(ConnectionError::usage("sslcertmode is one of disable, allow"));
        }
    }
    let path = |option: &str, at_home: &str| {
        settings.get(option).map(PathBuf::from).or_else(|| environment.at_home(at_home))
    };
    let certificate = path("sslcert", ".postgresql/postgresql.crt");
    let key = path("sslkey", ".postgresql/postgresql.key");
    let named = settings.get("sslcert").is_some();
    Ok(match (certificate, key) {
        // As libpq: the usual file need not be there.
        (Some(certificate), Some(key)) if named || Path::new(&certificate).exists() => {
            Some(ClientCertificate { certificate, key })
        }
        (Some(_), None) if named => {
            return Err(ConnectionError::usage("sslcert is given, but no sslkey"));
        }
        _ => None,
    })
}
