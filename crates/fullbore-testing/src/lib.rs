//! Real PostgreSQL servers for Fullbore's tests: thrown away afterwards, of several versions.
//!
//! ```no_run
//! use fullbore_testing::{TestServer, shared_or_skip};
//!
//! #[test]
//! fn rows_arrive() {
//!     let cluster = shared_or_skip!(TestServer::Embedded18);
//!     let database = cluster.fresh_database();
//!     database.psql("CREATE TABLE t (a int)");
//!     let output = fullbore_testing::run_fullbore(&["load", "t.csv", "--to", database.url()]);
//!     assert_eq!(output.code, 0, "{}", output.stderr);
//! }
//! # fn main() {}
//! ```
//!
//! A server that is not installed makes a test return early with a loud line; under
//! `FULLBORE_TEST_REQUIRE_SERVERS=1` it makes the test fail. `scripts/test_servers.sh` installs
//! them all. A test that can run on several of them runs on one ([`wanted`]), unless `FULLBORE_TEST_ALL=1`.

mod cluster;
mod command;
mod copies;
pub mod disk;
pub mod extension;
pub mod pooler;
mod reaper;
pub mod replica;
mod servers;
mod template;
pub mod wan;

pub use cluster::{ClusterBuilder, TestCluster, TestDatabase};
pub use command::{Output, fullbore_command, output_of, run_fullbore};
pub use servers::{Missing, TestServer};

use std::io::Write;

/// Leaves the test with a loud line that says why.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {{
        $crate::say_skipped(&format!($($reason)*));
        return;
    }};
}

/// A cluster of this test's own, or leaves the test.
#[macro_export]
macro_rules! start_or_skip {
    ($server:expr $(,)?) => {
        $crate::start_or_skip!($server, &[])
    };
    ($server:expr, $settings:expr $(,)?) => {
        match $crate::TestCluster::with_settings($server, $settings) {
            Ok(cluster) => cluster,
            Err(missing) => $crate::skip!("{missing}"),
        }
    };
}

/// The cluster that this process's tests share, or leaves the test.
#[macro_export]
macro_rules! shared_or_skip {
    ($server:expr $(,)?) => {
        match $crate::TestCluster::shared($server) {
            Ok(cluster) => cluster,
            Err(missing) => $crate::skip!("{missing}"),
        }
    };
}

/// The cluster that this process's tests share, with the extension installed in it but made in no
/// database yet; or leaves the test.
#[macro_export]
macro_rules! extended_or_skip {
    ($server:expr $(,)?) => {
        match $crate::extension::install($server)
            .and_then(|()| $crate::TestCluster::shared($server))
        {
            Ok(cluster) => cluster,
            Err(missing) => $crate::skip!("{missing}"),
        }
    };
}

/// Whether tests are to take the time that they need: `make test-all`.
pub fn is_long() -> bool {
    std::env::var_os("FULLBORE_TEST_ALL").is_some_and(|value| value == "1")
}

/// The servers that a test runs on: one of those it could, and another one for other tests; all of them
/// under `FULLBORE_TEST_ALL=1`, as `make test-all` has it.
pub fn wanted<const N: usize>(servers: [TestServer; N]) -> Vec<TestServer> {
    if is_long() {
        return servers.to_vec();
    }
    // The same one each time: by the name of the test, which is its thread's.
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default().bytes();
    let number = name.fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    vec![servers[number % N]]
}

/// What [`skip!`] calls; panics where every server is required.
pub fn say_skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let required = std::env::var_os("FULLBORE_TEST_REQUIRE_SERVERS").is_some_and(|v| v == "1");
    assert!(!required, "{test} must not be skipped here: {reason}");
    // eprintln! would be captured with the output of a passing test, and nobody would know.
    let _ = writeln!(std::io::stderr(), "SKIP {test}: {reason}");
}
