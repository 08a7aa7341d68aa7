//! What the server is asked, to find files that no catalog knows.

use std::collections::BTreeSet;

use fullbore_pgwire::{Session, quote_identifier, quote_literal};
use fullbore_read::error::Result;

use super::names::RelationFile;
use crate::error::{refuse, refused};

/// Files asked for in one statement.
const FILES_AT_ONCE: usize = 1000;

/// Nobody's function or table is to stand in for the server's.
const ONLY_THE_SERVERS: &str = "SET search_path = pg_catalog, pg_temp";

/// The rights come with it: without them the answer would be an error, or silently too little.
/// (Who may not read all statistics sees no transaction of others.)
const STATE: &str = "
    SELECT current_database() AS database, current_user AS role, d.oid, d.dattablespace,
           pg_is_in_recovery() AS is_standby,
           has_function_privilege('pg_ls_dir(text, boolean, boolean)', 'EXECUTE') AS may_list,
           has_function_privilege('pg_stat_file(text, boolean)', 'EXECUTE') AS may_stat,
           has_function_privilege('pg_control_system()', 'EXECUTE') AS may_system,
           has_function_privilege('pg_control_checkpoint()', 'EXECUTE') AS may_checkpoint,
           pg_has_role('pg_read_all_stats', 'USAGE') AS may_watch
      FROM pg_database d
     WHERE d.datname = current_database()";

/// Other versions of the server can have folders of theirs in a tablespace.
const NAMES: &str = "
    SELECT s.oid AS tablespace, p.folder, f.name
      FROM pg_tablespace s
      JOIN pg_database d ON d.datname = current_database()
     CROSS JOIN LATERAL (
           SELECT CASE WHEN s.spcname = 'pg_default' THEN 'base/' || d.oid
                       ELSE 'pg_tblspc/' || s.oid || '/PG_'
                            || current_setting('server_version_num')::integer / 10000 || '_'
                            || (pg_control_system()).catalog_version_no || '/' || d.oid
                  END AS folder) AS p
     CROSS JOIN LATERAL pg_ls_dir(p.folder, true, false) AS f(name)
     WHERE s.spcname <> 'pg_global'";

/// A session that does not tell when its transaction began (track_activities = off) tells by a lock
/// that it has one. Of prepared transactions only their preparation's time is known, so they can
/// be of any age.
const RUNNING: &str = "
    SELECT CASE WHEN EXISTS (SELECT FROM pg_prepared_xacts WHERE database = current_database())
                THEN 0
                ELSE floor(extract(epoch FROM min(coalesce(a.xact_start, a.backend_start))))::bigint
           END AS since,
           (SELECT floor(extract(epoch FROM checkpoint_time))::bigint
              FROM pg_control_checkpoint()) AS checkpoint
      FROM pg_stat_activity a
      JOIN pg_database d ON d.oid = a.datid AND d.datname = current_database()
     WHERE a.pid <> pg_backend_pid()
       AND (a.xact_start IS NOT NULL
            OR EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'virtualxid'))";

/// Mapped catalogs have no file number in pg_class, hence the function.
const KNOWN: &str = "
    SELECT DISTINCT coalesce(nullif(c.reltablespace, 0), d.dattablespace) AS tablespace,
           pg_relation_filenode(c.oid) AS filenode
      FROM pg_class c
      JOIN pg_database d ON d.datname = current_database()
     WHERE pg_relation_filenode(c.oid) IS NOT NULL";

/// A file name in a folder of the database.
pub struct Listed {
    pub tablespace: u32,
    pub folder: String,
    pub name: String,
    pub relation: RelationFile,
}

/// What runs, in seconds since 1970.
pub struct Running {
    /// Since when the oldest transaction runs, where one does.
    pub since: Option<i64>,
    /// When the last finished checkpoint began.
    pub checkpoint: i64,
}

/// What is known of one file.
pub struct Stat {
    pub path: String,
    pub bytes: u64,
    pub modified: i64,
    pub modified_text: String,
}

/// Asks for what is needed, refuses what can't be looked at, and names the database.
pub fn begin(session: &mut Session) -> Result<String> {
    session.execute(ONLY_THE_SERVERS).map_err(refused)?;
    let rows = session.query(STATE).map_err(refused)?;
    let row = rows.first().ok_or_else(|| {
        refuse("the server does not know the database that it has connected us to", "try again")
    })?;
    let database = row.text("database");
    if row.flag("is_standby") {
        return Err(refuse(
            "the server is a standby, where files of a load in progress on the primary look like \
             orphans",
            "run this command on the primary",
        ));
    }
    let role = row.text("role");
    let quoted = quote_identifier(&role).map_err(refused)?;
    let functions: Vec<&str> = [
        ("may_list", "pg_ls_dir(text, boolean, boolean)"),
        ("may_stat", "pg_stat_file(text, boolean)"),
        ("may_system", "pg_control_system()"),
        ("may_checkpoint", "pg_control_checkpoint()"),
    ]
    .into_iter()
    .filter(|(column, _)| !row.flag(*column))
    .map(|(_, function)| function)
    .collect();
    if !functions.is_empty() {
        let functions = functions.join(", ");
        return Err(refuse(
            format!("role {role} lacks EXECUTE privilege on {functions}"),
            format!(
                "connect as a superuser, or as one: GRANT EXECUTE ON FUNCTION {functions} TO {quoted}, in database {database}"
            ),
        ));
    }
    if !row.flag("may_watch") {
        return Err(refuse(
            format!(
                "role {role} lacks the privileges of pg_read_all_stats to see when other \
                 transactions began: a load in progress would look like an orphan"
            ),
            format!("connect as a superuser, or as one: GRANT pg_read_all_stats TO {quoted}"),
        ));
    }
    Ok(database)
}

/// All relation files of the database, by name.
pub fn names(session: &mut Session) -> Result<Vec<Listed>> {
    let rows = session.query(NAMES).map_err(refused)?;
    Ok(rows
        .iter()
        .filter_map(|row| {
            let name = row.text("name");
            let relation = RelationFile::of(&name)?;
            let tablespace = row.number("tablespace")?;
            Some(Listed { tablespace, folder: row.text("folder"), name, relation })
        })
        .collect())
}

pub fn running(session: &mut Session) -> Result<Running> {
    let rows = session.query(RUNNING).map_err(refused)?;
    let row = rows.first();
    Ok(Running {
        since: row.and_then(|row| row.number("since")),
        checkpoint: row.and_then(|row| row.number("checkpoint")).unwrap_or_default(),
    })
}

/// Tablespace and file number of every relation that the catalog knows.
pub fn known(session: &mut Session) -> Result<BTreeSet<(u32, u32)>> {
    let rows = session.query(KNOWN).map_err(refused)?;
    Ok(rows
        .iter()
        .filter_map(|row| Some((row.number("tablespace")?, row.number("filenode")?)))
        .collect())
}

/// Size and time of those files that are still there.
pub fn stat(session: &mut Session, paths: &[String]) -> Result<Vec<Stat>> {
    let mut found = Vec::new();
    for paths in paths.chunks(FILES_AT_ONCE) {
        let literals: std::result::Result<Vec<_>, _> =
            paths.iter().map(|path| quote_literal(path)).collect();
        let rows = session
            .query(&format!(
                "SELECT path, s.size, floor(extract(epoch FROM s.modification))::bigint AS modified,
                        to_char(s.modification AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')
                          AS modified_text
                   FROM unnest(ARRAY[{}]::text[]) AS path
                  CROSS JOIN LATERAL pg_stat_file(path, true) AS s
                  WHERE s.size IS NOT NULL",
                literals.map_err(refused)?.join(", ")
            ))
            .map_err(refused)?;
        found.extend(rows.iter().filter_map(|row| {
            Some(Stat {
                path: row.text("path"),
                bytes: row.number("size")?,
                modified: row.number("modified")?,
                modified_text: row.text("modified_text"),
            })
        }));
    }
    Ok(found)
}
