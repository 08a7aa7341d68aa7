//! How stores are reached, where that is not left to the environment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the stores of a job are reached. What is not said is found as each cloud's own tools find it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StoreOptions {
    /// Read public objects without credentials.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub anonymous: bool,
    /// Pay for requests to a bucket whose owner does not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub requester_pays: bool,
    /// URL of a store other than the cloud's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Region of the bucket. Default: asked of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Profile of the AWS configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

impl StoreOptions {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes one option as people write it: `anonymous`, `endpoint=URL`.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub fn set(&mut self, written: &str) -> Result<(), String> {
        let (key, value) = match written.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (written, None),
        };
        let flag = |value: Option<&str>| match value {
            None | Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(format!("{key} is true or false, not {other:?}")),
        };
        let text = |value: Option<&str>| match value {
            Some(value) if !value.is_empty() => Ok(Some(value.to_owned())),
            _ => Err(format!("{key} needs a value: {key}=VALUE")),
        };
        match key {
            "anonymous" => self.anonymous = flag(value)?,
            "requester_pays" | "requester-pays" => self.requester_pays = flag(value)?,
            "endpoint" => self.endpoint = text(value)?,
            "region" => self.region = text(value)?,
            "profile" => self.profile = text(value)?,
            _ => {
                return Err(format!(
                    "unknown key {key:?}; the keys are anonymous, requester_pays, endpoint, region \
                     and profile (credentials are read from the environment and from the cloud's \
                     own configuration)"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_written() {
        let mut options = StoreOptions::default();
        for written in ["anonymous", "requester-pays=true", "endpoint=http://127.0.0.1:9000?a=b"] {
            options.set(written).expect(written);
        }
        assert!(options.anonymous && options.requester_pays);
        assert_eq!(options.endpoint.as_deref(), Some("http://127.0.0.1:9000?a=b"));
        for wrong in ["secret_access_key=x", "region", "region=", "anonymous=perhaps"] {
            let said = options.set(wrong).expect_err(wrong);
            assert!(!said.contains("=x"), "{said}");
        }
    }
}
