//! What can go wrong with a store, in words that hold no credential.

use std::error::Error as _;

use crate::list::PIPE_IT;
use crate::location::{Location, without_secrets};

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The URL or the options can't be meant as they stand.
    Usage,
    /// The object is no longer the one that was found.
    Changed,
    NotFound,
    /// No credentials, or they do not suffice.
    Denied,
    /// The store has refused it, and would again.
    Refused,
    /// It may be done at another time.
    Failed,
}

/// A failure at a store.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub kind: Kind,
    /// The object, pattern or bucket, without secrets.
    pub url: String,
    /// What happened: of [`Kind::Changed`] how the object differs, else the predicate of a sentence about
    /// the URL.
    pub message: String,
    pub hint: Option<String>,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Characters of a server's answer that are said again.
const ANSWER_MAX: usize = 300;

impl Error {
    pub(crate) fn new(kind: Kind, url: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, url: url.into(), message: message.into(), hint: None }
    }

    pub(crate) fn hinted(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// A failure of a request about one object or bucket.
    pub(crate) fn of(location: &Location, url: &str, error: &object_store::Error) -> Self {
        Self::doing("read", location, url, error)
    }

    /// The same of what was to be done: `read`, `written`.
    pub(crate) fn doing(
        done: &str,
        location: &Location,
        url: &str,
        error: &object_store::Error,
    ) -> Self {
        use object_store::Error as Of;
        let told = Told::by(error);
        let words = |what: &str| format!("{what}{}", told.words());
        match error {
            Of::Precondition { .. } => Self::new(Kind::Changed, url, "it was replaced"),
            _ if told.status == Some(404) => Self::new(
                Kind::NotFound,
                url,
                words("does not exist"),
            )
            .hinted(
                "check bucket and key, and that the objects of a load stay in place until it ends",
            ),
            Of::PermissionDenied { .. } | Of::Unauthenticated { .. } => Self::new(
                Kind::Denied,
                url,
                words(&format!("may not be {done} with the credentials in use")),
            )
            .hinted(location.scheme.credentials_hint()),
            _ if told.is_redirect => Self::new(Kind::Refused, url, words("is in another region"))
                .hinted("name the region of the bucket with --store region=NAME"),
            _ if told.is_credentials => {
                Self::new(Kind::Denied, url, words(&format!("can't be {done}")))
                    .hinted(location.scheme.credentials_hint())
            }
            _ if told.ignores_ranges => {
                Self::new(Kind::Refused, url, "can't be read in ranges: its server sends all of it")
                    .hinted(PIPE_IT)
            }
            _ if told.is_final() => {
                Self::new(Kind::Refused, url, words(&format!("can't be {done}")))
            }
            _ => Self::new(Kind::Failed, url, words(&format!("can't be {done}")))
                .hinted("the request was repeated for some time; check the store and the network"),
        }
    }
}

/// What a failed request tells, without its address: that may hold a signature.
#[derive(Debug, Default)]
struct Told {
    status: Option<u16>,
    code: Option<String>,
    message: Option<String>,
    request: Option<String>,
    /// The last cause, where the server gave no answer.
    cause: Option<String>,
    is_redirect: bool,
    is_credentials: bool,
    ignores_ranges: bool,
}

impl Told {
    fn by(error: &object_store::Error) -> Self {
        let mut told = Self::default();
        let mut next: Option<&(dyn std::error::Error + 'static)> = error.source();
        let all = error.to_string();
        told.is_redirect = all.contains("redirect without LOCATION");
        told.ignores_ranges = all.contains("non-partial response")
            || all.contains("Range request not supported")
            || all.contains("Content-Range header not present");
        while let Some(cause) = next {
            let text = cause.to_string();
            told.is_credentials |=
                text.contains(crate::credentials::NONE_FOUND) || text.contains("metadata");
            if cause.source().is_none() {
                told.cause = Some(text);
            }
            next = cause.source();
        }
        // The answer itself is within the text alone: its type is not exported.
        if let Some(rest) = all.split("non-2xx status code: ").nth(1) {
            told.status = rest.get(..3).and_then(|status| status.parse().ok());
        }
        let element = |name: &str| -> Option<String> {
            let from = all.split(&format!("<{name}>")).nth(1)?;
            let text = from.split('<').next()?.trim();
            Some(text.chars().take(ANSWER_MAX).collect()).filter(|text: &String| !text.is_empty())
        };
        told.code = element("Code");
        told.message = element("Message");
        told.request = element("RequestId");
        if told.status.is_some() {
            told.cause = None;
            told.is_credentials = false;
        }
        told
    }

    /// Whether another try would come to the same.
    fn is_final(&self) -> bool {
        self.status.is_some_and(|status| matches!(status, 400..500) && !matches!(status, 408 | 429))
    }

    /// All of it, to stand behind a predicate.
    fn words(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.status.map(|status| format!("HTTP status {status}")));
        parts.extend(self.code.clone());
        parts.extend(self.message.as_deref().map(without_addresses));
        parts.extend(self.request.as_ref().map(|id| format!("request ID {id}")));
        parts.extend(self.cause.as_deref().map(without_addresses));
        if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) }
    }
}

/// A text whose URLs have lost what may be a secret.
fn without_addresses(text: &str) -> String {
    let words = text.chars().take(ANSWER_MAX).collect::<String>();
    let words = words.split(' ').map(|word| match word.contains("://") {
        true => without_secrets(word.trim_matches(['(', ')', '"', ','])),
        false => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}
