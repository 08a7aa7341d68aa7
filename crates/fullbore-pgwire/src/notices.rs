//! The notices that came, bounded in number and in memory: a trigger may send one a row.

use std::collections::VecDeque;

use super::limits;
use super::server_message::ServerMessage;

/// The latest notices.
pub(super) struct Notices {
    messages: VecDeque<ServerMessage>,
    bytes: usize,
    limit: usize,
    wanted: Option<Wanted>,
}

/// Whether a notice is wanted.
pub type Wanted = Box<dyn Fn(&ServerMessage) -> bool + Send>;

impl Default for Notices {
    fn default() -> Self {
        Self { messages: VecDeque::new(), bytes: 0, limit: limits::NOTICES_DEFAULT, wanted: None }
    }
}

impl Notices {
    pub(super) fn push(&mut self, message: ServerMessage) {
        if self.wanted.as_ref().is_some_and(|wanted| !wanted(&message)) {
            return;
        }
        self.bytes += message.bytes();
        self.messages.push_back(message);
        self.shrink();
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.shrink();
    }

    pub(super) fn set_wanted(&mut self, wanted: Option<Wanted>) {
        self.wanted = wanted;
    }

    pub(super) fn take(&mut self) -> Vec<ServerMessage> {
        self.bytes = 0;
        std::mem::take(&mut self.messages).into()
    }

    fn shrink(&mut self) {
        while self.messages.len() > self.limit || self.bytes > limits::NOTICES_BYTES_MAX {
            let Some(oldest) = self.messages.pop_front() else {
                return;
            };
            self.bytes -= oldest.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(text: &str) -> ServerMessage {
        ServerMessage { message: text.into(), ..ServerMessage::default() }
    }

    #[test]
    fn the_oldest_give_way() {
        let mut notices = Notices::default();
        notices.set_limit(2);
        for text in ["a", "b", "c"] {
            notices.push(notice(text));
        }
        let texts: Vec<String> = notices.take().into_iter().map(|notice| notice.message).collect();
        assert_eq!(texts, ["b", "c"]);
        assert!(notices.take().is_empty());

        notices.set_wanted(Some(Box::new(|notice| notice.message == "d")));
        for text in ["d", "e", "f", "g"] {
            notices.push(notice(text));
        }
        notices.set_wanted(None);
        assert_eq!(notices.take(), [notice("d")]);

        notices.set_limit(usize::MAX);
        let long = "x".repeat(1024 * 1024);
        for _ in 0..40 {
            notices.push(notice(&long));
        }
        let kept = notices.take().len();
        assert!((10..=16).contains(&kept), "{kept} MB kept");
    }
}
