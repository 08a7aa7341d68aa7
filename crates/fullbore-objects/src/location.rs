//! URLs of objects, prefixes and patterns.

use url::Url;

use crate::error::{Error, Kind, Result};

/// The kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    S3,
    Gcs,
    Azure,
    Http,
}

impl Scheme {
    /// What to do where credentials are missing or do not suffice.
    pub(crate) fn credentials_hint(self) -> &'static str {
        match self {
            Self::S3 => {
                "set AWS_PROFILE or --store profile=NAME (`aws sso login` renews a session), or \
                 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for public objects use --store \
                 anonymous, for requester pays --store requester_pays"
            }
            Self::Gcs => {
                "run `gcloud auth application-default login`, or set \
                 GOOGLE_APPLICATION_CREDENTIALS; for public objects use --store anonymous"
            }
            Self::Azure => {
                "run `az login`, or set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN; for \
                 public objects use --store anonymous"
            }
            Self::Http => "name a URL that may be read, such as a signed one",
        }
    }
}

/// A URL of a store, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    pub scheme: Scheme,
    /// The URL up to its key, without secrets; ends with a slash.
    pub root: String,
    /// Bucket, container, or host with its port.
    pub bucket: String,
    /// Azure's account, where the URL names it.
    pub account: Option<String>,
    /// Name of an object, a prefix or a pattern, as it is written.
    pub key: String,
    /// Of HTTP, what follows the path, and who asks: they may hold secrets.
    pub(crate) secret: Secret,
}

/// What of a URL is never said again.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Secret {
    pub query: Option<String>,
    pub user: Option<String>,
    pub password: Option<String>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Schemes, and the store of each.
const SCHEMES: [(&str, Scheme); 10] = [
    ("s3", Scheme::S3),
    ("s3a", Scheme::S3),
    ("gs", Scheme::Gcs),
    ("az", Scheme::Azure),
    ("azure", Scheme::Azure),
    ("abfs", Scheme::Azure),
    ("abfss", Scheme::Azure),
    ("adl", Scheme::Azure),
    ("https", Scheme::Http),
    ("http", Scheme::Http),
];

fn scheme_of(source: &str) -> Option<(Scheme, &str)> {
    let (written, rest) = source.split_once("://")?;
    let known = SCHEMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(written))?;
    Some((known.1, rest))
}

/// Whether a source is the URL of an object store.
pub fn is_url(source: &str) -> bool {
    scheme_of(source).is_some()
}

/// A URL without what may be a secret: of HTTP, user, password and query. Other sources stay as they are.
pub fn without_secrets(source: &str) -> String {
    match scheme_of(source) {
        Some((Scheme::Http, _)) => match Location::parse(source) {
            Ok(location) => format!("{}{}", location.root, location.key),
            Err(_) => "an https URL".to_owned(),
        },
        _ => source.to_owned(),
    }
}

impl Location {
    /// Takes a URL apart.
    ///
    /// # Errors
    /// Where it has no bucket, or no host.
    pub fn parse(source: &str) -> Result<Self> {
        let Some((scheme, rest)) = scheme_of(source) else {
            return Err(Error::new(Kind::Usage, source, "is no URL of an object store"));
        };
        if scheme == Scheme::Http {
            return Self::http(source);
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let wrong =
            |message: &str, hint: &str| Err(Error::new(Kind::Usage, source, message).hinted(hint));
        if bucket.is_empty() {
            return wrong("names no bucket", "write it as s3://BUCKET/KEY");
        }
        let written = &source[..source.len() - rest.len()];
        let root = format!("{written}{bucket}/");
        let key = key.to_owned();
        let mut location = Self {
            scheme,
            root,
            bucket: bucket.to_owned(),
            account: None,
            key,
            secret: Secret::default(),
        };
        match (scheme, bucket.split_once('@')) {
            (Scheme::Azure, Some((container, host))) => {
                location.account = host.split('.').next().map(str::to_owned);
                location.bucket = container.to_owned();
            }
            // A key pair in the URL, as old tools have it, would end in shell histories and records.
            (_, Some(_)) => {
                return Err(Error::new(Kind::Usage, "the URL", "holds credentials")
                    .hinted("set them in the environment, or in a profile"));
            }
            (_, None) => {}
        }
        Ok(location)
    }

    fn http(source: &str) -> Result<Self> {
        let wrong = |message: String| Err(Error::new(Kind::Usage, "an https URL", message));
        let url = match Url::parse(source) {
            Ok(url) => url,
            Err(error) => return wrong(format!("can't be read: {error}")),
        };
        let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
            return wrong("names no host".to_owned());
        };
        let bucket = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let user = Some(url.username()).filter(|user| !user.is_empty()).map(str::to_owned);
        let secret = Secret {
            query: url.query().map(str::to_owned),
            user,
            password: url.password().map(str::to_owned),
        };
        Ok(Self {
            scheme: Scheme::Http,
            root: format!("{}://{bucket}/", url.scheme()),
            bucket,
            account: None,
            key: url.path().trim_start_matches('/').to_owned(),
            secret,
        })
    }

    /// The URL of an object of the same bucket.
    pub fn url_of(&self, key: &str) -> String {
        format!("{}{key}", self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let found = |source: &str| {
            let found = Location::parse(source).expect(source);
            (found.scheme, found.root, found.bucket, found.key)
        };
        let of = |scheme, root: &str, bucket: &str, key: &str| {
            (scheme, root.to_owned(), bucket.to_owned(), key.to_owned())
        };
        assert_eq!(found("s3://b/a b/*.csv"), of(Scheme::S3, "s3://b/", "b", "a b/*.csv"));
        assert_eq!(found("s3://b"), of(Scheme::S3, "s3://b/", "b", ""));
        let azure = Location::parse("abfss://c@acc.dfs.core.windows.net/x").expect("a URL");
        assert_eq!((azure.account.as_deref(), azure.bucket.as_str()), (Some("acc"), "c"));
        let signed = "https://me:pw@h.example:8443/a%20b/c.csv?X-Amz-Signature=s3cr3t";
        assert_eq!(
            found(signed),
            of(Scheme::Http, "https://h.example:8443/", "h.example:8443", "a%20b/c.csv")
        );
        assert_eq!(without_secrets(signed), "https://h.example:8443/a%20b/c.csv");
        assert_eq!(without_secrets("s3://b/a?.csv"), "s3://b/a?.csv");
        assert!(!format!("{:?}", Location::parse(signed)).contains("s3cr3t"));
    }

    #[test]
    fn urls_without_a_place_or_with_keys_are_refused() {
        for wrong in ["s3://", "s3:///a", "https://", "ftp://h/a", "s3://key:secret@bucket/a"] {
            let error = Location::parse(wrong).expect_err(wrong);
            assert_eq!(error.kind, Kind::Usage);
            assert!(!error.url.contains("secret"), "{error:?}");
        }
    }
}
