//! Values among bytes, after their lengths.

use arrow_schema::ArrowError;

/// What a length takes: seven bits a byte, the lowest first (LEB128).
fn length_bytes(length: usize) -> usize {
    (70 - (length as u64 | 1).leading_zeros() as usize) / 7
}

pub fn write_length(mut length: usize, out: &mut [u8], at: &mut usize) {
    while length >= 0x80 {
        out[*at] = length as u8 | 0x80;
        *at += 1;
        length >>= 7;
    }
    out[*at] = length as u8;
    *at += 1;
}

pub fn write_bytes(bytes: &[u8], out: &mut [u8], at: &mut usize) {
    out[*at..*at + bytes.len()].copy_from_slice(bytes);
    *at += bytes.len();
}

/// What so many bytes take with their length before them.
pub fn value_bytes(length: usize) -> usize {
    length_bytes(length) + length
}

pub fn write_value(value: &[u8], out: &mut [u8], at: &mut usize) {
    write_length(value.len(), out, at);
    write_bytes(value, out, at);
}

pub fn length_at(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut length = 0;
    for shift in (0..usize::BITS).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(length);
        }
    }
    None
}

/// The first bytes of what is left, and zeros where there are fewer.
#[inline]
pub fn first_bytes<const N: usize>(left: &[u8]) -> [u8; N] {
    left.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; N];
        padded[..left.len()].copy_from_slice(left);
        padded
    })
}

pub fn broken() -> ArrowError {
    ArrowError::IpcError("its rows are not as they were written".into())
}
