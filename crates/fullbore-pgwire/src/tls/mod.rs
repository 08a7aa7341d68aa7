//! Encryption, with libpq's rules of whom to trust.

pub(super) mod certificate;
mod verifier;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, version};

use super::error::ConnectionError;
use super::options::{ClientCertificate, Host, HostOptions, Roots, SslMode, TlsOptions};
use verifier::{Trust, Verifier};

/// The name of the protocol inside, by which proxies tell it from others.
const PROTOCOL: &[u8] = b"postgresql";

/// All that is needed to encrypt a connection to one host.
#[derive(Clone)]
pub struct TlsContext {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsContext {
    /// Reads the certificates that the options name.
    pub(super) fn new(options: &TlsOptions, host: &HostOptions) -> Result<Self, ConnectionError> {
        let target = host.describe();
        let fail =
            |reason: String, hint| ConnectionError::Tls { target: target.clone(), reason, hint };
        let Host::Tcp { name, .. } = &host.host else {
            return Err(fail("a socket on this machine is never encrypted".into(), None));
        };
        let server_name = match ServerName::try_from(name.clone()) {
            Ok(name) => name,
            Err(_) if options.mode == SslMode::VerifyFull => {
                return Err(fail(
                    format!("{name} is not a valid host name for a certificate"),
                    None,
                ));
            }
            // Nothing will be held against it, and nothing sent of it.
            Err(_) => ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Verifier::new(trust(options, &fail)?, &provider);
        let versions: &[_] = match options.only_1_3 {
            true => &[&version::TLS13],
            false => &[&version::TLS13, &version::TLS12],
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| fail(error.to_string(), None))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &options.client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let (chain, key) = read_client(client)
                    .map_err(|reason| fail(reason, Some("see sslcert and sslkey")))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| fail(format!("the client's certificate: {error}"), None))?
            }
        };
        config.alpn_protocols = vec![PROTOCOL.into()];
        config.enable_sni = options.server_name_indication;
        // PostgreSQL does not resume sessions.
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), name: server_name })
    }

    /// The beginning of an encrypted connection.
    pub(super) fn connection(&self, target: &str) -> Result<ClientConnection, ConnectionError> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map_err(|error| self.explain(target, io::Error::other(error)))
    }

    /// Refuses a server that does not say that it speaks PostgreSQL: without the question in
    /// clear before it, the connection may have been led to another service.
    pub(super) fn check_protocol(
        &self,
        target: &str,
        connection: Option<&ClientConnection>,
    ) -> Result<(), ConnectionError> {
        match connection.and_then(|connection| connection.alpn_protocol()) {
            Some(PROTOCOL) => Ok(()),
            _ => Err(ConnectionError::Tls {
                target: target.into(),
                reason: "the server does not speak PostgreSQL directly over TLS".into(),
                hint: Some("servers do since 17; before, use sslnegotiation=postgres"),
            }),
        }
    }

    /// A failed handshake in words.
    pub(super) fn explain(&self, target: &str, error: io::Error) -> ConnectionError {
        use rustls::CertificateError as Bad;
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let (reason, hint) = match tls {
            Some(rustls::Error::InvalidCertificate(bad)) => match bad {
                Bad::NotValidForName | Bad::NotValidForNameContext { .. } => (
                    format!("the server's certificate is not for {}", self.name.to_str()),
                    Some("connect by the name in the certificate, or use sslmode=verify-ca"),
                ),
                // The second: an authority of the same name, with another key.
                Bad::UnknownIssuer | Bad::BadSignature => (
                    "the server's certificate is not signed by a trusted authority".into(),
                    Some("set sslrootcert to the authority's certificate"),
                ),
                Bad::Expired | Bad::ExpiredContext { .. } => {
                    ("the server's certificate has expired".into(), None)
                }
                Bad::NotValidYet | Bad::NotValidYetContext { .. } => (
                    "the server's certificate is not valid yet".into(),
                    Some("check this machine's clock"),
                ),
                other => (format!("the server's certificate is not accepted: {other}"), None),
            },
            Some(other) => (other.to_string(), None),
            None if error.kind() == io::ErrorKind::TimedOut => {
                return ConnectionError::Refused { target: target.into(), source: error };
            }
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                ("the server closed the connection during the handshake".into(), None)
            }
            None => (error.to_string(), None),
        };
        ConnectionError::Tls { target: target.into(), reason, hint }
    }
}

/// How far to trust whom. As in libpq, an authority's certificate that is there is held against
/// the server in every mode; it must be there only for the modes that verify.
fn trust(
    options: &TlsOptions,
    fail: &impl Fn(String, Option<&'static str>) -> ConnectionError,
) -> Result<Trust, ConnectionError> {
    let certificates = match &options.roots {
        Roots::System => rustls_native_certs::load_native_certs().certs,
        Roots::File(file) if file.exists() => read_certificates(file)
            .map_err(|reason| fail(reason, Some("sslrootcert names a file in PEM format")))?,
        Roots::File(_) | Roots::None if options.mode < SslMode::VerifyCa => {
            return Ok(Trust::Anybody);
        }
        Roots::File(file) => {
            return Err(fail(
                format!("the file of trusted authorities, {}, does not exist", file.display()),
                Some("name one with sslrootcert, or take the system's: sslrootcert=system"),
            ));
        }
        Roots::None => {
            return Err(fail(
                "no file of trusted authorities is named".into(),
                Some("name one with sslrootcert, or take the system's: sslrootcert=system"),
            ));
        }
    };
    // As by libpq, in every mode in which there are authorities.
    if let Some(list) = options.revoked.as_ref().filter(|list| list.exists()) {
        return Err(fail(
            format!("{} lists revoked certificates, which Fullbore does not check", list.display()),
            Some("move it away to connect without this check, or use a client that supports it"),
        ));
    }
    let check_name = options.mode == SslMode::VerifyFull;
    Trust::authorities(certificates, check_name).map_err(|reason| fail(reason, None))
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let fail = |error: &dyn std::fmt::Display| {
        format!("could not read certificates from {}: {error}", file.display())
    };
    let certificates = CertificateDer::pem_file_iter(file)
        .map_err(|error| fail(&error))?
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| fail(&error))?;
    if certificates.is_empty() {
        return Err(fail(&"there are none in it"));
    }
    Ok(certificates)
}

fn read_client(
    client: &ClientCertificate,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain = read_certificates(&client.certificate)?;
    let fail = |error: &dyn std::fmt::Display| {
        format!("could not read the private key {}: {error}", client.key.display())
    };
    let metadata = client.key.metadata().map_err(|error| fail(&error))?;
    // libpq's rule: root may share a key with a group, nobody else may share one at all.
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & forbidden != 0 {
        return Err(fail(&"others can read it; run chmod 600"));
    }
    let key = PrivateKeyDer::from_pem_file(&client.key).map_err(|error| fail(&error))?;
    Ok((chain, key))
}
