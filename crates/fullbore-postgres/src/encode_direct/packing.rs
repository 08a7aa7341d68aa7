//! How all frames of a run are packed, which may change while it runs, and what each codec makes of them.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::Duration;

use fullbore_load::sink::Packed;
use fullbore_record::terms::Codec;

/// So much is packed by each codec to know it: some blocks.
const SAMPLED_BYTES: u64 = 2 << 20;

/// What encoders share.
#[derive(Debug)]
pub struct Packing {
    begun: Once,
    codec: AtomicU8,
    /// Bytes that are to be sampled yet.
    wanted: AtomicU64,
    sampled: Mutex<Vec<Sampled>>,
}

#[derive(Debug)]
struct Sampled {
    codec: Codec,
    raw: u64,
    packed: u64,
    time: Duration,
}

impl Default for Packing {
    fn default() -> Self {
        Self::new(Codec::None)
    }
}

impl Packing {
    pub fn new(codec: Codec) -> Self {
        Self {
            begun: Once::new(),
            codec: AtomicU8::new(codec as u8),
            wanted: AtomicU64::new(0),
            sampled: Mutex::default(),
        }
    }

    pub fn codec(&self) -> Codec {
        match self.codec.load(Ordering::Relaxed) {
            1 => Codec::Lz4,
            2 => Codec::Zstd,
            _ => Codec::None,
        }
    }

    /// Sets the codec to begin with, once in a run.
    pub fn begin(&self, first: impl FnOnce() -> Codec) {
        self.begun.call_once(|| self.set(first()));
    }

    pub fn set(&self, codec: Codec) {
        self.codec.store(codec as u8, Ordering::Relaxed);
    }

    /// Has some frames packed by each codec, once in a run.
    pub fn sample(&self) {
        if self.sampled.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).is_empty() {
            self.wanted.store(SAMPLED_BYTES, Ordering::Relaxed);
        }
    }

    pub fn wants_samples(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// A codec has made so many bytes of others.
    pub fn note(&self, codec: Codec, raw: usize, packed: usize, time: Duration) {
        let mut sampled = self.sampled.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (raw, packed) = (raw as u64, packed as u64);
        match sampled.iter_mut().find(|one| one.codec == codec) {
            Some(one) => {
                one.raw += raw;
                one.packed += packed;
                one.time += time;
            }
            None => sampled.push(Sampled { codec, raw, packed, time }),
        }
        if codec == Codec::Zstd {
            let left = self.wanted.load(Ordering::Relaxed).saturating_sub(raw);
            self.wanted.store(left, Ordering::Relaxed);
        }
    }

    /// What a codec makes of a byte, once it is known.
    pub fn sampled(&self, codec: Codec) -> Option<Packed> {
        let sampled = self.sampled.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let one = sampled.iter().find(|one| one.codec == codec && one.raw > 0)?;
        Some(Packed {
            ratio: one.packed as f64 / one.raw as f64,
            seconds_per_byte: one.time.as_secs_f64() / one.raw as f64,
        })
    }
}
