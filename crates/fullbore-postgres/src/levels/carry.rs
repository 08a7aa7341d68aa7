//! Carries the rows of merged partitions into the new one.
//!
//! Pages that INSERT ... SELECT fills are written again when their rows are first read and get hint bits; where pages
//! have checksums, they are logged then as well. COPY ... FREEZE in the transaction that made the table leaves nothing to
//! change, but takes its rows from a client. So they come here and go back, if the server is this machine's own: over a
//! network the way would cost more than it saves. Where the server has the extension, they go back as a direct load, which
//! writes each page once and fills the indexes meanwhile.

use fullbore_load::job::DirectIo;
use fullbore_pgwire::{ConnectionError, CopyIn, QualifiedName, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::terms::Codec;

use super::shape;
use crate::catalog;
use crate::direct::known::{Filled, Probe};
use crate::direct::load::DirectLoad;
use crate::direct::{check, filled, probe};
use crate::encode_copy::{BINARY_HEADER, BINARY_TRAILER};
use crate::encode_direct::{Kind, header};
use crate::error::{failed, failed_while};
use crate::local::is_near;
use crate::publish::replace::tools::SORTS;

/// Bytes of rows that are sent at once, if one is not longer by itself.
const SENT: usize = 64 << 10;

/// Whether all columns of the table `{oid}`, and what their arrays hold, have binary formats of their own.
const IS_BINARY: &str = "
    SELECT bool_and(t.typtype IN ('b', 'e') AND t.typsend <> 0 AND t.typreceive <> 0
                    AND (e.oid IS NULL OR e.typtype IN ('b', 'e') AND e.typsend <> 0 AND e.typreceive <> 0))
               AS is_binary
      FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type e ON e.oid = t.typelem
     WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''";

/// How rows get into the new table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Within,
    ThroughHere,
    /// The same, and the extension is asked to take them; `fills`: and all indexes from them.
    Direct {
        fills: bool,
    },
}

impl Way {
    /// The way of a table, given by its number, whose partitions are like one of them; `may_be_direct`: nobody wants
    /// another one. Not to be asked in a transaction that lasts: looking at a partition locks the table.
    pub fn of(
        session: &mut Session,
        oid: u32,
        like: &QualifiedName,
        may_be_direct: bool,
    ) -> Result<Self> {
        if !is_near(session).map_err(failed)? {
            return Ok(Self::Within);
        }
        let found = session.query(&IS_BINARY.replace("{oid}", &oid.to_string())).map_err(failed)?;
        if !found.first().is_some_and(|row| row.flag("is_binary")) {
            return Ok(Self::Within);
        }
        let is_direct = may_be_direct
            && check::missing(session).map_err(failed)?.is_empty()
            && !probe::is_decoded(session)?;
        if !is_direct {
            return Ok(Self::ThroughHere);
        }
        let like = catalog::relation(session, like).map_err(failed)?;
        let indexes = like.map(|like| filled::of_table(session, like.oid)).transpose();
        let indexes = indexes.map_err(failed)?.unwrap_or_default();
        let mut early = indexes.iter().filter(|(index, _)| !shape::is_late(index)).peekable();
        let fills = early.peek().is_some() && early.all(|(_, reason)| reason.is_none());
        Ok(Self::Direct { fills })
    }
}

/// The direct load of a table that the session's transaction has made; `None` where the extension does not take it.
pub fn direct(
    session: &mut Session,
    leaf: &QualifiedName,
    columns: &str,
    fills: bool,
) -> Result<Option<DirectLoad>> {
    let found = check::described(session, leaf).map_err(failed)?;
    match probe::usable(found, Filled::new()) {
        Probe::Described(found, _) => {
            DirectLoad::on(leaf, columns, &found, DirectIo::Auto, None, fills).map(Some)
        }
        Probe::Impossible { .. } => Ok(None),
    }
}

/// Fills a table that the session's transaction has made with what a query of another session gives; how many rows.
pub fn through_here(
    to: &mut Session,
    leaf: &QualifiedName,
    columns: &str,
    direct: Option<&DirectLoad>,
    from: &mut Session,
    query: &str,
) -> Result<u64> {
    let what = format!("merging partitions into {leaf}");
    let failed = |error| failed_while(error, &what);
    from.execute(SORTS).map_err(failed)?;
    let statement = match direct {
        Some(direct) => direct.copy_sql(),
        None => format!("COPY {leaf} ({columns}) FROM STDIN (FORMAT binary, FREEZE)"),
    };
    tracing::debug!(backend = to.backend_pid(), "{statement}");
    let copy = to.copy_in(&statement).map_err(failed)?;
    let mut sending = Sending { copy, in_frames: direct.is_some(), bytes: Vec::new(), rows: 0 };
    if direct.is_none() {
        sending.copy.send(BINARY_HEADER).map_err(failed)?;
    }
    let mut refused = None;
    let mut is_first = true;
    let read =
        from.copy_out(&format!("COPY ({query}) TO STDOUT (FORMAT binary)"), &mut |message| {
            // What the server says before its first row and after its last.
            let begins = std::mem::take(&mut is_first);
            let row = message.strip_prefix(BINARY_HEADER).filter(|_| begins).unwrap_or(message);
            let row = if row == BINARY_TRAILER { &[] } else { row };
            sending.take(row).map_err(|error| {
                refused = Some(error);
                std::io::ErrorKind::BrokenPipe.into()
            })
        });
    // Of two errors, the other one is that nobody took the rows any more.
    if let Some(error) = refused {
        return Err(failed(error));
    }
    let rows = read.map_err(failed)?;
    let stored = sending.end().map_err(failed)?;
    if stored == rows {
        return Ok(rows);
    }
    Err(Error::Destination {
        message: format!("{what}: {rows} rows were read and {stored} stored"),
        hint: None,
        kind: DestinationFailure::Other,
    })
}

/// Rows on their way to a COPY.
struct Sending<'session> {
    copy: CopyIn<'session>,
    in_frames: bool,
    bytes: Vec<u8>,
    /// Of `bytes`.
    rows: usize,
}

impl Sending<'_> {
    fn take(&mut self, row: &[u8]) -> std::result::Result<(), ConnectionError> {
        if row.is_empty() {
            return Ok(());
        }
        // A long row goes by itself.
        if self.bytes.len() + row.len() > SENT {
            self.send()?;
        }
        self.bytes.extend_from_slice(row);
        self.rows += 1;
        Ok(())
    }

    fn send(&mut self) -> std::result::Result<(), ConnectionError> {
        if self.in_frames && self.rows > 0 {
            let (rows, bytes) = (self.rows, &self.bytes);
            let head = header(Kind::CopyBinary, Codec::None, rows, bytes.len(), bytes);
            self.copy.send(&head)?;
        }
        self.copy.send(&self.bytes)?;
        self.bytes.clear();
        self.rows = 0;
        Ok(())
    }

    /// How many rows were stored.
    fn end(mut self) -> std::result::Result<u64, ConnectionError> {
        self.send()?;
        if !self.in_frames {
            self.copy.send(BINARY_TRAILER)?;
        }
        self.copy.finish()
    }
}

/// The same within the server.
pub fn within(to: &mut Session, leaf: &QualifiedName, columns: &str, query: &str) -> Result<u64> {
    to.execute(SORTS).map_err(failed)?;
    to.execute(&format!("INSERT INTO {leaf} ({columns}) {query}"))
        .map_err(|error| failed_while(error, &format!("merging partitions into {leaf}")))
}
