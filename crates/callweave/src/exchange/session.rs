//! The lines of a session: which are this exchange's, and which of them are its response.

use super::fault::UpstreamFault;
use crate::event::TokenCounts;
use crate::protocol::{CodexSession, ServerMessage};

/// A session, and the line that is coming in.
#[derive(Debug)]
pub(super) struct SessionLines {
    session: CodexSession,
    line: Vec<u8>,
    /// The limit of a line.
    max_line: usize,
}

/// A line of a session that matters to the response.
pub(super) enum SessionLine<'l> {
    /// A part of the response.
    Response(&'l [u8]),
    /// The usage of an interrupted turn: the counts, and as they were written.
    Usage(TokenCounts, &'l str),
    /// The interrupted turn is over.
    Settled,
    /// The last one: an error.
    Failure(&'l [u8]),
    /// The last one: the session cannot go on after it.
    Fault(UpstreamFault),
    /// A line longer than the limit: its session is unknown.
    TooLong,
}

/// The state of a response after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionOutcome {
    GoesOn,
    /// The response was ended after its calls: the turn is interrupted, and its usage may follow.
    Settles,
    Over,
}

impl SessionLines {
    pub(super) fn new(session: CodexSession, max_line: usize) -> Self {
        Self { session, line: Vec::new(), max_line }
    }

    /// The session.
    pub(super) fn session(&mut self) -> &mut CodexSession {
        &mut self.session
    }

    /// The name of the session.
    pub(super) fn id(&self) -> &str {
        self.session.id()
    }

    /// Whether the model was asked.
    pub(super) fn has_turn(&self) -> bool {
        self.session.has_turn()
    }

    /// Whether there is something to send.
    pub(super) fn has_outgoing(&self) -> bool {
        self.session.has_outgoing()
    }

    /// Takes bytes of the session, and calls `hear` with each line of the response until that is over.
    pub(super) fn push(&mut self, bytes: &[u8], mut hear: impl FnMut(SessionLine<'_>) -> SessionOutcome) {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, next) = rest.split_at(end + 1);
            rest = next;
            self.line.extend_from_slice(line);
            let line = std::mem::take(&mut self.line);
            let heard =
                std::str::from_utf8(&line).map_or(ServerMessage::Other, |line| self.session.hear(line));
            let outcome = match heard {
                ServerMessage::Rewritten(line) => hear(SessionLine::Response((line + "\n").as_bytes())),
                ServerMessage::Usage(counters, raw) => hear(SessionLine::Usage(counters, &raw)),
                ServerMessage::Settled => hear(SessionLine::Settled),
                ServerMessage::Response => hear(SessionLine::Response(&line)),
                ServerMessage::Failure => hear(SessionLine::Failure(&line)),
                ServerMessage::Fault(fault) => hear(SessionLine::Fault(fault)),
                ServerMessage::Other => SessionOutcome::GoesOn,
            };
            self.line = line;
            self.line.clear();
            match outcome {
                SessionOutcome::GoesOn => {}
                SessionOutcome::Settles => self.session.settle(),
                SessionOutcome::Over => return,
            }
        }
        if self.line.len() + rest.len() > self.max_line {
            hear(SessionLine::TooLong);
            return;
        }
        self.line.extend_from_slice(rest);
    }
}
