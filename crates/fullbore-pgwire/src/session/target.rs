//! Whether a server is of the kind that `target_session_attrs` asks for.

use super::Session;
use crate::error::ConnectionError;
use crate::options::TargetSession;

const IN_RECOVERY: &str =
    "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'on' ELSE 'off' END";

impl Session {
    /// Whether this server is of the kind wanted. Servers before 14 don't report it unasked.
    pub(super) fn check_target(&mut self, wanted: TargetSession) -> Result<(), ConnectionError> {
        let (name, question, value, kind) = match wanted {
            TargetSession::Any | TargetSession::PreferStandby => return Ok(()),
            TargetSession::ReadWrite => ("", "SHOW transaction_read_only", "off", "read-only"),
            TargetSession::ReadOnly => ("", "SHOW transaction_read_only", "on", "not read-only"),
            TargetSession::Primary => ("in_hot_standby", IN_RECOVERY, "off", "a standby"),
            TargetSession::Standby => ("in_hot_standby", IN_RECOVERY, "on", "no standby"),
        };
        let found = match self.parameter(name) {
            Some(reported) => reported.to_owned(),
            None => {
                let rows = self.query(question)?;
                rows.first().and_then(|row| row.get(0)).unwrap_or_default().to_owned()
            }
        };
        if found == value {
            return Ok(());
        }
        Err(ConnectionError::Refused {
            target: self.target.clone(),
            source: std::io::Error::other(format!(
                "the server is {kind}, but target_session_attrs={wanted}"
            )),
        })
    }
}
