//! Writes into a vector whose room was reserved beforehand.

/// A place in a vector that bytes are appended at.
///
/// The room is asked for once per batch: measured, a check per field costs about a fifth of the
/// encoder's time.
pub struct Cursor<'a> {
    out: &'a mut Vec<u8>,
    at: usize,
    room_end: usize,
}

/// Bytes that may be written past a value's end before they are overwritten by the next.
const SLACK: usize = 32;

impl<'a> Cursor<'a> {
    /// Appends to `out`, which gets room for `room` bytes.
    pub fn new(out: &'a mut Vec<u8>, room: usize) -> Self {
        let at = out.len();
        out.reserve(room + SLACK);
        Self { room_end: at + room, out, at }
    }

    #[inline(always)]
    fn claim(&mut self, bytes: usize) -> *mut u8 {
        // The encoder computed the room from the very columns that it writes.
        debug_assert!(self.at + bytes <= self.room_end);
        // SAFETY: at + bytes <= room_end, which lies within the capacity.
        let place = unsafe { self.out.as_mut_ptr().add(self.at) };
        self.at += bytes;
        place
    }

    /// Appends a few bytes of fixed number.
    #[inline(always)]
    pub fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        let place = self.claim(N);
        // SAFETY: `claim` gave room for N bytes.
        unsafe { place.cast::<[u8; N]>().write_unaligned(bytes) };
    }

    /// Appends `values[start..end]`; short ones by one fixed-size move.
    #[inline(always)]
    pub fn put_range(&mut self, values: &[u8], start: usize, end: usize) {
        let bytes = &values[start..end];
        let place = self.claim(bytes.len());
        if bytes.len() <= SLACK && start + SLACK <= values.len() {
            // SAFETY: SLACK bytes are readable at `start`; SLACK bytes past the room are reserved.
            unsafe { std::ptr::copy_nonoverlapping(values.as_ptr().add(start), place, SLACK) };
        } else {
            // SAFETY: `claim` gave room for so many bytes; the two do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        }
    }

    /// Appends bytes whose number was not foreseen.
    pub fn put_unforeseen(&mut self, bytes: &[u8]) {
        let left = self.room_end - self.at;
        // SAFETY: everything before `at` was written.
        unsafe { self.out.set_len(self.at) };
        self.out.reserve(left + bytes.len() + SLACK);
        self.room_end += bytes.len();
        self.put_range(bytes, 0, bytes.len());
    }

    /// Ends writing: the vector's length is what was written.
    pub fn finish(self) {
        // SAFETY: everything before `at` was written.
        unsafe { self.out.set_len(self.at) };
    }
}
