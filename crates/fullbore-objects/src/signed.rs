//! URLs that carry a signature or a password: both go with each request and nowhere else.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpService,
};

use crate::location::Secret;
use crate::store::{CONNECT, SILENCE};

/// Adds to each request what the URL said. Where a server sends us on, the next one is not told from where.
#[derive(Debug)]
pub(crate) struct Signed {
    pub secret: Arc<Secret>,
    /// Not encrypted.
    pub is_plain: bool,
}

impl HttpConnector for Signed {
    /// The options are those of every client, and can't be asked.
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = reqwest::Client::builder()
            .user_agent(concat!("fullbore/", env!("CARGO_PKG_VERSION")))
            .referer(false)
            .https_only(!self.is_plain)
            .http1_only()
            .no_gzip()
            .read_timeout(SILENCE)
            .connect_timeout(CONNECT)
            .build()
            .map_err(|error| object_store::Error::Generic {
                store: "HTTP client",
                source: Box::new(error),
            })?;
        Ok(HttpClient::new(Service {
            client: HttpClient::new(client),
            secret: self.secret.clone(),
        }))
    }
}

#[derive(Debug)]
struct Service {
    client: HttpClient,
    secret: Arc<Secret>,
}

impl Service {
    /// The address with its query.
    fn address(&self, plain: &str) -> String {
        match &self.secret.query {
            Some(query) => format!("{plain}?{query}"),
            None => plain.to_owned(),
        }
    }

    async fn send(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let address = self.address(&request.uri().to_string());
        let wrong =
            |_| HttpError::new_boxed(HttpErrorKind::Unknown, "the URL can't be sent".into());
        *request.uri_mut() = address.parse().map_err(wrong)?;
        if let Some(user) = &self.secret.user {
            let password = self.secret.password.as_deref().unwrap_or_default();
            let header = basic(&decoded(user), &decoded(password));
            request.headers_mut().insert("authorization", header);
        }
        self.client.execute(request).await
    }
}

impl HttpService for Service {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.send(request))
    }
}

/// A part of a URL without its percent signs.
fn decoded(text: &str) -> String {
    // The crate that reads URLs decodes what has a form's syntax; a plus sign is none here.
    let form = format!("x={}", text.replace('+', "%2B"));
    let mut pairs = url::form_urlencoded::parse(form.as_bytes());
    pairs.next().map_or_else(String::new, |(_, value)| value.into_owned())
}

fn basic(user: &str, password: &str) -> object_store::HeaderValue {
    use base64::Engine;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    let header = object_store::HeaderValue::try_from(format!("Basic {pair}"));
    let mut header = header.expect("base64 is a header's text");
    header.set_sensitive(true);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_writes_encoded_is_sent_as_meant() {
        assert_eq!(decoded("p%40ss+1%25"), "p@ss+1%");
        assert_eq!(basic("Aladdin", "open sesame"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert!(basic("a", "b").is_sensitive());
    }
}
