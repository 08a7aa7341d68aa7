//! The server's errors as the data path's.

use fullbore_pgwire::{ConnectionError, ServerMessage};
use fullbore_read::error::{DestinationFailure, Error};

/// An error while describing or planning: nothing was touched.
pub fn refused(error: ConnectionError) -> Error {
    convert(error, Some(DestinationFailure::Refused), None)
}

/// An error while loading or publishing.
pub fn failed(error: ConnectionError) -> Error {
    convert(error, None, None)
}

/// As [`failed`], with what was being done.
pub fn failed_while(error: ConnectionError, what: &str) -> Error {
    convert(error, None, Some(what))
}

/// A refusal of our own, before anything was touched.
pub fn refuse(message: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::Destination {
        message: message.into(),
        hint: Some(hint.into()),
        kind: DestinationFailure::Refused,
    }
}

fn convert(error: ConnectionError, kind: Option<DestinationFailure>, what: Option<&str>) -> Error {
    let kind = kind.unwrap_or_else(|| kind_of(&error));
    let message = match what {
        Some(what) => format!("{what}: {error}"),
        None => error.to_string(),
    };
    let hint = error.hint().map(str::to_owned).or_else(|| hint_for(&error));
    Error::Destination { message, hint, kind }
}

fn kind_of(error: &ConnectionError) -> DestinationFailure {
    // A server that starts or is gone refuses connections in many ways; who has planned a load has
    // seen it let us in.
    use ConnectionError::{Lost, NoHost, Refused};
    if matches!(error, Lost { .. } | Refused { .. } | NoHost { .. }) {
        return DestinationFailure::Lost;
    }
    match error.sqlstate() {
        Some(TOO_MANY) => return DestinationFailure::Crowded,
        // A primary for a moment: whoever has planned a load has seen it take writes.
        Some(READ_ONLY) => return DestinationFailure::Lost,
        Some(DISK_FULL) => return DestinationFailure::Full,
        _ => {}
    }
    match error.sqlstate().filter(|code| !is_corruption(code)).and_then(|code| code.get(..2)) {
        // Data exceptions, and what input functions of extensions raise.
        Some("22" | "P0" | "XX") => DestinationFailure::Data,
        Some("23") => DestinationFailure::Constraint,
        Some("57" | "08") => DestinationFailure::Lost,
        _ if error.sqlstate().is_some_and(|code| LOCKED.contains(&code)) => {
            DestinationFailure::Locked
        }
        _ => DestinationFailure::Other,
    }
}

/// The server, the database or the role has all the connections that it may have.
const TOO_MANY: &str = "53300";

/// A statement that writes, in a transaction that may only read.
const READ_ONLY: &str = "25006";

/// The disk of the server has no room.
const DISK_FULL: &str = "53100";

/// What can be done where there are too many connections: whose limit it is, the place in the server's
/// source says in all languages.
fn of_connections(server: &ServerMessage) -> &'static str {
    match server.routine.as_deref() {
        Some("InitializeSessionUserId") => {
            "it is the role's own limit: lower --streams, or raise it with ALTER ROLE ... CONNECTION LIMIT"
        }
        Some("CheckMyDatabase") => {
            "it is the database's own limit: lower --streams, or raise it with ALTER DATABASE ... \
             CONNECTION LIMIT"
        }
        _ => "lower --streams, or raise max_connections",
    }
}

/// A lock that was not had in time, and a deadlock.
const LOCKED: [&str; 2] = ["55P03", "40P01"];

/// A damaged table or index: no row that is loaded can be blamed for it.
pub const CORRUPTION: [&str; 2] = ["XX001", "XX002"];

pub fn is_corruption(code: &str) -> bool {
    CORRUPTION.contains(&code)
}

/// What to grant where a right is missing, and what for; the object as the server names it.
fn missing_right(message: &str) -> String {
    let denied = |kind: &str| message.strip_prefix(&format!("permission denied for {kind} "));
    if let Some(schema) = denied("schema") {
        return format!(
            "the role needs USAGE and CREATE on schema {schema}: replace, partitions, --atomic and \
             --max-rejects stage rows there, and --create creates the table there; plain append \
             needs only USAGE"
        );
    }
    if let Some(table) = denied("table") {
        return format!("the role needs INSERT on {table}; replace and partitions need its owner");
    }
    if let Some(database) = denied("database") {
        return format!(
            "the role needs CREATE on database {database}: the ledger's schema is created there; \
             --no-ledger loads without a ledger"
        );
    }
    "grant the role the missing privilege, or load as the table's owner".to_owned()
}

fn hint_for(error: &ConnectionError) -> Option<String> {
    let server = error.server_message()?;
    Some(
        match server.code.as_str() {
            // What pgbouncer says of a setting that it does not keep track of.
            "08P01" if server.message.contains("unsupported startup parameter") => {
                "a connection pooler refused the parameter: connect to the server itself, or add \
                 the parameter to the pooler's ignore_startup_parameters"
            }
            "42501" if server.message.contains("row-level security") => {
                "load as a role that bypasses row-level security: rows hidden by it would count as \
                 missing"
            }
            "42501" => return Some(missing_right(&server.message)),
            TOO_MANY => of_connections(server),
            READ_ONLY => {
                "the server is a standby, or default_transaction_read_only is on: connect to the primary, \
                 or wait longer with --retry-for"
            }
            DISK_FULL => {
                "free space on the server's disk; then resume with --resume, or load again if \
                 nothing was kept"
            }
            "57P01" | "57P02" | "57P03" => {
                "the session was terminated, or the server is stopping or starting: see the server \
                 log, then run the command again"
            }
            "3D000" => "create the database first, or check the name in the URL",
            code if code.starts_with("23") => {
                "the new rows break a constraint of the table; nothing of this piece was kept"
            }
            _ => return None,
        }
        .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::missing_right;

    #[test]
    fn a_missing_right_is_named_with_what_it_is_for() {
        let hint = missing_right("permission denied for schema sales");
        assert!(
            hint.contains("CREATE on schema sales") && hint.contains("--max-rejects"),
            "{hint}"
        );
        assert!(missing_right("permission denied for table t").contains("INSERT on t"));
        assert!(missing_right("keine Berechtigung").contains("grant the role"));
    }
}
