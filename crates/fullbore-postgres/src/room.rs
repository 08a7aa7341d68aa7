//! Checks before a load that the server accepts writes and has enough free connections.

use fullbore_load::target::Room;
use fullbore_pgwire::Row;
use fullbore_read::error::Result;

use crate::error::{refuse, refused};
use crate::server::Server;

const WRITABLE: &str = "
    SELECT pg_catalog.current_setting('transaction_read_only') AS read_only,
           pg_catalog.pg_is_in_recovery() AS is_standby";

/// The limits that hold for this role, each with what of it is in use. A superuser is held to that of the
/// server alone, and may have its reserved connections, too.
const LIMITS: &str = "
    WITH me AS (SELECT r.oid, r.rolname, r.rolsuper, r.rolconnlimit
                  FROM pg_catalog.pg_roles AS r WHERE r.rolname = session_user),
         there AS (SELECT a.usesysid, a.datid FROM pg_catalog.pg_stat_activity AS a
                    WHERE a.usesysid IS NOT NULL)
    SELECT 'role' AS whose, rolname AS name, rolconnlimit AS most,
           (SELECT count(*) FROM there WHERE usesysid = me.oid) AS used
      FROM me WHERE NOT rolsuper AND rolconnlimit >= 0
    UNION ALL
    SELECT 'database', datname, datconnlimit, (SELECT count(*) FROM there WHERE datid = d.oid)
      FROM me, pg_catalog.pg_database AS d
     WHERE datname = current_database() AND NOT rolsuper AND datconnlimit >= 0
    UNION ALL
    SELECT 'server', '',
           current_setting('max_connections')::int
           - CASE WHEN rolsuper THEN 0
                  ELSE current_setting('superuser_reserved_connections')::int
                       + coalesce(current_setting('reserved_connections', true)::int, 0) END,
           (SELECT count(*) FROM there)
      FROM me";

/// How many connections more a role may have, and whose limit that is.
fn room_of(row: &Row) -> Option<Room> {
    let number = |name: &str| row.get(name)?.parse::<usize>().ok();
    let (most, used) = (number("most")?, number("used")?);
    let name = row.get("name").unwrap_or_default();
    let words = match row.get("whose")? {
        "server" => {
            format!("the server has {most} connections for this role (max_connections)")
        }
        whose => format!("{whose} {name:?} is limited to {most} connections (CONNECTION LIMIT)"),
    };
    Some(Room { left: most.saturating_sub(used), words: format!("{words}, {used} in use") })
}

impl Server {
    /// Refuses a server that takes no writes. Nothing is touched.
    pub fn check_writable(&self) -> Result<()> {
        let rows = self.control().query(WRITABLE).map_err(refused)?;
        let is =
            |name: &str, value: &str| rows.first().and_then(|row| row.get(name)) == Some(value);
        if is("is_standby", "t") {
            return Err(refuse(
                "the server is a standby, which is read-only",
                "connect to the primary; target_session_attrs=read-write in the URL finds it among \
                 several hosts",
            ));
        }
        if is("read_only", "on") {
            return Err(refuse(
                "the server is read-only: default_transaction_read_only is on",
                "turn it off where it is set: for the server, the database, the role or in the URL",
            ));
        }
        Ok(())
    }

    /// What is left for a load beside this session; none where a pooler shares its connections out.
    pub(crate) fn room_left(&self) -> Result<Option<Room>> {
        if self.is_pooled {
            return Ok(None);
        }
        let rows = self.control().query(LIMITS).map_err(refused)?;
        Ok(rows.iter().filter_map(room_of).min_by_key(|room| room.left))
    }
}
