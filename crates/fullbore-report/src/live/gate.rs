//! Access control: a request needs the token, and one of this machine's own names.

use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::routes::Shared;

const TOKEN_BYTES: usize = 16;

/// What an URL must hold. It is made anew for each server.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// Compares all of it, however early it differs: the time tells nothing of where that is.
    fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differs =
            own.iter().enumerate().fold(own.len() ^ given.len(), |differs, (at, byte)| {
                let other = given.get(at).copied().unwrap_or_default();
                std::hint::black_box(differs | usize::from(byte ^ other))
            });
        differs == 0
    }
}

#[derive(Deserialize)]
struct Asked {
    token: Option<String>,
}

/// Lets a request pass, or not; what passes is answered in a way that leaves browsers little to do
/// with it.
pub async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut response = match check(&shared, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    let policy = format!("{}; frame-ancestors 'none'", crate::html::policy(true));
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, policy.as_str()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        if let Ok(value) = header::HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    response
}

fn check(shared: &Shared, request: &Request) -> Result<(), (StatusCode, &'static str)> {
    let of_header = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let of_uri = request.uri().authority().map(axum::http::uri::Authority::as_str);
    // Both are looked at where both are there: which one others go by is not known here.
    let mut hosts = of_header.into_iter().chain(of_uri).peekable();
    if hosts.peek().is_none() || !hosts.all(|host| shared.place.is_own(host)) {
        return Err((StatusCode::MISDIRECTED_REQUEST, "This host name is not served here.\n"));
    }
    let asked = Query::<Asked>::try_from_uri(request.uri()).ok().and_then(|Query(it)| it.token);
    let given = asked.or_else(|| bearer(request.headers()));
    match given.is_some_and(|given| shared.token.is(&given)) {
        true => Ok(()),
        false => Err((
            StatusCode::FORBIDDEN,
            "The token is missing or wrong: use the URL that Fullbore printed.\n",
        )),
    }
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_are_long_and_never_the_same() {
        let (one, other) = (Token::random().expect("random"), Token::random().expect("random"));
        assert_eq!(one.text().len(), 2 * TOKEN_BYTES);
        assert_ne!(one.text(), other.text());
        assert!(one.is(one.text()) && !one.is(other.text()));
    }

    proptest! {
        /// Only the token itself opens.
        #[test]
        fn nothing_else_is_the_token(given in "[0-9a-f]{0,40}", at in 0..2 * TOKEN_BYTES) {
            let token = Token::random().expect("random");
            prop_assert!(given == token.text() || !token.is(&given));
            let mut near = token.text().as_bytes().to_vec();
            near[at] ^= 1;
            prop_assert!(!token.is(std::str::from_utf8(&near).expect("ASCII")));
            prop_assert!(!token.is(&token.text()[..at]));
            let longer = token.text().to_owned() + &given + "0";
            prop_assert!(!token.is(&longer));
        }
    }
}
