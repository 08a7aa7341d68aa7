//! The memory of all pages that are read concurrently.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::constants::PAGES_BYTES_SHARED;

/// Bytes of pages that are held, by all feeds of a run.
#[derive(Debug, Default)]
pub struct PageMemory {
    held: AtomicU64,
}

impl PageMemory {
    /// Whether another feed may begin: nothing is held, or little enough for pages to come.
    pub fn has_room(&self) -> bool {
        self.held.load(Ordering::Acquire) <= PAGES_BYTES_SHARED / 2
    }
}

/// What one feed holds of it.
#[derive(Debug)]
pub struct Held {
    shared: Arc<PageMemory>,
    bytes: u64,
}

impl Held {
    pub fn none(shared: Arc<PageMemory>) -> Self {
        Self { shared, bytes: 0 }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes more; false where others hold so much that it must wait for them. Who holds alone gets
    /// what there is.
    pub fn take(&mut self, bytes: u64) -> bool {
        let before = self.shared.held.fetch_add(bytes, Ordering::AcqRel);
        let is_alone = before <= self.bytes;
        if before + bytes > PAGES_BYTES_SHARED && !is_alone {
            self.shared.held.fetch_sub(bytes, Ordering::AcqRel);
            return false;
        }
        self.bytes += bytes;
        true
    }

    pub fn give_back(&mut self, bytes: u64) {
        self.shared.held.fetch_sub(bytes, Ordering::AcqRel);
        self.bytes -= bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_alone_waits() {
        let shared = Arc::new(PageMemory::default());
        let (mut one, mut two) = (Held::none(shared.clone()), Held::none(shared.clone()));
        assert!(one.take(2 * PAGES_BYTES_SHARED), "alone");
        assert!(!two.take(1) && two.bytes() == 0);
        assert!(!shared.has_room());
        assert!(one.take(5));
        drop(one);
        assert!(shared.has_room() && two.take(7) && two.bytes() == 7);
        two.give_back(3);
        drop(two);
        assert_eq!(shared.held.load(Ordering::Acquire), 0);
    }
}
