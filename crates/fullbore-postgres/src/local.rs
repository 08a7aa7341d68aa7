//! Whether a server is this machine's own, so that its processes can be looked at.

use fullbore_pgwire::{ConnectionError, Session};

/// The process of a session's backend; `None` where it is elsewhere, or can't be seen from here.
pub fn backend_here(session: &mut Session) -> Result<Option<i32>, ConnectionError> {
    if !is_near(session)? {
        return Ok(None);
    }
    let rows = session.query("SELECT pg_backend_pid() AS pid")?;
    let pid = rows.first().and_then(|row| row.get("pid")?.parse().ok());
    Ok(pid.filter(|pid| is_backend(*pid)))
}

/// Whether a session's way to the server stays within one machine.
pub fn is_near(session: &mut Session) -> Result<bool, ConnectionError> {
    let rows = session.query(
        "SELECT inet_server_addr() IS NULL
             OR inet_server_addr() <<= '127.0.0.0/8' OR inet_server_addr() = '::1'
             OR inet_server_addr() = inet_client_addr() AS is_near",
    )?;
    Ok(rows.first().is_some_and(|row| row.flag("is_near")))
}

/// Whether a process of this machine is a backend; in a container it would have another number here.
fn is_backend(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|name| name.starts_with(b"postgres:"))
}
