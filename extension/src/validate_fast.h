/*
 * validate_fast.h - the common cases of text and numeric, inline.
 *
 * These only ever say yes. What they don't know goes to the functions of validate_text.c and
 * validate_numeric.c, which know everything and are the oracle of these in tests and fuzzing.
 */
#ifndef FB_VALIDATE_FAST_H
#define FB_VALIDATE_FAST_H

#include "validate.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define FB_HIGH_BITS UINT64_C(0x8080808080808080)
#define FB_LOW_SEVENS UINT64_C(0x7f7f7f7f7f7f7f7f)

static inline uint16_t
fb_load_16(const uint8_t *at)
{
	uint16_t	value;

	memcpy(&value, at, sizeof value);
	return value;
}

static inline uint32_t
fb_load_32(const uint8_t *at)
{
	uint32_t	value;

	memcpy(&value, at, sizeof value);
	return value;
}

static inline uint64_t
fb_load_64(const uint8_t *at)
{
	uint64_t	value;

	memcpy(&value, at, sizeof value);
	return value;
}

/*
 * Zero for eight bytes that are all ASCII and not NUL. Adding 127 carries into the highest bit of
 * every byte but NUL; bytes above 127, which may carry into their neighbours, are seen themselves.
 */
static inline uint64_t
fb_not_plain(uint64_t eight)
{
	return (eight | ~(eight + FB_LOW_SEVENS)) & FB_HIGH_BITS;
}

#ifdef __SSE2__
/* The same for sixteen: as signed bytes, all are above zero. */
static inline __m128i
fb_plain_sixteen(const uint8_t *at)
{
	return _mm_cmpgt_epi8(_mm_loadu_si128((const __m128i *) at), _mm_setzero_si128());
}
#endif

/* Most text is ASCII: many bytes at a time, the last ones overlapping those before. */
static inline bool
fb_is_plain_ascii(const uint8_t *text, uint32_t length)
{
#ifdef __SSE2__
	if (length >= 16)
	{
		uint32_t	last = length - 16;
		__m128i		good = _mm_and_si128(fb_plain_sixteen(text), fb_plain_sixteen(text + last));

		/* Up to 64 without a loop, whose end would be guessed wrong half of the time. */
		good = _mm_and_si128(good, fb_plain_sixteen(text + (last < 16 ? last : 16)));
		good = _mm_and_si128(good, fb_plain_sixteen(text + (last < 32 ? last : 32)));
		for (uint32_t at = 48; at < last; at += 16)
			good = _mm_and_si128(good, fb_plain_sixteen(text + at));
		return _mm_movemask_epi8(good) == 0xffff;
	}
#endif
	if (length >= 8)
	{
		uint64_t	bad = fb_not_plain(fb_load_64(text + length - 8));

		for (uint32_t at = 0; at + 8 < length; at += 8)
			bad |= fb_not_plain(fb_load_64(text + at));
		return bad == 0;
	}
	if (length >= 4)
		return fb_not_plain((uint64_t) fb_load_32(text) << 32
							| fb_load_32(text + length - 4)) == 0;
	if (length == 0)
		return true;
	/* One to three: the first, the one in the middle, the last. */
	return fb_not_plain(FB_LOW_SEVENS << 24 | (uint32_t) text[0] << 16
						| (uint32_t) text[length / 2] << 8 | text[length - 1]) == 0;
}

static inline bool
fb_is_fine_text(const FbColumn *column, const uint8_t *text, uint32_t length)
{
	/* Of plain ASCII, bytes are characters. */
	return length >= column->plain_least && length <= column->plain_most
		&& fb_is_plain_ascii(text, length);
}

/* Is this digit to the base 10,000 a multiple of so many decimal zeros? */
static inline bool
fb_has_zeros(uint16_t digit, int zeros)
{
	switch (zeros)
	{
		case 1:
			return digit % 10 == 0;
		case 2:
			return digit % 100 == 0;
		case 3:
			return digit % 1000 == 0;
		default:
			return zeros <= 0;
	}
}

/*
 * Zero, or one to four digits behind a short header, in a column with precision and scale: the
 * scale as it must be, the highest digit clearly within the precision. `readable` counts the bytes
 * to the end of the body: ten are read at once, so that the number of digits decides no branch.
 */
static inline bool
fb_is_fine_numeric(const FbColumn *column, const uint8_t *value, uint32_t length,
				   uint32_t readable)
{
	uint16_t	header;
	uint16_t	last;
	uint64_t	digits;
	int			count;
	int			weight;

	if (length < 2 || length > 10 || length % 2 != 0 || readable < 10)
		return false;
	header = fb_load_16(value);
	if (length == 2)
		return header == column->short_header && column->short_header != 0;
	/* Sign and weight may be anything. */
	if ((header & ~0x207f) != column->short_header)
		return false;
	weight = (int) (header & 0x3f) - (int) (header & 0x40);
	if (weight > column->weight_safe)
		return false;
	count = (int) (length - 2) / 2;
	last = fb_load_16(value + length - 2);
	if (!fb_has_zeros(last, 4 * (count - 1 - weight) - column->scale))
		return false;

	/* Adding 22,768 carries into the highest bit of every digit above 9,999 and below 42,768. */
	digits = fb_load_64(value + 2) & (UINT64_MAX >> (64 - 16 * count));
	return last != 0 && (digits & 0xffff) != 0
		&& ((digits | (digits + UINT64_C(0x58f058f058f058f0))) & UINT64_C(0x8000800080008000)) == 0;
}

#endif							/* FB_VALIDATE_FAST_H */
