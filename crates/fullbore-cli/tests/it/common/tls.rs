//! A server that lets nobody in by TCP but with TLS and a password.

use fullbore_testing::{TestCluster, TestServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::Files;

pub const PASSWORD: &str = "s3cret: with \\ and 'quotes'";

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

/// A server that lets nobody in by TCP but with TLS and SCRAM, and two authorities' certificates.
pub fn server(files: &Files) -> Option<TestCluster> {
    let (ours, other) = (authority("ours"), authority("other"));
    files.write("root.crt", ours.pem());
    files.write("other.crt", other.pem());
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &ours).expect("signed").pem();
    let hba = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
    [TestServer::Debian15, TestServer::Debian17].into_iter().find_map(|server| {
        TestCluster::builder(server)
            .tcp(PASSWORD)
            .tls(certificate.as_bytes(), key.serialize_pem().as_bytes())
            .file("pg_hba.conf", hba.as_bytes())
            .start()
            .ok()
    })
}
