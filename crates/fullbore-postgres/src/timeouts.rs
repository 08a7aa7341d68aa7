//! How long a network may be silent before a connection counts as lost.
//!
//! By default a kernel retransmits to a dead host for a quarter of an hour, and waits hours for an answer.
//! A load notices within a minute, retries and reports it. Parameters of the URL override these limits.

use std::time::Duration;

use fullbore_pgwire::{ConnectionError, ConnectionOptions, Session};

/// Silence before the first probe, between probes, and probes that are not answered: the figures that
/// the server is given for its end, too.
const IDLE: Duration = Duration::from_secs(20);
const INTERVAL: Duration = Duration::from_secs(10);
const COUNT: u32 = 3;

/// How long what was sent may stay without an acknowledgement.
const UNACKNOWLEDGED: Duration = Duration::from_secs(60);

/// How long connecting and logging in may take.
const CONNECTING: Duration = Duration::from_secs(30);

/// The server's end of it: a client whose machine is gone is noticed within a minute rather than
/// hours, by probes where nobody speaks, by a limit where what the server said is not acknowledged.
pub const ON_SERVER: &str = "SET tcp_keepalives_idle = 20; SET tcp_keepalives_interval = 10; \
    SET tcp_keepalives_count = 3; SET tcp_user_timeout = '60s'; ";

/// The rows that COPY skips are told in notices, which a role may have silenced. And what is looked at
/// under a lock is looked at as it is then, not as it was when the transaction began.
const PLAINLY: &str =
    "SET client_min_messages = notice; SET default_transaction_isolation = 'read committed'";

/// A session of which neither end waits for ever, and whose statements see the server's own objects alone.
pub fn connect(options: &ConnectionOptions) -> Result<Session, ConnectionError> {
    let mut session = Session::connect(options)?.pinned();
    session.query(&format!("{ON_SERVER}{PLAINLY}"))?;
    Ok(session)
}

/// Sets what the URL and the environment left to the system.
pub fn limit(options: &mut ConnectionOptions) {
    let keepalive = &mut options.keepalive;
    if keepalive.enabled {
        keepalive.idle.get_or_insert(IDLE);
        keepalive.interval.get_or_insert(INTERVAL);
        keepalive.count.get_or_insert(COUNT);
        keepalive.user_timeout.get_or_insert(UNACKNOWLEDGED);
    }
    options.connect_timeout.get_or_insert(CONNECTING);
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_pgwire::Environment;

    fn limited(url: &str) -> ConnectionOptions {
        let mut options =
            ConnectionOptions::resolve(Some(url), &Environment::empty()).expect("a URL");
        limit(&mut options);
        options
    }

    #[test]
    fn what_the_url_says_holds_and_what_it_leaves_open_is_limited() {
        let options = limited("postgresql://u@h/d?keepalives_idle=7&connect_timeout=3");
        assert_eq!(options.keepalive.idle, Some(Duration::from_secs(7)));
        assert_eq!(options.keepalive.interval, Some(INTERVAL));
        assert_eq!(options.keepalive.user_timeout, Some(UNACKNOWLEDGED));
        assert_eq!(options.connect_timeout, Some(Duration::from_secs(3)));
        let options = limited("postgresql://u@h/d?keepalives=0");
        assert_eq!(options.keepalive.user_timeout, None);
        assert_eq!(options.connect_timeout, Some(CONNECTING));
    }
}
