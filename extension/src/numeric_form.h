/*
 * numeric_form.h - numeric.c's form of a number on disk, which no header of the server's has.
 *
 * Plain C, as validate.h is. A header and digits to the base of 10,000; a special one has no digits.
 */
#ifndef FB_NUMERIC_FORM_H
#define FB_NUMERIC_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FB_NUMERIC_KIND 0xc000
#define FB_NUMERIC_NEGATIVE 0x4000
#define FB_NUMERIC_SHORT 0x8000
#define FB_NUMERIC_SPECIAL 0xc000
#define FB_NUMERIC_NAN 0xc000
#define FB_NUMERIC_PLUS_INFINITY 0xd000
#define FB_NUMERIC_MINUS_INFINITY 0xf000
#define FB_NUMERIC_LONG_SCALE 0x3fff
#define FB_NUMERIC_SHORT_NEGATIVE 0x2000
#define FB_NUMERIC_SHORT_SCALE(header) (((header) >> 7) & 0x3f)
#define FB_NUMERIC_SHORT_WEIGHT(header) ((int) ((header) & 0x3f) - (int) ((header) & 0x40))

typedef struct FbNumeric
{
	uint16_t	special;		/* the header of one that is not finite */
	bool		is_negative;
	int16_t		weight;			/* of the first digit */
	uint16_t	scale;			/* decimal digits that are shown */
	int			count;
	const char *digits;			/* each a uint16_t, perhaps not aligned */
} FbNumeric;

/* The content of a detoasted value that the server holds: nothing of it is checked. */
static inline FbNumeric
fb_read_numeric(const char *data, size_t bytes)
{
	FbNumeric	number = {0};
	uint16_t	header;

	memcpy(&header, data, sizeof header);
	number.digits = data + sizeof header;
	if ((header & FB_NUMERIC_KIND) == FB_NUMERIC_SPECIAL)
	{
		number.special = header;
		return number;
	}
	if ((header & FB_NUMERIC_KIND) == FB_NUMERIC_SHORT)
	{
		number.is_negative = (header & FB_NUMERIC_SHORT_NEGATIVE) != 0;
		number.scale = FB_NUMERIC_SHORT_SCALE(header);
		number.weight = FB_NUMERIC_SHORT_WEIGHT(header);
	}
	else
	{
		number.is_negative = (header & FB_NUMERIC_KIND) == FB_NUMERIC_NEGATIVE;
		number.scale = header & FB_NUMERIC_LONG_SCALE;
		memcpy(&number.weight, number.digits, sizeof number.weight);
		number.digits += sizeof number.weight;
	}
	number.count = (data + bytes - number.digits) / sizeof(uint16_t);
	return number;
}

#endif							/* FB_NUMERIC_FORM_H */
