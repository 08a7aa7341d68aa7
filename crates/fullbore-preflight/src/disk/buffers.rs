//! Buffers for direct I/O: aligned, and filled with incompressible data.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// So much at least, whatever the file system would be content with.
const ALIGNMENT_MIN: usize = 4096;

/// What devices that keep equal data once compare, at least.
const STAMPED_EVERY: usize = 4096;

/// Buffers of one size, one per I/O in flight.
pub struct Buffers {
    memory: NonNull<u8>,
    layout: Layout,
    block_bytes: usize,
}

// SAFETY: the memory is owned and reached only through this.
unsafe impl Send for Buffers {}
// SAFETY: shared, it only hands out pointers; whoever uses them keeps to a buffer of their own.
unsafe impl Sync for Buffers {}

impl Buffers {
    /// `seed` makes the bytes of two paths differ.
    pub fn new(count: usize, block_bytes: usize, alignment: usize, seed: u64) -> Self {
        let alignment = alignment.max(ALIGNMENT_MIN).next_power_of_two();
        let layout = Layout::from_size_align(count.max(1) * block_bytes, alignment)
            .expect("the request's limits keep it small");
        // SAFETY: the size is not zero: there is at least one block of at least 512 bytes.
        let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            handle_alloc_error(layout)
        };
        let buffers = Self { memory, layout, block_bytes };
        buffers.fill(seed);
        buffers
    }

    /// The buffer of one I/O. Whoever uses it must not use another of this number meanwhile.
    pub fn at(&self, slot: usize) -> *mut u8 {
        assert!((slot + 1) * self.block_bytes <= self.layout.size());
        // SAFETY: just asserted to lie inside the allocation.
        unsafe { self.memory.as_ptr().add(slot * self.block_bytes) }
    }

    /// Makes a block to be written unlike all others, so that no device keeps one copy of them. Nobody
    /// else may use the buffer meanwhile.
    pub fn stamp(&self, slot: usize, block: u64) {
        let stamp = block.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let buffer = self.at(slot);
        for at in (0..self.block_bytes).step_by(STAMPED_EVERY) {
            // SAFETY: within the buffer, whose length is a multiple of 512 bytes; it is the caller's alone.
            unsafe { buffer.add(at).cast::<u64>().write_unaligned(stamp ^ at as u64) };
        }
    }

    fn fill(&self, seed: u64) {
        // SAFETY: ours, initialised by the allocation, and nobody else has it yet.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.layout.size()) };
        let mut state = seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15) | 1;
        for word in bytes.chunks_exact_mut(8) {
            // xorshift64*: enough for a device not to find anything to pack.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            word.copy_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_page_is_written_twice() {
        let buffers = Buffers::new(2, 16384, 4096, 7);
        let mut pages = HashSet::new();
        for block in 0..1000 {
            let slot = block % 2;
            buffers.stamp(slot, block as u64);
            // SAFETY: the buffer is initialised, and nobody writes to it meanwhile.
            let written = unsafe { std::slice::from_raw_parts(buffers.at(slot), 16384) };
            for page in written.chunks(4096) {
                assert!(pages.insert(page.to_vec()), "block {block}");
            }
        }
    }
}
