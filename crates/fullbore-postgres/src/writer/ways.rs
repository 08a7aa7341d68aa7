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
    /// The piece that goes by it; the first one is dealt before it is known.
    piece: Option<Dealt>,
    /// The sessions by other ways.
    parked: BTreeMap<usize, (u64, Session)>,
}

/// The session by which a piece goes.
enum Next {
    Present,
    Other(Box<Session>),
}

impl Several {
    /// Whether a session of that time is still there.
    fn is_there(&self, (at, times): (usize, u64)) -> bool {
        times == self.endpoints.times_down(at)
    }

    /// The session that there is by a way.
    fn has(&mut self, at: usize) -> Option<Next> {
        if at == self.at.0 && self.is_there(self.at) {
            return Some(Next::Present);
        }
        let (times, session) = self.parked.remove(&at)?;
        self.is_there((at, times)).then(|| Next::Other(Box::new(session)))
    }

    /// Any session that there is, and its way.
    fn has_any(&mut self) -> Option<(usize, Next)> {
        let mut ways: Vec<usize> = self.parked.keys().copied().collect();
        ways.insert(0, self.at.0);
        ways.into_iter().find_map(|at| Some((at, self.has(at)?)))
    }
}

/// A session for a piece: the one that there is by the way that it was dealt, or another; by another way where that one
/// is down.
fn next(
    postgres: &Postgres,
    endpoints: &Endpoints,
    piece: &mut Dealt,
    mut there: Option<&mut Several>,
) -> Result<Next> {
    let mut tries = endpoints.count();
    loop {
        tries -= 1;
        if let Some(next) = there.as_mut().and_then(|several| several.has(piece.at)) {
            return Ok(next);
        }
        match postgres.session_by_way(endpoints, piece.at) {
            Ok(opened) => return Ok(Next::Other(Box::new(opened))),
            // Another connection is not to be had: the piece goes by one that is there.
            Err(error) if error.is_crowded() => {
                let (at, next) = there.and_then(Several::has_any).ok_or(error)?;
                piece.instead(at);
                return Ok(next);
            }
            Err(error) if error.is_lost() && tries > 0 => piece.again(),
            Err(error) => return Err(error),
        }
    }
}

impl<'a> Ways<'a> {
    /// Opens a stream's first session, by the way that its first piece is dealt.
    pub fn open(postgres: &'a Postgres, stream: usize) -> Result<(Self, Session)> {
        let mut ways = Self { postgres, stream, shown: None, several: None };
        let mut session = match &postgres.endpoints {
            None => postgres.marked_session_now()?,
            Some(endpoints) => {
                let mut piece = endpoints.deal(0);
                let Next::Other(session) = next(postgres, endpoints, &mut piece, None)? else {
                    unreachable!("no session is there yet");
                };
                let at = (piece.at, endpoints.times_down(piece.at));
                let (endpoints, piece) = (endpoints.clone(), Some(piece));
                let several = Several { endpoints, at, piece, parked: BTreeMap::new() };
                ways.several = Some(several);
                *session
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
        let endpoints = several.endpoints.clone();
        let mut dealt = several.piece.take().unwrap_or_else(|| endpoints.deal(0));
        dealt.add(bytes);
        let next = next(self.postgres, &endpoints, &mut dealt, Some(several))?;
        if let Next::Other(next) = next {
            let before = several.at;
            several.at = (dealt.at, several.endpoints.times_down(dealt.at));
            let left = std::mem::replace(session, *next);
            if before.0 != dealt.at && !left.is_broken() {
                several.parked.insert(before.0, (before.1, left));
            }
            several.piece = Some(dealt);
            return self.show(session);
        }
        several.piece = Some(dealt);
        Ok(())
    }

    /// So many bytes of the piece's source are sent.
    pub fn sent(&mut self, bytes: u64) {
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
        }
    }

    /// The name of the way, where there are several.
    pub fn name(&self) -> Option<&str> {
        self.several.as_ref().map(|several| several.endpoints.name(several.at.0))
    }
}
