//! The options by name, before they mean anything, and what is known of each name.

use std::collections::BTreeMap;

use super::super::environment::Environment;
use super::super::error::ConnectionError;

/// What we do with an option of libpq.
enum Support {
    /// Obey it.
    Yes,
    /// Nothing: it changes nothing here.
    Ignored,
    /// Refuse it, unless it has this value, which asks for nothing. Ignoring an option that
    /// guards the connection would leave a person less safe than he believes to be.
    Only(&'static str),
}

/// Name, environment variable, what we do with it.
const KEYWORDS: &[(&str, &str, Support)] = &[
    ("application_name", "PGAPPNAME", Support::Yes),
    ("channel_binding", "PGCHANNELBINDING", Support::Yes),
    // Fullbore sends UTF-8 whatever the terminal speaks, hence no variable.
    ("client_encoding", "", Support::Yes),
    ("connect_timeout", "PGCONNECT_TIMEOUT", Support::Yes),
    ("dbname", "PGDATABASE", Support::Yes),
    ("fallback_application_name", "", Support::Yes),
    ("gssdelegation", "", Support::Only("0")),
    ("gssencmode", "PGGSSENCMODE", Support::Yes),
    ("gsslib", "", Support::Ignored),
    ("host", "PGHOST", Support::Yes),
    ("hostaddr", "PGHOSTADDR", Support::Yes),
    ("keepalives", "", Support::Yes),
    ("keepalives_count", "", Support::Yes),
    ("keepalives_idle", "", Support::Yes),
    ("keepalives_interval", "", Support::Yes),
    ("krbsrvname", "", Support::Ignored),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS", Support::Yes),
    ("options", "PGOPTIONS", Support::Yes),
    ("passfile", "PGPASSFILE", Support::Yes),
    ("password", "PGPASSWORD", Support::Yes),
    ("port", "PGPORT", Support::Yes),
    ("replication", "", Support::Only("false")),
    ("require_auth", "PGREQUIREAUTH", Support::Yes),
    ("requirepeer", "PGREQUIREPEER", Support::Only("")),
    ("service", "", Support::Yes),
    ("servicefile", "", Support::Yes),
    ("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", Support::Only("TLSv1.3")),
    ("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", Support::Yes),
    ("sslcert", "PGSSLCERT", Support::Yes),
    ("sslcertmode", "PGSSLCERTMODE", Support::Yes),
    ("sslcompression", "PGSSLCOMPRESSION", Support::Ignored),
    ("sslcrl", "PGSSLCRL", Support::Only("")),
    ("sslcrldir", "PGSSLCRLDIR", Support::Only("")),
    ("sslkey", "PGSSLKEY", Support::Yes),
    ("sslmode", "PGSSLMODE", Support::Yes),
    ("sslnegotiation", "PGSSLNEGOTIATION", Support::Yes),
    ("sslpassword", "", Support::Only("")),
    ("sslrootcert", "PGSSLROOTCERT", Support::Yes),
    ("sslsni", "PGSSLSNI", Support::Yes),
    ("target_session_attrs", "PGTARGETSESSIONATTRS", Support::Yes),
    ("tcp_user_timeout", "", Support::Yes),
    ("user", "PGUSER", Support::Yes),
];

/// Options by name. A name that is there with an empty value means the default, and still hides
/// what a weaker source says, as in libpq.
#[derive(Default)]
pub(super) struct Settings {
    values: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Whether this is an option's name.
    pub(super) fn is_keyword(name: &str) -> bool {
        KEYWORDS.iter().any(|(keyword, ..)| *keyword == name)
    }

    /// Sets an option; the last value given wins.
    pub(super) fn set(&mut self, name: &str, value: String) -> Result<(), ConnectionError> {
        let Some((keyword, _, support)) = KEYWORDS.iter().find(|(keyword, ..)| *keyword == name)
        else {
            return Err(ConnectionError::usage(format!("{name} is not a connection option")));
        };
        if value.contains('\0') {
            return Err(ConnectionError::usage(format!("{name} holds a NUL character")));
        }
        check(keyword, support, &value)?;
        self.values.insert(keyword, value);
        Ok(())
    }

    /// An option's value, unless it is empty or not there.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        debug_assert!(Self::is_keyword(name), "{name}");
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Takes over what is not there yet.
    pub(super) fn fill_from(&mut self, weaker: Settings) {
        for (name, value) in weaker.values {
            self.values.entry(name).or_insert(value);
        }
    }

    /// Takes over what is not there yet from the environment. A variable for what we don't
    /// support counts as well: it was set to guard the connection.
    pub(super) fn fill_from_environment(&mut self, environment: &Environment) {
        for (name, variable, _) in KEYWORDS {
            if let Some(value) = environment.variable(variable) {
                self.values.entry(name).or_insert_with(|| value.into());
            }
        }
    }

    /// Checks what came in without a check, from the environment.
    pub(super) fn check_all(&self) -> Result<(), ConnectionError> {
        for (name, _, support) in KEYWORDS {
            if let Some(value) = self.values.get(name) {
                check(name, support, value)?;
            }
        }
        Ok(())
    }
}

/// Refuses what we can't obey. Does not quote the value: it may be `sslpassword`.
fn check(name: &str, support: &Support, value: &str) -> Result<(), ConnectionError> {
    match support {
        Support::Only(harmless) if !value.is_empty() && !value.eq_ignore_ascii_case(harmless) => {
            Err(ConnectionError::usage_with_hint(
                format!("Fullbore does not support the connection option {name}"),
                "leave it out, if the connection is safe without it",
            ))
        }
        _ => Ok(()),
    }
}
