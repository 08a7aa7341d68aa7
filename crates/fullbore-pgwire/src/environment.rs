//! What of the process's surroundings decides a connection, injectable for tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Environment variables, home folder, user name and the places where servers put their sockets.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    home: Option<PathBuf>,
    user: Option<String>,
    server_user: Option<u32>,
    socket_directories: Vec<PathBuf>,
    configuration_directories: Vec<PathBuf>,
}

impl Environment {
    /// The one of this process.
    pub fn of_process() -> Self {
        let variables: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        // What libpq asks for is the name of the effective user, not $USER: they differ under
        // sudo. Users of directory services are not in the file, and there $USER is all we have.
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let entry = passwd_entry(&passwd, rustix::process::geteuid().as_raw());
        let variable = |name: &str| variables.get(name).filter(|value| !value.is_empty()).cloned();
        Self {
            home: variable("HOME")
                .or_else(|| entry.as_ref().map(|(_, home)| home.clone()))
                .map(PathBuf::from),
            user: entry
                .map(|(name, _)| name)
                .or_else(|| variable("USER"))
                .or_else(|| variable("LOGNAME")),
            server_user: user_number(&passwd, "postgres"),
            // Debian and Red Hat build with the first, everybody else with the second.
            socket_directories: vec!["/var/run/postgresql".into(), "/tmp".into()],
            configuration_directories: vec!["/etc/postgresql-common".into(), "/etc".into()],
            variables,
        }
    }

    /// One without variables, home, user or sockets.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The same, with a variable.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// The same, with a home folder.
    #[must_use]
    pub fn with_home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// The same, with a user.
    #[must_use]
    pub fn with_user(mut self, user: &str) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The same, with places where servers put their sockets, the likeliest first.
    #[must_use]
    pub fn with_socket_directories(mut self, directories: &[&Path]) -> Self {
        self.socket_directories = directories.iter().map(PathBuf::from).collect();
        self
    }

    /// A variable, set and perhaps empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// A variable that says something.
    pub fn filled(&self, name: &str) -> Option<&str> {
        self.variable(name).filter(|value| !value.is_empty())
    }

    /// A file below the home folder.
    pub(super) fn at_home(&self, relative: &str) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(relative))
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The number of the user whom servers of this machine run as.
    pub(super) fn server_user(&self) -> Option<u32> {
        self.server_user
    }

    pub(super) fn socket_directories(&self) -> &[PathBuf] {
        &self.socket_directories
    }

    pub(super) fn configuration_directories(&self) -> Vec<PathBuf> {
        match self.filled("PGSYSCONFDIR") {
            Some(directory) => vec![directory.into()],
            None => self.configuration_directories.clone(),
        }
    }
}

impl std::fmt::Debug for Environment {
    /// Without the variables: one of them may be PGPASSWORD.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Environment")
            .field("home", &self.home)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// The number of a user by name.
fn user_number(passwd: &str, wanted: &str) -> Option<u32> {
    let mut entries = passwd.lines().map(|line| line.split(':'));
    entries
        .find_map(|mut fields| fields.next().filter(|name| *name == wanted).and(fields.nth(1)))?
        .parse()
        .ok()
}

/// Name and home of a user.
pub fn passwd_entry(passwd: &str, wanted: u32) -> Option<(String, String)> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, _, _, home, ..] = fields.as_slice() else {
            return None;
        };
        (uid.parse() == Ok(wanted)).then(|| ((*name).into(), (*home).into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_tells_no_password() {
        let environment = Environment::empty().with_variable("PGPASSWORD", "hunter2");
        assert!(!format!("{environment:?}").contains("hunter2"));
        assert_eq!(environment.variable("PGPASSWORD"), Some("hunter2"));
    }

    #[test]
    fn the_user_comes_from_passwd() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\n+::\nann:x:7:7::/home/ann:/bin/sh\n";
        assert_eq!(passwd_entry(passwd, 7), Some(("ann".into(), "/home/ann".into())));
        assert_eq!(passwd_entry(passwd, 8), None);
    }
}
