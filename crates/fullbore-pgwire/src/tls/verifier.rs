//! Is this the server we meant?
//!
//! The proof itself is left to rustls. Added are two habits of PostgreSQL's world that rustls
//! does not share: a certificate that signs itself and is its own authority, and a certificate
//! that has the host's name only as its common name.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::certificate;

/// How far to trust whom.
#[derive(Debug)]
pub(super) enum Trust {
    /// Encrypted to whoever it is.
    Anybody,
    /// To a server with a certificate from these.
    Authorities {
        roots: RootCertStore,
        /// The same certificates as they came: a server may show one of them as its own.
        known: Vec<CertificateDer<'static>>,
        /// Whether it must be for this host.
        check_name: bool,
    },
}

impl Trust {
    pub(super) fn authorities(
        certificates: Vec<CertificateDer<'static>>,
        check_name: bool,
    ) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        // A certificate that can't be an authority can still be a server's own, known one.
        roots.add_parsable_certificates(certificates.iter().cloned());
        if certificates.is_empty() {
            return Err("this system trusts no authority".into());
        }
        Ok(Self::Authorities { roots, known: certificates, check_name })
    }
}

/// Answers rustls's questions.
#[derive(Debug)]
pub(super) struct Verifier {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(trust: Trust, provider: &CryptoProvider) -> Self {
        Self { trust, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Trust::Authorities { roots, known, check_name } = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        let parsed = ParsedCertificate::try_from(end_entity)?;
        if known.iter().any(|certificate| certificate.as_ref() == end_entity.as_ref()) {
            certificate::check_dates(end_entity, now)?;
        } else {
            verify_server_cert_signed_by_trust_anchor(
                &parsed,
                roots,
                intermediates,
                now,
                self.algorithms.all,
            )?;
        }
        if *check_name {
            verify_server_name(&parsed, server_name).or_else(|error| {
                let by_common_name =
                    matches!(
                        error,
                        Error::InvalidCertificate(
                            CertificateError::NotValidForName
                                | CertificateError::NotValidForNameContext { .. }
                        )
                    ) && certificate::common_name_fits(end_entity, &server_name.to_str());
                if by_common_name { Ok(()) } else { Err(error) }
            })?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

    use super::*;

    type Issuer = CertifiedIssuer<'static, KeyPair>;

    fn params(common_name: &str, names: &[&str]) -> CertificateParams {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        params
    }

    fn authority(name: &str) -> Issuer {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    fn issue(issuer: &Issuer, common_name: &str, names: &[&str]) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        params(common_name, names).signed_by(&key, issuer).unwrap().der().clone()
    }

    fn year(year: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_557_600))
    }

    fn verify(
        root: &CertificateDer<'static>,
        shown: &CertificateDer<'static>,
        host: &'static str,
        now: UnixTime,
    ) -> Result<(), CertificateError> {
        let trust = Trust::authorities(vec![root.clone()], true).unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let name = ServerName::try_from(host).unwrap();
        let result =
            Verifier::new(trust, &provider).verify_server_cert(shown, &[], &name, &[], now);
        result.map(drop).map_err(|error| match error {
            Error::InvalidCertificate(reason) => reason,
            other => panic!("{other}"),
        })
    }

    #[test]
    fn names_and_authorities() {
        let ours = authority("ours");
        let root = ours.der().clone();
        let other = authority("other").der().clone();
        let named = issue(&ours, "common", &["db.test", "10.0.0.1"]);
        let now = year(2025);
        assert_eq!(verify(&root, &named, "db.test", now), Ok(()));
        assert_eq!(verify(&root, &named, "10.0.0.1", now), Ok(()));
        // With names, the common name does not count.
        assert!(verify(&root, &named, "common", now).is_err());
        assert!(verify(&root, &named, "10.0.0.2", now).is_err());
        assert_eq!(verify(&other, &named, "db.test", now), Err(CertificateError::UnknownIssuer));
        let unnamed = issue(&ours, "*.test", &[]);
        assert_eq!(verify(&root, &unnamed, "db.test", now), Ok(()));
        assert!(verify(&root, &unnamed, "db.other", now).is_err());
        // The right name from the wrong authority, also where that shows itself.
        assert!(verify(&other, &root, "ours", now).is_err());
    }

    #[test]
    fn dates() {
        let ours = authority("db.test");
        let root = ours.der().clone();
        let issued = issue(&ours, "db.test", &[]);
        for shown in [&root, &issued] {
            assert_eq!(verify(&root, shown, "db.test", year(2025)), Ok(()));
            assert!(verify(&root, shown, "db.test", year(2019)).is_err());
            assert!(verify(&root, shown, "db.test", year(2031)).is_err());
        }
    }
}
