//! The client of one bucket.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, resolve_bucket_region};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore};

use crate::credentials::{Configured, configuration};
use crate::error::{Error, Kind, Result};
use crate::location::{Location, Scheme};
use crate::options::StoreOptions;
use crate::runtime::Fetching;
use crate::signed::Signed;

/// A body that sends nothing for so long is given up, and asked for again. The whole of a request has no
/// limit: links may be slow.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// The client of one bucket, container or host.
#[derive(Debug)]
pub struct Store {
    pub(crate) location: Location,
    pub(crate) client: Arc<dyn ObjectStore>,
    pub(crate) fetching: Arc<Fetching>,
}

/// What tells clients apart.
type Key = (Location, StoreOptions);

impl Store {
    /// The client of a URL's bucket: one for all who ask as long as one of them keeps it.
    ///
    /// # Errors
    /// Where the options can't be meant, or nothing is known of the account.
    pub fn open(location: &Location, options: &StoreOptions) -> Result<Arc<Self>> {
        static OPEN: Mutex<Vec<(Key, Weak<Store>)>> = Mutex::new(Vec::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, store)| store.strong_count() > 0);
        let alike = (Location { key: String::new(), ..location.clone() }, options.clone());
        let known =
            open.iter().find(|(key, _)| *key == alike).and_then(|(_, store)| store.upgrade());
        if let Some(store) = known.filter(|store| store.fetching.is_of_this_process()) {
            return Ok(store);
        }
        let fetching = Fetching::shared().map_err(|error| {
            Error::new(Kind::Failed, &location.root, format!("can't be reached: {error}"))
        })?;
        let client = fetching.wait(client(location, options))?;
        let store = Arc::new(Self { location: alike.0.clone(), client, fetching });
        open.push((alike, Arc::downgrade(&store)));
        Ok(store)
    }

    /// The path of a key as a URL writes it.
    pub(crate) fn path(&self, key: &str) -> Result<Path> {
        let key_alone = key.trim_end_matches('/');
        let is_http = self.location.scheme == Scheme::Http;
        let refused = |why: String| {
            let message = format!("has a name that can't be asked for: {why}");
            Error::new(Kind::Usage, self.location.url_of(key), message)
        };
        // Decoded it would be another resource, which may be there too.
        if is_http && key.to_ascii_lowercase().contains("%2f") {
            let hint = "fetch it with another program, and load the file or standard input";
            return Err(refused("it has a slash, %2F, within a part".into()).hinted(hint));
        }
        let path = match is_http {
            true => Path::from_url_path(key),
            false => Path::parse(key_alone),
        };
        let path = path.map_err(|error| refused(error.to_string()))?;
        match is_http || path.as_ref() == key_alone {
            true => Ok(path),
            false => Err(refused(format!("it would be taken for {path:?}", path = path.as_ref()))),
        }
    }

    /// The URL of an object.
    pub(crate) fn url(&self, path: &Path) -> String {
        self.location.url_of(path.as_ref())
    }
}

async fn client(location: &Location, options: &StoreOptions) -> Result<Arc<dyn ObjectStore>> {
    let refused = |error: object_store::Error| {
        let hint = location.scheme.credentials_hint();
        Error::new(Kind::Usage, &location.root, format!("can't be opened: {error}")).hinted(hint)
    };
    check(location, options)?;
    Ok(match location.scheme {
        Scheme::S3 => Arc::new(s3(location, options).await.build().map_err(refused)?),
        Scheme::Gcs => Arc::new(google(location, options).build().map_err(refused)?),
        Scheme::Azure => Arc::new(azure(location, options).build().map_err(refused)?),
        Scheme::Http => {
            let is_plain = location.root.starts_with("http://");
            let mut http = HttpBuilder::new()
                .with_url(location.root.trim_end_matches('/'))
                .with_client_options(connection(is_plain));
            if location.secret.query.is_some() || location.secret.user.is_some() {
                let secret = Arc::new(location.secret.clone());
                http = http.with_http_connector(Signed { secret, is_plain });
            }
            Arc::new(http.build().map_err(refused)?)
        }
    })
}

/// An option that the store has not would do nothing.
fn check(location: &Location, options: &StoreOptions) -> Result<()> {
    let is_s3 = location.scheme == Scheme::S3;
    let is_http = location.scheme == Scheme::Http;
    let useless = [
        ("anonymous", options.anonymous && is_http),
        ("requester_pays", options.requester_pays && !is_s3),
        ("endpoint", options.endpoint.is_some() && is_http),
        ("region", options.region.is_some() && !is_s3),
        ("profile", options.profile.is_some() && !is_s3),
    ];
    match useless.iter().find(|(_, is_useless)| *is_useless) {
        None => Ok(()),
        Some((key, _)) => {
            let message = format!("has no option {key}");
            Err(Error::new(Kind::Usage, &location.root, message).hinted(format!("omit {key}")))
        }
    }
}

fn connection(plain: bool) -> ClientOptions {
    ClientOptions::new()
        .with_timeout_disabled()
        .with_read_timeout(SILENCE)
        .with_connect_timeout(CONNECT)
        .with_allow_http(plain)
}

fn is_plain(endpoint: Option<&str>) -> bool {
    endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"))
}

async fn s3(location: &Location, options: &StoreOptions) -> AmazonS3Builder {
    let mut s3 = AmazonS3Builder::from_env().with_bucket_name(&location.bucket);
    let said = |s3: &AmazonS3Builder, key| s3.get_config_value(&key);
    let found = configuration(options.profile.as_deref()).await;
    let endpoint = options
        .endpoint
        .clone()
        .or_else(|| said(&s3, AmazonS3ConfigKey::S3Endpoint))
        .or_else(|| said(&s3, AmazonS3ConfigKey::Endpoint))
        .or_else(|| found.endpoint_url().map(str::to_owned));
    let region = match (&options.region, &endpoint) {
        (Some(region), _) => Some(region.clone()),
        // A bucket is rarely asked for in the wrong region twice: its own is asked of the store once.
        (None, None) => resolve_bucket_region(&location.bucket, &connection(false)).await.ok(),
        (None, Some(_)) => None,
    };
    let region = region.or_else(|| found.region().map(|region| region.to_string()));
    if let Some(region) = region {
        s3 = s3.with_region(region);
    }
    if let Some(endpoint) = &endpoint {
        s3 = s3.with_endpoint(endpoint.clone());
    }
    if options.anonymous {
        s3 = s3.with_skip_signature(true);
    } else if let Some(provider) = found.credentials_provider() {
        s3 = s3.with_credentials(Arc::new(Configured::new(provider)));
    }
    if options.requester_pays {
        s3 = s3.with_request_payer(true);
    }
    s3.with_client_options(connection(is_plain(endpoint.as_deref())))
}

fn google(location: &Location, options: &StoreOptions) -> GoogleCloudStorageBuilder {
    let mut google = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(&location.bucket)
        .with_client_options(connection(is_plain(options.endpoint.as_deref())));
    if let Some(endpoint) = &options.endpoint {
        google = google.with_base_url(endpoint);
    }
    if options.anonymous {
        google = google.with_skip_signature(true);
    }
    google
}

fn azure(location: &Location, options: &StoreOptions) -> MicrosoftAzureBuilder {
    let mut azure = MicrosoftAzureBuilder::from_env().with_container_name(&location.bucket);
    if let Some(account) = &location.account {
        azure = azure.with_account(account);
    }
    let said = |key| azure.get_config_value(&key).is_some_and(|value| value != "false");
    let emulator = said(AzureConfigKey::UseEmulator);
    let given = [
        AzureConfigKey::AccessKey,
        AzureConfigKey::SasKey,
        AzureConfigKey::Token,
        AzureConfigKey::ClientSecret,
        AzureConfigKey::FederatedTokenFile,
        AzureConfigKey::MsiEndpoint,
    ];
    // What `az login` left is tried before the role of a machine, as Azure's own tools do.
    let is_given = given.into_iter().any(said);
    if options.anonymous {
        azure = azure.with_skip_signature(true);
    } else if !is_given && !emulator && is_installed("az") {
        azure = azure.with_use_azure_cli(true);
    }
    let endpoint = options.endpoint.clone().or_else(|| {
        azure.get_config_value(&AzureConfigKey::Endpoint).filter(|endpoint| !endpoint.is_empty())
    });
    if let Some(endpoint) = &endpoint {
        azure = azure.with_endpoint(endpoint.clone());
    }
    azure.with_client_options(connection(emulator || is_plain(endpoint.as_deref())))
}

fn is_installed(command: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(command).is_file())
}
