//! The kernels: what is common to all levels.

use super::lanes::{Group, Kernel, Lanes};
use crate::numbers::{POWERS_OF_TEN, ZEROS};

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
/// Added to a byte, sets its high bit where it is no digit (given as 0..=9).
const OVER_NINE: u64 = 0x7676_7676_7676_7676;

/// Sixteen-bit numbers, lowest first.
const fn words(a: u16, b: u16, c: u16, d: u16) -> u64 {
    a as u64 | (b as u64) << 16 | (c as u64) << 32 | (d as u64) << 48
}

#[inline(always)]
unsafe fn ones<L: Lanes>() -> L {
    // SAFETY: the caller's promise.
    unsafe { L::splat(u64::MAX) }
}

/// Whether no byte of the lane is above its limit; `limits` is 0x7f minus each byte's limit.
#[inline(always)]
unsafe fn within<L: Lanes>(bytes: L, limits: u64) -> L {
    // SAFETY: the caller's promise.
    unsafe {
        let over = bytes.add(L::splat(limits)).or(bytes).and(L::splat(HIGH_BITS));
        over.same(L::splat(0))
    }
}

/// The number that eight digits (0..=9, the first one lowest) make.
#[inline(always)]
unsafe fn number<L: Lanes>(digits: L) -> L {
    // SAFETY: the caller's promise.
    unsafe {
        let pairs = digits.weigh_bytes(L::splat(0x010a_010a_010a_010a));
        let fours = pairs.weigh_words(L::splat(words(100, 1, 100, 1)));
        fours.multiply(L::splat(10_000)).add(fours.right::<32>())
    }
}

/// The last `count` (up to 16) bytes of `low` and `high` together as a number; `high` are the eight
/// bytes before `low`. Counts of 0 and over 16 are not right.
#[inline(always)]
unsafe fn up_to_sixteen<L: Lanes>(low: L, high: impl FnOnce() -> L, count: L) -> (L, L) {
    // SAFETY: the caller's promise.
    unsafe {
        let ones = ones::<L>();
        let bits = count.left::<3>();
        let cut = L::splat(64).words_sub_or_0(bits);
        let digits = low.xor(L::splat(ZEROS)).and(ones.left_each(cut));
        let few = L::splat(9).above(count);
        let enough = count.above(L::splat(0));
        let right = within(digits, OVER_NINE).and(enough);
        let value = number(digits);
        if few.signs().count_ones() as usize == L::LANES {
            return (value, right);
        }
        let cut = L::splat(128).words_sub_or_0(bits);
        let digits = high().xor(L::splat(ZEROS)).and(ones.left_each(cut));
        let right = right.and(within(digits, OVER_NINE)).and(L::splat(17).above(count));
        (value.add(number(digits).multiply(L::splat(100_000_000))), right)
    }
}

/// Ones where a field of `count` (at most 8) bytes, the last ones of `bytes`, begins with a minus.
#[inline(always)]
unsafe fn minus<L: Lanes>(bytes: L, count: L) -> L {
    // SAFETY: the caller's promise.
    unsafe {
        let before = L::splat(64).words_sub_or_0(count.left::<3>());
        let first = bytes.right_each(before).and(L::splat(0xff));
        first.same(L::splat(u64::from(b'-'))).and(L::splat(9).above(count))
    }
}

#[inline(always)]
unsafe fn negate_where<L: Lanes>(value: L, ones: L) -> L {
    // SAFETY: the caller's promise.
    unsafe { value.xor(ones).sub(ones) }
}

/// Whole numbers of up to 16 digits, or 7 after a minus.
pub struct Integer;

impl Integer {
    #[inline(always)]
    unsafe fn parse<L: Lanes>(group: Group<L>) -> (L, L) {
        // SAFETY: the caller's promise; 16 bytes before the end are readable.
        unsafe {
            let count = group.end.sub(group.start);
            let low = L::gather(group.text, group.end.sub(L::splat(8)));
            let minus = minus(low, count);
            let high = || L::gather(group.text, group.end.sub(L::splat(16)));
            let (value, right) = up_to_sixteen(low, high, count.add(minus));
            (negate_where(value, minus), right)
        }
    }
}

impl Kernel for Integer {
    type Native = i64;

    #[inline(always)]
    unsafe fn values<L: Lanes>(&self, group: Group<L>) -> (L, L) {
        // SAFETY: handed on.
        unsafe { Self::parse(group) }
    }

    #[inline(always)]
    unsafe fn store<L: Lanes>(values: L, out: *mut i64) {
        // SAFETY: handed on.
        unsafe { values.store(out) }
    }
}

/// As [`Integer`], in 32 bits.
pub struct Integer32;

impl Kernel for Integer32 {
    type Native = i32;

    #[inline(always)]
    unsafe fn values<L: Lanes>(&self, group: Group<L>) -> (L, L) {
        // SAFETY: handed on.
        unsafe {
            let (value, right) = Integer::parse(group);
            // What is below zero has 7 digits at most.
            (value, right.and(L::splat(1 << 31).above(value)))
        }
    }

    #[inline(always)]
    unsafe fn store<L: Lanes>(values: L, out: *mut i32) {
        // SAFETY: handed on.
        unsafe { values.store_halves(out) }
    }
}

/// Decimals of up to 16 digits, 7 after a minus and 8 where not all digits of the scale are
/// written, with a digit at least before the point; in units of their last place.
pub struct Decimal {
    scale: u32,
    limit: u64,
}

impl Decimal {
    /// The kernel for a precision of up to 18 and a scale of 1 to 7; others have none.
    pub fn new(precision: u8, scale: u8) -> Option<Self> {
        let has_kernel = precision <= 18 && (1..=7).contains(&scale);
        let limit = POWERS_OF_TEN[usize::from(precision.min(18))];
        has_kernel.then_some(Self { scale: u32::from(scale), limit })
    }
}

impl Kernel for Decimal {
    type Native = i64;

    #[inline(always)]
    unsafe fn values<L: Lanes>(&self, group: Group<L>) -> (L, L) {
        // SAFETY: the caller's promise; 17 bytes before the end are readable.
        unsafe {
            let length = group.end.sub(group.start);
            let (first, last) = L::gather_two(group.text, group.end.sub(L::splat(16)));
            // The eight bytes one place to the left.
            let before = last.left::<8>().or(first.right::<56>());
            // What a field without a point is: all digits, the scale's still to be made.
            let mut pointed = L::splat(0);
            let mut low = last;
            let mut after = L::splat(0);
            let mut factor = L::splat(POWERS_OF_TEN[self.scale as usize]);
            let mut places = self.scale;
            while places > 0 && pointed.signs().count_ones() as usize != L::LANES {
                let point = last.right_each(L::splat(u64::from(56 - 8 * places)));
                let here = point.and(L::splat(0xff)).same(L::splat(u64::from(b'.')));
                // The digits after the point are the highest bytes of `last`; one place to the
                // left, over the point, stand those before it.
                let fraction = L::splat(u64::MAX << (64 - 8 * places));
                let digits = before.xor(before.xor(last).and(fraction));
                let choose = |old: L, new: L| old.xor(old.xor(new).and(here));
                low = choose(low, digits);
                after = choose(after, L::splat(u64::from(places)));
                factor = choose(factor, L::splat(POWERS_OF_TEN[(self.scale - places) as usize]));
                pointed = pointed.or(here);
                places -= 1;
            }
            let count = length.add(pointed);
            let minus = minus(low, count);
            let count = count.add(minus);
            let high = || L::gather(group.text, group.end.sub(L::splat(17)));
            let (value, right) = up_to_sixteen(low, high, count);
            let whole = factor.same(L::splat(1));
            // The factor is applied to the low half only.
            let right = right.and(count.above(after)).and(whole.or(L::splat(9).above(count)));
            let value = value.and(whole).or(value.multiply(factor).and(whole.xor(ones())));
            (negate_where(value, minus), right.and(L::splat(self.limit).above(value)))
        }
    }

    #[inline(always)]
    unsafe fn store<L: Lanes>(values: L, out: *mut i64) {
        // SAFETY: handed on.
        unsafe { values.store(out) }
    }
}

/// The same where the values are of 128 bits: most of them are short.
pub struct LongDecimal(Decimal);

impl LongDecimal {
    /// The kernel for a scale of 1 to 7; others have none.
    pub fn new(scale: u8) -> Option<Self> {
        Decimal::new(18, scale).map(Self)
    }
}

impl Kernel for LongDecimal {
    type Native = i128;

    #[inline(always)]
    unsafe fn values<L: Lanes>(&self, group: Group<L>) -> (L, L) {
        // SAFETY: handed on.
        unsafe { self.0.values(group) }
    }

    #[inline(always)]
    unsafe fn store<L: Lanes>(values: L, out: *mut i128) {
        let mut short = [0_i64; 8];
        debug_assert!(L::LANES <= short.len());
        // SAFETY: there is room for the lanes of the widest level; the rest is the caller's promise.
        unsafe {
            values.store(short.as_mut_ptr());
            for (lane, value) in short[..L::LANES].iter().enumerate() {
                out.add(lane).write((*value).into());
            }
        }
    }
}

/// Days from 0000-03-01 to 1970-01-01 in the proleptic Gregorian calendar.
const EPOCH: u64 = 719_468;

/// Days since 0000-03-01 of `YYYY-MM-DD`, whose first eight bytes are `head` and whose last two are
/// the lowest of `tail`. The arithmetic is Howard Hinnant's ("chrono-compatible low-level date
/// algorithms", 2013): a year begins in March, so that the leap day comes last.
#[inline(always)]
unsafe fn days<L: Lanes>(head: L, tail: L) -> (L, L) {
    // SAFETY: the caller's promise.
    unsafe {
        let head = head.xor(L::splat(0x2d30_302d_3030_3030));
        let tail = tail.xor(L::splat(0x3030)).and(L::splat(0xffff));
        let right = within(head, 0x7f76_767f_7676_7676).and(within(tail, OVER_NINE));

        // Year in the low half, month in the high half: its digits stand in different pairs.
        let pairs = head.weigh_bytes(L::splat(u64::from_le_bytes([10, 1, 10, 1, 0, 10, 1, 0])));
        let parts = pairs.weigh_words(L::splat(words(100, 1, 1, 1)));
        let year = parts.and(L::splat(0xffff_ffff));
        let month = parts.right::<32>();
        let day = tail.weigh_bytes(L::splat(0x010a));

        let zero = L::splat(0);
        let right = right.and(year.above(zero)).and(month.above(zero)).and(day.above(zero));
        let right = right.and(L::splat(13).above(month));
        // 31 days where the month's number is odd up to July, even from August; in February
        // everything after the 28th is left to a closer look.
        let odd = month.xor(month.right::<3>()).and(L::splat(1));
        let february = month.same(L::splat(2)).and(L::splat(2));
        let right = right.and(L::splat(31).add(odd).sub(february).above(day));

        let early = L::splat(3).above(month);
        let year = year.add(early);
        let month = month.sub(L::splat(3)).add(early.and(L::splat(12)));
        // (153 * month + 2) / 5, for months 0 to 11.
        let month_start = month.multiply(L::splat(979)).add(L::splat(18)).right::<5>();
        // year / 100, for years under 10,000.
        let century = year.multiply(L::splat(5243)).right::<19>();
        let days = year
            .multiply(L::splat(365))
            .add(year.right::<2>())
            .sub(century)
            .add(century.right::<2>())
            .add(month_start)
            .add(day)
            .sub(L::splat(1));
        (days, right)
    }
}

/// `YYYY-MM-DD`, as days since 1970-01-01.
pub struct Date;

impl Kernel for Date {
    type Native = i32;

    #[inline(always)]
    unsafe fn values<L: Lanes>(&self, group: Group<L>) -> (L, L) {
        // SAFETY: the caller's promise; 16 bytes from the start are readable.
        unsafe {
            let (head, tail) = L::gather_two(group.text, group.start);
            let (days, right) = days(head, tail);
            let ten = group.end.sub(group.start).same(L::splat(10));
            (days.sub(L::splat(EPOCH)), right.and(ten))
        }
    }

    #[inline(always)]
    unsafe fn store<L: Lanes>(values: L, out: *mut i32) {
        // SAFETY: handed on.
        unsafe { values.store_halves(out) }
    }
}

/// `YYYY-MM-DD HH:MM:SS`, with a space or a `T` and up to six digits after the second, as
/// microseconds since 1970-01-01 00:00.
pub struct Timestamp;

/// The microseconds of what follows a second: a point and one to six digits, or nothing where ones.
#[inline(always)]
unsafe fn fraction<L: Lanes>(group: Group<L>, nothing: L) -> (L, L) {
    // SAFETY: the caller's promise; 27 bytes from the start are readable.
    unsafe {
        if nothing.signs().count_ones() as usize == L::LANES {
            return (L::splat(0), nothing);
        }
        let text = L::gather(group.text, group.start.add(L::splat(19)));
        let point = text.and(L::splat(0xff)).same(L::splat(u64::from(b'.')));
        // How many digits; -1 where there is nothing, of which all bits are cut away too.
        let count = group.end.sub(group.start).sub(L::splat(20));
        let cut = L::splat(64).sub(count.left::<3>());
        let digits = text.right::<8>().xor(L::splat(ZEROS)).and(ones::<L>().right_each(cut));
        let right = within(digits, OVER_NINE).and(point);
        let right = right.and(count.above(L::splat(0))).and(L::splat(7).above(count));
        // Two zeros before them, and as many after them as are missing to eight.
        (number(digits.left::<16>()), right.or(nothing))
    }
}

impl Kernel for Timestamp {
    type Native = i64;

    #[inline(always)]
    unsafe fn values<L: Lanes>(&self, group: Group<L>) -> (L, L) {
        // SAFETY: the caller's promise; 27 bytes from the start are readable.
        unsafe {
            let (head, tail) = L::gather_two(group.text, group.start);
            let (days, right) = days(head, tail);
            let between = tail.right::<16>().and(L::splat(0xff));
            let is = |byte: u8| between.same(L::splat(u64::from(byte)));
            let right = right.and(is(b' ').or(is(b'T')));
            let nineteen = group.end.sub(group.start).same(L::splat(19));
            let (fraction, fraction_is_right) = fraction(group, nineteen);
            let right = right.and(fraction_is_right);

            // Hours, tens of minutes, minutes and seconds, 16 bits each.
            let time = L::gather(group.text, group.start.add(L::splat(11)));
            let time = time.xor(L::splat(0x3030_3a30_303a_3030));
            let right = right.and(within(time, 0x7676_7f76_767f_7676));
            let parts = time.weigh_bytes(L::splat(u64::from_le_bytes([10, 1, 0, 10, 1, 0, 10, 1])));
            let over = parts.words_sub_or_0(L::splat(words(23, 50, 9, 59)));
            let right = right.and(over.same(L::splat(0)));
            let parts = parts.weigh_words(L::splat(words(3600, 60, 60, 1)));
            let second = parts.and(L::splat(0xffff_ffff)).add(parts.right::<32>());

            let seconds = days.multiply(L::splat(86_400)).add(second);
            let million = L::splat(1_000_000);
            let high = seconds.right::<32>().multiply(million).left::<32>();
            let microseconds = seconds.multiply(million).add(high).add(fraction);
            (microseconds.sub(L::splat(EPOCH * 86_400 * 1_000_000)), right)
        }
    }

    #[inline(always)]
    unsafe fn store<L: Lanes>(values: L, out: *mut i64) {
        // SAFETY: handed on.
        unsafe { values.store(out) }
    }
}
