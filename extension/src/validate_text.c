/*
 * validate_text.c - text in the database's encoding, without NUL, of the length its column allows.
 */
#include "validate.h"

#include <string.h>

#define HIGH_BITS UINT64_C(0x8080808080808080)
#define LOW_SEVENS UINT64_C(0x7f7f7f7f7f7f7f7f)

/* Eight bytes that are all ASCII and not NUL leave nothing. Bytes above 127 may carry into their
 * neighbours, but are themselves seen. */
static inline uint64_t
not_plain(const uint8_t *at)
{
	uint64_t	eight;

	memcpy(&eight, at, 8);
	return (eight | ~(eight + LOW_SEVENS)) & HIGH_BITS;
}

/* Most text is ASCII: eight bytes at a time, the last eight overlapping those before. */
static inline bool
is_plain_ascii(const uint8_t *text, uint32_t length)
{
	uint64_t	bad = 0;

	if (length >= 8)
	{
		uint32_t	at = 0;

		for (; at + 8 <= length; at += 8)
			bad |= not_plain(text + at);
		return (bad | not_plain(text + length - 8)) == 0;
	}
	if (length >= 4)
	{
		uint32_t	first;
		uint32_t	last;
		uint64_t	both;

		memcpy(&first, text, 4);
		memcpy(&last, text + length - 4, 4);
		both = (uint64_t) first << 32 | last;
		return ((both | ~(both + LOW_SEVENS)) & HIGH_BITS) == 0;
	}
	for (uint32_t at = 0; at < length; at++)
		if (text[at] == 0 || text[at] >= 0x80)
			return false;
	return true;
}

static inline bool
continues(uint8_t byte)
{
	return (byte & 0xc0) == 0x80;
}

/* The number of characters, or -1: not UTF-8 as the server takes it, or a NUL in it. */
static int
count_utf8(const uint8_t *text, uint32_t length)
{
	int			characters = 0;
	uint32_t	at = 0;

	while (at < length)
	{
		uint8_t		first = text[at];
		uint32_t	left = length - at;

		if (first < 0x80)
		{
			if (first == 0)
				return -1;
			at += 1;
		}
		else if (first >= 0xc2 && first <= 0xdf)
		{
			if (left < 2 || !continues(text[at + 1]))
				return -1;
			at += 2;
		}
		else if ((first & 0xf0) == 0xe0)
		{
			/* Nothing that fits two bytes, and no surrogates. */
			if (left < 3 || !continues(text[at + 1]) || !continues(text[at + 2])
				|| (first == 0xe0 && text[at + 1] < 0xa0)
				|| (first == 0xed && text[at + 1] > 0x9f))
				return -1;
			at += 3;
		}
		else if (first >= 0xf0 && first <= 0xf4)
		{
			/* Nothing that fits three bytes, and nothing behind U+10FFFF. */
			if (left < 4 || !continues(text[at + 1]) || !continues(text[at + 2])
				|| !continues(text[at + 3])
				|| (first == 0xf0 && text[at + 1] < 0x90)
				|| (first == 0xf4 && text[at + 1] > 0x8f))
				return -1;
			at += 4;
		}
		else
			return -1;
		characters++;
	}
	return characters;
}

const char *
fb_validate_text(const FbLayout *layout, const FbColumn *column, const uint8_t *value,
				 uint32_t length)
{
	int			characters;

	if (is_plain_ascii(value, length))
		characters = (int) length;
	else if (layout->encoding == FB_UTF8)
		characters = count_utf8(value, length);
	else if (layout->encoding == FB_SINGLE_BYTE)
		characters = memchr(value, 0, length) == NULL ? (int) length : -1;
	else
		characters = layout->characters(layout->argument, (const char *) value, (int) length);

	if (characters < 0)
		return "not valid in the database's encoding, or a NUL byte in it";
	if (column->form == FB_JSON)
		return fb_validate_json(value, length);
	if (column->limited)
	{
		if (column->form == FB_VARCHAR && characters > column->limit)
			return "more characters than its column allows";
		if (column->form == FB_BPCHAR && characters != column->limit)
			return "not padded with spaces to its column's length";
	}
	return NULL;
}
