//! Writes into room that was reserved beforehand.
//!
//! The room is asked for once per batch: measured, a check per field costs about a fifth of the
//! encoder's time. The place is handed from call to call by value, so that it stays in a register:
//! kept in a structure in memory it costs another third.

/// Bytes that may be written past a value's end before they are overwritten by the next.
const SLACK: usize = 64;

/// What is moved at a time; wider where the processor's instructions are.
type Wide = [u64; 4];

/// Where the next byte goes.
#[derive(Clone, Copy)]
pub struct Place {
    at: *mut u8,
    #[cfg(debug_assertions)]
    end: *mut u8,
}

/// Makes room for `room` bytes after what `out` holds: where the first of them goes.
pub fn start(out: &mut Vec<u8>, room: usize) -> Place {
    out.reserve(room + SLACK);
    let at = out.spare_capacity_mut().as_mut_ptr().cast::<u8>();
    Place {
        at,
        #[cfg(debug_assertions)]
        end: at.wrapping_add(room),
    }
}

/// Ends writing: what stands before `place` belongs to `out`.
///
/// # Safety
/// `place` came of a [`start`] on `out`, which has not changed since, and of writing no more bytes
/// than it made room for.
pub unsafe fn finish(out: &mut Vec<u8>, place: Place) {
    // SAFETY: both are in one allocation, and all between them was written.
    unsafe {
        let written = place.at.offset_from(out.as_ptr().add(out.len()));
        out.set_len(out.len() + written as usize);
    }
}

impl Place {
    #[inline(always)]
    fn after(self, bytes: usize) -> Self {
        // `start`'s caller computed the room from the very columns that are written.
        #[cfg(debug_assertions)]
        assert!(self.end as usize - self.at as usize >= bytes);
        // SAFETY: within the room, by the promise to `finish`.
        Self { at: unsafe { self.at.add(bytes) }, ..self }
    }

    /// Writes bytes of fixed number.
    #[inline(always)]
    pub fn put<const N: usize>(self, bytes: [u8; N]) -> Self {
        self.put_some(bytes, N)
    }

    /// Writes the first few of `bytes`.
    #[inline(always)]
    pub fn put_some<const N: usize>(self, bytes: [u8; N], count: usize) -> Self {
        const { assert!(N <= SLACK) };
        debug_assert!(count <= N);
        let after = self.after(count);
        // SAFETY: SLACK bytes past the room are reserved.
        unsafe { self.at.cast::<[u8; N]>().write_unaligned(bytes) };
        after
    }

    /// Writes zeros until what follows stands at a multiple of `mask` + 1 bytes after `start`.
    #[inline(always)]
    pub fn align(self, start: Self, mask: usize) -> Self {
        debug_assert!(mask < 8);
        let padding = (start.at as usize).wrapping_sub(self.at as usize) & mask;
        self.put_some([0; 8], padding)
    }

    /// How many bytes were written since `start`.
    #[inline(always)]
    pub fn since(self, start: Self) -> usize {
        self.at as usize - start.at as usize
    }

    /// Writes the length, in 32 bits, of what `write` writes, and that.
    #[inline(always)]
    pub fn put_with_length(self, write: impl FnOnce(Self) -> Self) -> Self {
        let start = self.put([0; 4]);
        let end = write(start);
        // SAFETY: both are in the room that both were moved through.
        let length = unsafe { end.at.offset_from(start.at) } as i32;
        self.put(length.to_be_bytes());
        end
    }

    /// Writes `values[start..end]`; a short one by one fixed-size move.
    #[inline(always)]
    pub fn put_range(self, values: &[u8], start: usize, end: usize) -> Self {
        let bytes = &values[start..end];
        let after = self.after(bytes.len());
        if bytes.len() <= SLACK && values.len() - start >= SLACK {
            // As numbers, not as bytes: the compiler would make one call to `memcpy` of the two.
            let (from, to) = (bytes.as_ptr().cast::<Wide>(), self.at.cast::<Wide>());
            for part in 0..SLACK / size_of::<Wide>() {
                // SAFETY: SLACK bytes are readable at `start`; as many past the room are reserved.
                unsafe { to.add(part).write_unaligned(from.add(part).read_unaligned()) };
            }
        } else {
            // SAFETY: there is room for so many bytes; the two do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at, bytes.len()) };
        }
        after
    }
}
