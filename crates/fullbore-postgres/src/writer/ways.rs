//! The ways that a stream has where several endpoints are given: a session for each that it was sent to.

use std::collections::BTreeMap;
use std::sync::Arc;

use fullbore_pgwire::Session;
use fullbore_read::error::{Error, Result};

use crate::endpoints::{Dealt, Endpoints};
use crate::error::failed;
use crate::postgres::Postgres;
use crate::watch;
use crate::watch::sockets::Shown;

/// What a stream knows of its ways, its present session apart.
pub struct Ways<'a> {
    postgres: &'a Postgres,
    stream: usize,
    /// Dropped before the session, which it would keep open.
    shown: Option<Shown<'a>>,
    several: Option<Several>,
}

struct Several {
    endpoints: Arc<Endpoints>,
    /// The way of the present session, and how often it had been down before.
    at: (usize, u64),
    /// The piece that goes by it; the first one was dealt before it was known.
    piece: Option<Dealt>,
    is_first: bool,
    /// The sessions by other ways.
    parked: BTreeMap<usize, (u64, Session)>,
}

impl<'a> Ways<'a> {
    /// Opens a stream's first session, by the way that its first piece is dealt.
    pub fn open(postgres: &'a Postgres, stream: usize) -> Result<(Self, Session)> {
        let mut ways = Self { postgres, stream, shown: None, several: None };
        let mut session = match &postgres.endpoints {
            None => postgres.marked_session_now()?,
            Some(endpoints) => {
                let mut piece = endpoints.deal(0);
                let session = postgres.stream_session(endpoints, &mut piece)?;
                let at = (piece.at, endpoints.times_down(piece.at));
                ways.several = Some(Several {
                    endpoints: endpoints.clone(),
                    at,
                    piece: Some(piece),
                    is_first: true,
                    parked: BTreeMap::new(),
                });
                session
            }
        };
        ways.show(&mut session)?;
        Ok((ways, session))
    }

    fn show(&mut self, session: &mut Session) -> Result<()> {
        let backend = watch::backend_of(session).map_err(failed)?;
        self.postgres.lock_backends().insert(self.stream, backend);
        self.shown = None;
        self.shown = self.postgres.sockets.show(self.stream, session);
        Ok(())
    }

    /// Makes the session that by which a piece of so many bytes goes.
    pub fn choose(&mut self, session: &mut Session, bytes: u64) -> Result<()> {
        let Some(several) = &mut self.several else { return Ok(()) };
        let postgres = self.postgres;
        postgres.report_news(&several.endpoints);
        let mut dealt = several.endpoints.deal(bytes);
        if several.is_first {
            several.is_first = false;
            dealt.instead(several.at.0);
        }
        let is_there = |times: u64, at: usize| times == several.endpoints.times_down(at);
        if dealt.at == several.at.0 && is_there(several.at.1, dealt.at) {
            several.piece = Some(dealt);
            return Ok(());
        }
        let parked = several.parked.remove(&dealt.at);
        let next = match parked.filter(|(times, _)| is_there(*times, dealt.at)) {
            Some((_, parked)) => parked,
            None => match postgres.stream_session(&several.endpoints, &mut dealt) {
                // The other ways are no use without connections: the piece goes by the one that it has.
                Err(error) if error.is_crowded() && is_there(several.at.1, several.at.0) => {
                    dealt.instead(several.at.0);
                    several.piece = Some(dealt);
                    return Ok(());
                }
                opened => opened?,
            },
        };
        let before = several.at;
        several.at = (dealt.at, several.endpoints.times_down(dealt.at));
        let left = std::mem::replace(session, next);
        if before.0 != dealt.at {
            several.parked.insert(before.0, (before.1, left));
        }
        several.piece = Some(dealt);
        self.show(session)
    }

    /// So many bytes of the piece are sent.
    pub fn sent(&mut self, bytes: usize) {
        if let Some(piece) = self.several.as_mut().and_then(|several| several.piece.as_mut()) {
            piece.sent(bytes);
        }
    }

    /// The piece is committed, or taken back.
    pub fn end_piece(&mut self) {
        if let Some(several) = &mut self.several {
            several.piece = None;
        }
    }

    /// The session's connection broke.
    pub fn lose(&self, why: &Error) {
        if let Some(several) = &self.several {
            // One that is back may have been down since.
            if several.at.1 == several.endpoints.times_down(several.at.0) {
                several.endpoints.lose(several.at.0, &why.to_string());
            }
            self.postgres.report_news(&several.endpoints);
        }
    }

    /// The name of the way, where there are several.
    pub fn name(&self) -> Option<&str> {
        self.several.as_ref().map(|several| several.endpoints.name(several.at.0))
    }
}
