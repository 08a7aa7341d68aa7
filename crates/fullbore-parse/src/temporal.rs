//! Dates and times in ISO form. Anything else (other orders, names, `infinity`, leap seconds,
//! 24:00, years before 1 or after 9999) is `None`: non-canonical, so the server checks it.

const MICROSECONDS_PER_SECOND: i64 = 1_000_000;
const MICROSECONDS_PER_DAY: i64 = 86_400 * MICROSECONDS_PER_SECOND;

const fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days from 1970-01-01 to the 0th of January of each year, 0 to 9999.
static YEAR_START: [i32; 10_000] = {
    let mut starts = [0; 10_000];
    // 719,528 days lie between 0000-01-01 and 1970-01-01 in the proleptic Gregorian calendar.
    let mut day = -719_528 - 1;
    let mut year = 0;
    while year < 10_000 {
        starts[year] = day;
        day += if is_leap(year as i32) { 366 } else { 365 };
        year += 1;
    }
    starts
};

/// Days before each month, and its length, for common and leap years; month 1 is January.
static MONTHS: [[(u16, u8); 13]; 2] = {
    let lengths = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut months = [[(0, 0); 13]; 2];
    let mut leap = 0;
    while leap < 2 {
        let mut before = 0;
        let mut month = 1;
        while month <= 12 {
            let extra = if leap == 1 && month == 2 { 1 } else { 0 };
            months[leap][month] = (before, lengths[month] + extra);
            before += (lengths[month] + extra) as u16;
            month += 1;
        }
        leap += 1;
    }
    months
};

#[inline(always)]
fn two_digits(bytes: &[u8], at: usize) -> Option<u32> {
    let tens = bytes[at].wrapping_sub(b'0');
    let ones = bytes[at + 1].wrapping_sub(b'0');
    (tens <= 9 && ones <= 9).then_some(u32::from(tens) * 10 + u32::from(ones))
}

/// `YYYY-MM-DD`, ten bytes, as days since 1970-01-01.
#[inline(always)]
pub fn date(field: &[u8]) -> Option<i32> {
    let field: &[u8; 10] = field.try_into().ok()?;
    // All ten bytes at once: eight digits must be digits and two hyphens hyphens.
    let head = u64::from_le_bytes(field[..8].try_into().ok()?);
    let tail = u16::from_le_bytes([field[8], field[9]]);
    // "YYYY-MM-": digits as 0..9, hyphens as 0.
    let head = head ^ 0x2d30_302d_3030_3030;
    let tail = tail ^ 0x3030;
    // A hyphen's byte must be exactly 0; a digit's at most 9.
    let check = (head.wrapping_add(0x7f76_767f_7676_7676) | head) & 0x8080_8080_8080_8080;
    let check_tail = (tail.wrapping_add(0x7676) | tail) & 0x8080;
    if check != 0 || check_tail != 0 {
        return None;
    }
    let pairs = head.wrapping_mul(10).wrapping_add(head >> 8);
    let year = ((pairs & 0xff) * 100 + (pairs >> 16 & 0xff)) as usize;
    let month = (pairs >> 40 & 0xff) as usize;
    let day = i32::from((tail & 0xff) * 10 + (tail >> 8));
    if !(1..=12).contains(&month) || year == 0 || year > 9999 {
        return None;
    }
    let (before, length) = MONTHS[usize::from(is_leap(year as i32))][month];
    if day < 1 || day > i32::from(length) {
        return None;
    }
    Some(YEAR_START[year] + i32::from(before) + day)
}

/// `HH:MM`, `HH:MM:SS` or `HH:MM:SS.f` with up to six digits, as microseconds since midnight.
#[inline(always)]
pub fn time(field: &[u8]) -> Option<i64> {
    if field.len() < 5 || field[2] != b':' {
        return None;
    }
    let hours = two_digits(field, 0)?;
    let minutes = two_digits(field, 3)?;
    let mut seconds = 0;
    let mut fraction = 0;
    if field.len() > 5 {
        if field.len() < 8 || field[5] != b':' {
            return None;
        }
        seconds = two_digits(field, 6)?;
        if field.len() > 8 {
            let digits = &field[9..];
            if field[8] != b'.' || digits.is_empty() || digits.len() > 6 {
                return None;
            }
            for place in 0..6 {
                let digit = digits.get(place).map_or(0, |b| b.wrapping_sub(b'0'));
                if digit > 9 {
                    return None;
                }
                fraction = fraction * 10 + i64::from(digit);
            }
        }
    }
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let seconds = i64::from(hours * 3600 + minutes * 60 + seconds);
    Some(seconds * MICROSECONDS_PER_SECOND + fraction)
}

/// A date alone, or a date, a space or `T`, and a time; microseconds since 1970-01-01 00:00.
#[inline(always)]
pub fn timestamp(field: &[u8]) -> Option<i64> {
    let days = i64::from(date(field.get(..10)?)?);
    let microseconds = match field.get(10) {
        None => 0,
        Some(b' ' | b'T') => time(&field[11..])?,
        Some(_) => return None,
    };
    Some(days * MICROSECONDS_PER_DAY + microseconds)
}

/// As [`timestamp`], followed by `Z`, `+HH`, `+HHMM` or `+HH:MM` (or with a minus). Without a zone
/// the value is UTC where `zoneless_is_utc`.
pub fn timestamp_tz(field: &[u8], zoneless_is_utc: bool) -> Option<i64> {
    let rest = field.get(10..)?;
    let zone = rest.iter().position(|b| matches!(b, b'+' | b'-' | b'Z')).map(|at| at + 10);
    let Some(zone) = zone else {
        return if zoneless_is_utc { timestamp(field) } else { None };
    };
    // A zone belongs to a time, not to a date alone.
    if zone == 10 {
        return None;
    }
    let local = timestamp(&field[..zone])?;
    if field[zone] == b'Z' {
        return (field.len() == zone + 1).then_some(local);
    }
    let offset = &field[zone + 1..];
    let (hours, minutes) = match offset.len() {
        2 => (two_digits(offset, 0)?, 0),
        4 => (two_digits(offset, 0)?, two_digits(offset, 2)?),
        5 if offset[2] == b':' => (two_digits(offset, 0)?, two_digits(offset, 3)?),
        _ => return None,
    };
    // PostgreSQL takes offsets under 16 hours; what it refuses must not pass here.
    if hours > 15 || minutes > 59 {
        return None;
    }
    let offset = i64::from(hours * 3600 + minutes * 60) * MICROSECONDS_PER_SECOND;
    Some(if field[zone] == b'+' { local - offset } else { local + offset })
}
