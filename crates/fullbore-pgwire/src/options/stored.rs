//! The connection as it may be written to disk: with all that says how to connect, and nothing that
//! may be a secret.

use super::build::APPLICATION_NAME;
use super::{
    ChannelBindingMode, ConnectionOptions, Host, Roots, SslMode, SslNegotiation, TargetSession, url,
};

/// Settings of the server that `options` may give, and whose values are words of its own, numbers, or
/// names in the database. Any other may hold a secret, above all those of extensions and applications.
const HARMLESS: &[&str] = &[
    "array_nulls",
    "check_function_bodies",
    "commit_delay",
    "datestyle",
    "default_table_access_method",
    "default_tablespace",
    "default_text_search_config",
    "effective_io_concurrency",
    "idle_in_transaction_session_timeout",
    "intervalstyle",
    "jit",
    "lc_monetary",
    "lc_numeric",
    "lock_timeout",
    "maintenance_io_concurrency",
    "maintenance_work_mem",
    "max_parallel_maintenance_workers",
    "max_parallel_workers_per_gather",
    "role",
    "row_security",
    "search_path",
    "session_replication_role",
    "statement_timeout",
    "synchronous_commit",
    "temp_buffers",
    "temp_tablespaces",
    "timezone",
    "timezone_abbreviations",
    "wal_compression",
    "work_mem",
    "xmloption",
];

/// A connection without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredConnection {
    /// The URL, which opens the same connection where the password is known from elsewhere.
    pub url: String,
    /// The settings of `options` that are left out, by name: they may hold a secret.
    pub left_out: Vec<String>,
}

impl ConnectionOptions {
    /// The connection as it may be kept on disk.
    pub fn kept(&self) -> StoredConnection {
        let mut parameters: Vec<(&str, String)> = Vec::new();
        self.add_tls(&mut parameters);
        let address = |host: &super::HostOptions| match &host.host {
            Host::Tcp { address: Some(address), .. } => address.to_string(),
            _ => String::new(),
        };
        let addresses: Vec<String> = self.hosts.iter().map(address).collect();
        if addresses.iter().any(|address| !address.is_empty()) {
            parameters.push(("hostaddr", addresses.join(",")));
        }
        if self.shuffle_hosts {
            parameters.push(("load_balance_hosts", "random".into()));
        }
        if self.target_session != TargetSession::Any {
            parameters.push(("target_session_attrs", self.target_session.to_string()));
        }
        let refused = self.required_authentication.refused();
        if !refused.is_empty() {
            parameters.push(("require_auth", refused));
        }
        self.add_patience(&mut parameters);
        if self.application_name != APPLICATION_NAME {
            parameters.push(("application_name", self.application_name.clone()));
        }
        let (harmless, left_out) = sorted_out(self.options.as_deref().unwrap_or_default());
        if !harmless.is_empty() {
            parameters.push(("options", harmless));
        }
        // The URL in short has the mode already, where it is not the usual one.
        let mut url = self.redacted();
        for (name, value) in parameters {
            let joint = if url.contains('?') { '&' } else { '?' };
            url.push_str(&format!("{joint}{name}={}", url::encode(&value)));
        }
        StoredConnection { url, left_out }
    }

    fn add_tls(&self, parameters: &mut Vec<(&str, String)>) {
        let tls = &self.tls;
        let is_remote = self.hosts.iter().any(|host| matches!(host.host, Host::Tcp { .. }));
        if !is_remote || tls.mode == SslMode::Disable {
            return;
        }
        match &tls.roots {
            Roots::File(file) => parameters.push(("sslrootcert", file.display().to_string())),
            Roots::System => parameters.push(("sslrootcert", "system".into())),
            Roots::None => {}
        }
        match &tls.client {
            Some(client) => {
                parameters.push(("sslcert", client.certificate.display().to_string()));
                parameters.push(("sslkey", client.key.display().to_string()));
            }
            None => parameters.push(("sslcertmode", "disable".into())),
        }
        if tls.negotiation != SslNegotiation::Postgres {
            parameters.push(("sslnegotiation", tls.negotiation.to_string()));
        }
        if !tls.server_name_indication {
            parameters.push(("sslsni", "0".into()));
        }
        if tls.only_1_3 {
            parameters.push(("ssl_min_protocol_version", "TLSv1.3".into()));
        }
        if self.channel_binding != ChannelBindingMode::Prefer {
            parameters.push(("channel_binding", self.channel_binding.to_string()));
        }
    }

    fn add_patience(&self, parameters: &mut Vec<(&str, String)>) {
        let keepalive = &self.keepalive;
        if !keepalive.enabled {
            parameters.push(("keepalives", "0".into()));
        }
        let seconds = [
            ("connect_timeout", self.connect_timeout),
            ("keepalives_idle", keepalive.idle),
            ("keepalives_interval", keepalive.interval),
        ];
        for (name, duration) in seconds {
            parameters.extend(duration.map(|duration| (name, duration.as_secs().to_string())));
        }
        parameters.extend(keepalive.count.map(|count| ("keepalives_count", count.to_string())));
        let user = keepalive.user_timeout;
        parameters.extend(user.map(|time| ("tcp_user_timeout", time.as_millis().to_string())));
    }
}

/// What of `options` may be kept, written anew, and the names of what may not.
fn sorted_out(options: &str) -> (String, Vec<String>) {
    let (mut harmless, mut left_out) = (Vec::new(), Vec::new());
    let mut words = words(options).into_iter();
    while let Some(word) = words.next() {
        let setting = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(setting), _) => setting.to_owned(),
            (None, Some("")) => words.next().unwrap_or_default(),
            (None, Some(setting)) => setting.to_owned(),
            // A switch of the server's own. What it takes is not known here.
            (None, None) => {
                left_out.push("a switch".into());
                continue;
            }
        };
        let Some((name, value)) = setting.split_once('=') else {
            left_out.push("a switch".into());
            continue;
        };
        let name = name.replace('-', "_").to_ascii_lowercase();
        if HARMLESS.contains(&name.as_str()) {
            let value = value.replace('\\', "\\\\").replace(' ', "\\ ");
            harmless.push(format!("-c {name}={value}"));
        } else {
            left_out.push(name);
        }
    }
    (harmless.join(" "), left_out)
}

/// The words of a command line, as the server takes it apart: at white space, which a backslash saves.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let last = words.last_mut().expect("there is one");
        match character {
            '\\' => last.extend(characters.next()),
            c if c.is_ascii_whitespace() => words.push(String::new()),
            c => last.push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::super::super::Environment;
    use super::*;

    fn resolve(text: &str) -> ConnectionOptions {
        ConnectionOptions::resolve(Some(text), &Environment::empty()).expect("a connection")
    }

    #[test]
    fn what_is_kept_opens_the_same_connection() {
        for text in [
            "postgresql://u@h/d?options=-c%20datestyle%3DDMY%20--search-path%3Da%5C%20b",
            "postgresql://u@h/d?sslmode=verify-full&sslrootcert=%2Fcas&sslcert=%2Fc&sslkey=%2Fk",
            "postgresql://u@%2Frun:5433/d?application_name=night%20load&keepalives_idle=7",
            "postgresql://u@h,g/d?hostaddr=10.0.0.1,::1&target_session_attrs=read-write",
            "postgresql://u@h/d?require_auth=!password,!md5&channel_binding=require",
            "postgresql://u@h/d?connect_timeout=3&tcp_user_timeout=900&sslsni=0",
        ] {
            let options = resolve(text);
            let kept = options.kept();
            assert_eq!(kept.left_out, Vec::<String>::new());
            let mut again = resolve(&kept.url);
            assert_eq!(again.kept(), kept);
            // Written in another way, it says the same.
            again.options.clone_from(&options.options);
            assert_eq!(format!("{again:?}"), format!("{options:?}"));
        }
        let kept = resolve("postgresql://u@h/d?options=-c%20datestyle%3DDMY").kept();
        assert_eq!(resolve(&kept.url).options.as_deref(), Some("-c datestyle=DMY"));
    }

    #[test]
    fn no_secret_is_kept() {
        for text in [
            "postgresql://u:hunter2@h/d",
            "postgresql://u@h/d?password=hunter2&options=-c%20role%3Dx",
            "postgresql://u@h/d?options=-c%20app.key%3Dhunter2",
            "postgresql://u@h/d?options=--app.key%3Dhunter2%20-capp.key%3Dhunter2",
            "postgresql://u@h/d?options=-Whunter2%20hunter2",
            "postgresql://u@h/d?passfile=hunter2",
        ] {
            let kept = resolve(text).kept();
            assert!(!format!("{kept:?}").contains("hunter2"), "{kept:?}");
        }
        let kept = resolve("postgresql://u@h/d?options=-c%20app.key%3Dhunter2%20-c%20jit%3Doff");
        assert_eq!(kept.kept().left_out, ["app.key"]);
        assert_eq!(resolve(&kept.kept().url).options.as_deref(), Some("-c jit=off"));
    }
}
