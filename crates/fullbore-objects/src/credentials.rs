//! AWS credentials as its own tools find them: environment, profiles, SSO, `credential_process`, web
//! identity, container and instance roles.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use futures_util::future::BoxFuture;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use tokio::sync::Mutex;

/// By these words an error is known again.
pub(crate) const NONE_FOUND: &str = "no AWS credentials were found";

/// Credentials are asked for again so long before they expire.
const RENEWED_BEFORE: Duration = Duration::from_secs(300);

/// What the AWS configuration says: credentials, region, endpoint.
pub(crate) async fn configuration(profile: Option<&str>) -> SdkConfig {
    let client = aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(client);
    if let Some(profile) = profile {
        loader = loader.profile_name(profile);
    }
    loader.load().await
}

/// The credentials of a configuration, kept until they expire.
#[derive(Debug)]
pub(crate) struct Configured {
    provider: SharedCredentialsProvider,
    kept: Mutex<Option<(Option<SystemTime>, Arc<AwsCredential>)>>,
}

impl Configured {
    pub fn new(provider: SharedCredentialsProvider) -> Self {
        Self { provider, kept: Mutex::new(None) }
    }

    async fn credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut kept = self.kept.lock().await;
        if let Some((expiry, credential)) = kept.as_ref()
            && expiry.is_none_or(|expiry| expiry > SystemTime::now() + RENEWED_BEFORE)
        {
            return Ok(credential.clone());
        }
        let found = self.provider.provide_credentials().await;
        let found = found.map_err(|error| object_store::Error::Generic {
            store: "S3",
            source: words_of(&error).into(),
        })?;
        let credential = Arc::new(as_credential(&found));
        *kept = Some((found.expiry(), credential.clone()));
        Ok(credential)
    }
}

fn as_credential(found: &Credentials) -> AwsCredential {
    AwsCredential {
        key_id: found.access_key_id().to_owned(),
        secret_key: found.secret_access_key().to_owned(),
        token: found.session_token().map(str::to_owned),
    }
}

/// Why there are none, in a line: where no provider had any, what each of them lacks says nothing more.
fn words_of(error: &CredentialsError) -> String {
    if let CredentialsError::CredentialsNotLoaded(_) = error {
        return NONE_FOUND.to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let words = cause.to_string();
    format!("{NONE_FOUND}: {}", words.lines().next().unwrap_or_default())
}

impl CredentialProvider for Configured {
    type Credential = AwsCredential;

    fn get_credential<'a, 'b>(&'a self) -> BoxFuture<'b, object_store::Result<Arc<AwsCredential>>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.credential())
    }
}
