//! What has to be read from a certificate besides what rustls reads.

use rustls::pki_types::UnixTime;
use rustls::{CertificateError, Error};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::referenced::OwnedToRef;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::spki::{AlgorithmIdentifierOwned, AlgorithmIdentifierRef};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const RSA_PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");

/// The hash to which a login is bound (`tls-server-end-point`, RFC 5929): of the whole
/// certificate, by the algorithm of its signature. `None` where that names no hash (Ed25519).
pub(crate) fn channel_binding_hash(der: &[u8]) -> Option<Vec<u8>> {
    let certificate = Certificate::from_der(der).ok()?;
    let algorithm = &certificate.signature_algorithm;
    let oid = match algorithm.oid == RSA_PSS {
        true => hash_of_pss(algorithm)?,
        false => algorithm.oid,
    };
    Some(match oid.to_string().as_str() {
        // MD5 and SHA-1 are too weak; the RFC puts SHA-256 in their place.
        "1.2.840.113549.1.1.4"
        | "1.2.840.113549.1.1.5"
        | "1.2.840.10045.4.1"
        | "1.3.14.3.2.26"
        | "1.2.840.113549.1.1.11"
        | "1.2.840.10045.4.3.2"
        | "2.16.840.1.101.3.4.2.1" => Sha256::digest(der).to_vec(),
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" | "2.16.840.1.101.3.4.2.2" => {
            Sha384::digest(der).to_vec()
        }
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" | "2.16.840.1.101.3.4.2.3" => {
            Sha512::digest(der).to_vec()
        }
        "1.2.840.113549.1.1.14" | "1.2.840.10045.4.3.1" | "2.16.840.1.101.3.4.2.4" => {
            Sha224::digest(der).to_vec()
        }
        _ => return None,
    })
}

/// RSASSA-PSS names its hash in the first of its parameters, `[0] AlgorithmIdentifier`, and means
/// SHA-1 where it is left out.
fn hash_of_pss(algorithm: &AlgorithmIdentifierOwned) -> Option<ObjectIdentifier> {
    const SHA_1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");
    let reference = algorithm.owned_to_ref();
    let parameters = reference.parameters?.value();
    match parameters {
        [0xa0, length, rest @ ..] if *length < 0x80 => {
            let inner = rest.get(..usize::from(*length))?;
            Some(AlgorithmIdentifierRef::from_der(inner).ok()?.oid)
        }
        _ => Some(SHA_1),
    }
}

/// Refuses a certificate before its time and after it.
pub(super) fn check_dates(der: &[u8], now: UnixTime) -> Result<(), Error> {
    let bad = |error| Error::InvalidCertificate(error);
    let certificate = Certificate::from_der(der).map_err(|_| bad(CertificateError::BadEncoding))?;
    let validity = &certificate.tbs_certificate.validity;
    if now.as_secs() < validity.not_before.to_unix_duration().as_secs() {
        return Err(bad(CertificateError::NotValidYet));
    }
    if now.as_secs() > validity.not_after.to_unix_duration().as_secs() {
        return Err(bad(CertificateError::Expired));
    }
    Ok(())
}

/// Whether a certificate is for this host by its common name, which counts only where it names
/// no host by a subject alternative name.
pub(super) fn common_name_fits(der: &[u8], host: &str) -> bool {
    let Ok(certificate) = Certificate::from_der(der) else {
        return false;
    };
    let certificate = &certificate.tbs_certificate;
    match certificate.get::<SubjectAltName>() {
        Ok(Some((_, names))) if names.0.iter().any(names_a_host) => return false,
        Ok(_) => {}
        Err(_) => return false,
    }
    // Of several, the first, as libpq.
    let mut attributes = certificate.subject.0.iter().flat_map(|part| part.0.iter());
    attributes
        .find(|attribute| attribute.oid == COMMON_NAME)
        .and_then(|attribute| std::str::from_utf8(attribute.value.value()).ok())
        .is_some_and(|pattern| fits(pattern, host))
}

fn names_a_host(name: &GeneralName) -> bool {
    matches!(name, GeneralName::DnsName(_) | GeneralName::IpAddress(_))
}

/// libpq's rule: `*.` stands for one label, the first, and never for part of an address.
fn fits(pattern: &str, host: &str) -> bool {
    if pattern.is_empty() || pattern.contains('\0') {
        return false;
    }
    if pattern.eq_ignore_ascii_case(host) {
        return true;
    }
    let Some(domain) = pattern.strip_prefix("*.") else {
        return false;
    };
    host.parse::<std::net::IpAddr>().is_err()
        && host
            .split_once('.')
            .is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(domain))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn common_names() {
        assert!(fits("db.example", "DB.example"));
        assert!(fits("*.example", "db.example"));
        for (pattern, host) in [
            ("*.example", "a.b.example"),
            ("*.example", "example"),
            ("*.example", ".example"),
            ("*.0.0.1", "127.0.0.1"),
            ("d*.example", "db.example"),
            ("", ""),
            ("db.example\0.evil", "db.example"),
        ] {
            assert!(!fits(pattern, host), "{pattern} {host}");
        }
    }

    #[test]
    fn garbage_is_no_certificate() {
        for bytes in [&b""[..], b"\x30", b"\x30\x82\xff\xff", &[0xff; 64]] {
            assert_eq!(channel_binding_hash(bytes), None);
            assert!(!common_name_fits(bytes, "host"));
            assert!(check_dates(bytes, UnixTime::now()).is_err());
        }
    }

    /// By `openssl req -x509 -newkey rsa:2048 -sha384 -sigopt rsa_padding_mode:pss`, the hash by
    /// `sha384sum`.
    #[test]
    fn the_hash_of_a_pss_certificate() {
        let der = CertificateDer::from_pem_slice(include_bytes!("pss.crt")).unwrap();
        let hash = channel_binding_hash(&der).unwrap();
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "8da09d25d636315aa64ea866ea97af9b4a80bdc188af5dd3\
             17bf49316980a4f24cff2d21f8a9465b813fa22ad9f32cfb"
        );
    }

    #[test]
    fn the_hash_follows_the_signature() {
        let length = |algorithm| {
            let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
            let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
            channel_binding_hash(certificate.der()).map(|hash| hash.len())
        };
        assert_eq!(length(&rcgen::PKCS_ECDSA_P256_SHA256), Some(32));
        assert_eq!(length(&rcgen::PKCS_ECDSA_P384_SHA384), Some(48));
        assert_eq!(length(&rcgen::PKCS_ED25519), None);
    }
}
