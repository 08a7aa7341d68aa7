//! The checksum of what was read, made by the parsers block by block and joined in the order of the
//! source. CRC-64/NVME: with the wide carry-less multiplication of today's processors it is the
//! cheapest there is, and two stretches' checksums make the checksum of both.

#[cfg(target_arch = "x86_64")]
mod avx2;

use crc_fast::CrcAlgorithm::Crc64Nvme;

/// The polynomial without its highest term, lowest power first.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

/// `x` to the power of eight times two to the power of the place: what a number of zero bytes that is
/// a power of two does to a checksum.
const POWERS: [u64; 64] = powers();

pub fn of(text: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if avx2::is_available() && !is_x86_feature_detected!("avx512vl") {
        // SAFETY: the processor has the instructions.
        return unsafe { avx2::of(text) };
    }
    library(text)
}

fn library(text: &[u8]) -> u64 {
    crc_fast::checksum(Crc64Nvme, text)
}

/// The checksum of two stretches, the second one so many bytes long. A microsecond, where the general
/// way over matrices takes fifty.
pub fn joined(first: u64, second: u64, second_bytes: u64) -> u64 {
    let mut shifted = first;
    let mut bytes = second_bytes;
    while bytes != 0 {
        shifted = product(shifted, POWERS[bytes.trailing_zeros() as usize]);
        bytes &= bytes - 1;
    }
    shifted ^ second
}

/// The product of two polynomials, modulo the CRC's.
const fn product(a: u64, mut b: u64) -> u64 {
    let mut product = 0;
    let mut bit = 1 << 63;
    while bit != 0 {
        // No branch: the bits are as good as random.
        product ^= b & ((a & bit != 0) as u64).wrapping_neg();
        b = (b >> 1) ^ (POLYNOMIAL & (b & 1).wrapping_neg());
        bit >>= 1;
    }
    product
}

/// A power of `x`.
const fn x_to_the(mut power: u32) -> u64 {
    let mut result = 1 << 63;
    let mut factor = 1 << 62;
    while power != 0 {
        if power & 1 == 1 {
            result = product(result, factor);
        }
        factor = product(factor, factor);
        power >>= 1;
    }
    result
}

const fn powers() -> [u64; 64] {
    let mut power = x_to_the(8);
    let mut powers = [0; 64];
    let mut place = 0;
    while place < 64 {
        powers[place] = power;
        power = product(power, power);
        place += 1;
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_makes_the_same() {
        let text: Vec<u8> = (0..20_000_u32).flat_map(|i| (i * i).to_be_bytes()).collect();
        for bytes in (0..1100).chain([65_536, 65_537, 79_999]) {
            for start in [0, 1, 63] {
                let text = &text[start..][..bytes.min(text.len() - start)];
                assert_eq!(of(text), library(text), "{bytes} from {start}");
                #[cfg(target_arch = "x86_64")]
                if avx2::is_available() {
                    // SAFETY: the processor has the instructions.
                    let wide = unsafe { avx2::of(text) };
                    assert_eq!(wide, library(text), "{bytes} from {start}");
                }
            }
        }
    }

    #[test]
    fn stretches_make_the_whole() {
        let text: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        for cut in [0, 1, 4096, 262_144, 399_999, 400_000] {
            let (first, second) = text.split_at(cut);
            let bytes = second.len() as u64;
            assert_eq!(joined(of(first), of(second), bytes), of(&text), "{cut}");
            let general = crc_fast::checksum_combine(Crc64Nvme, of(first), of(second), bytes);
            assert_eq!(joined(of(first), of(second), bytes), general, "{cut}");
        }
        // The algorithm's check value, as its catalogue gives it.
        assert_eq!(of(b"123456789"), 0xae8b_1486_0a79_9888);
        // What a piece begins with.
        assert_eq!(joined(0, of(&text), 400_000), of(&text));
        // A length of more than 32 bits, over zeros that nobody has to hold.
        let far = 5 << 33;
        let general = crc_fast::checksum_combine(Crc64Nvme, of(b"a"), 0, far);
        assert_eq!(joined(of(b"a"), 0, far), general);
    }
}
