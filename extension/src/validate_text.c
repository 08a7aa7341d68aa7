/*
 * validate_text.c - text in the database's encoding, without NUL, of the length its column allows.
 */
#include "validate.h"
#include "validate_fast.h"

#include <string.h>

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

	if (fb_is_plain_ascii(value, length))
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
