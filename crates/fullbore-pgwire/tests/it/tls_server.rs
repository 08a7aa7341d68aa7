//! A server with every method of login, and certificates for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use fullbore_pgwire::{ConnectionError, Session};
use fullbore_testing::{Missing, TestCluster, TestServer};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P384_SHA384,
};

use super::tls::connect;

pub const PASSWORD: &str = "hunter2 with 'quotes' and \\ and é";

const HBA: &str = "
local     all all          trust
hostssl   all cert_user    127.0.0.1/32 cert
hostssl   all ssl_only     127.0.0.1/32 scram-sha-256
hostnossl all plain_only   127.0.0.1/32 scram-sha-256
host      all clear_user   127.0.0.1/32 password
host      all md5_user     127.0.0.1/32 md5
host      all trusted_user 127.0.0.1/32 trust
hostssl   all scram_user   127.0.0.1/32 scram-sha-256
hostnossl all scram_user   127.0.0.1/32 scram-sha-256
";

/// A server with every method of login, and the files its clients need.
pub struct Server {
    pub cluster: TestCluster,
    folder: PathBuf,
}

impl Server {
    /// Key=value text for a user; `host` is only what the certificate is held against.
    pub fn text(&self, user: &str, host: &str, more: &str) -> String {
        let password = PASSWORD.replace('\\', "\\\\").replace('\'', "\\'");
        let port = self.cluster.cluster().port;
        format!(
            "host={host} hostaddr=127.0.0.1 port={port} user={user} dbname=postgres \
             password='{password}' sslrootcert={} {more}",
            self.file("root.crt")
        )
    }

    pub fn connect(&self, user: &str, more: &str) -> Result<Session, ConnectionError> {
        connect(&self.text(user, "localhost", more))
    }

    pub fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Issuer {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, "Fullbore test authority");
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Certificate and key (PEM) for names.
fn issue(issuer: &Issuer, common_name: &str, names: &[&str]) -> (String, String) {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// A certificate as `openssl req -x509` makes it: its own authority, the host its common name.
pub fn self_signed() -> (String, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "localhost");
    let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

pub fn start(
    server: TestServer,
    certificate: &str,
    key: &str,
    client_root: &str,
    files: &[(&str, &str)],
) -> Result<Server, Missing> {
    let cluster = TestCluster::builder(server)
        .tcp(PASSWORD)
        .tls(certificate.as_bytes(), key.as_bytes())
        .file("pg_hba.conf", HBA.as_bytes())
        .file("client_root.crt", client_root.as_bytes())
        .setting("ssl_ca_file", "client_root.crt")
        .start()?;
    let password = PASSWORD.replace('\'', "''");
    for (user, encryption) in [
        ("scram_user", "scram-sha-256"),
        ("ssl_only", "scram-sha-256"),
        ("plain_only", "scram-sha-256"),
        ("clear_user", "scram-sha-256"),
        ("trusted_user", "scram-sha-256"),
        ("cert_user", "scram-sha-256"),
        ("md5_user", "md5"),
    ] {
        cluster.psql(&format!(
            "SET password_encryption = '{encryption}'; CREATE ROLE {user} LOGIN PASSWORD '{password}'"
        ));
    }
    // Beside the data folder, and the server's user's like it, to be removed with it.
    let folder = cluster.cluster().data_dir.with_file_name("clients");
    fs::create_dir_all(&folder).unwrap();
    cluster.cluster().run_as().give(&folder).unwrap();
    for (name, content) in files {
        fs::write(folder.join(name), content).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    Ok(Server { cluster, folder })
}

pub fn start_with_authority(server: TestServer) -> Result<Server, Missing> {
    let issuer = authority();
    let (certificate, key) = issue(&issuer, "unused", &["localhost", "db.test"]);
    let (client_certificate, client_key) = issue(&issuer, "cert_user", &[]);
    let files = [
        ("root.crt", issuer.pem()),
        ("other.crt", authority().pem()),
        ("client.crt", client_certificate),
        ("client.key", client_key),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    start(server, &certificate, &key, &issuer.pem(), &files)
}
