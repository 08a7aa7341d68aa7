/*
 * numeric_form.h - numeric.c's form of a number on disk, which no header of the server's has.
 */
#ifndef FB_NUMERIC_FORM_H
#define FB_NUMERIC_FORM_H

#include "postgres.h"

typedef struct FbNumeric
{
	uint16		special;		/* the header of an infinity or of NaN, which have no digits */
	bool		is_negative;
	int16		weight;			/* of the first digit, to the base of 10,000 */
	uint16		scale;			/* decimal digits that are shown */
	int			count;
	const char *digits;			/* each a uint16, perhaps not aligned */
} FbNumeric;

#define FB_NUMERIC_SIGN_BITS 0xC000
#define FB_NUMERIC_NEGATIVE 0x4000
#define FB_NUMERIC_SPECIAL 0xC000

/* The content of a detoasted value. */
static inline FbNumeric
fb_read_numeric(const char *data, Size bytes)
{
	FbNumeric	number = {0};
	uint16		header;

	memcpy(&header, data, sizeof header);
	number.digits = data + sizeof header;
	if ((header & FB_NUMERIC_SIGN_BITS) == FB_NUMERIC_SPECIAL)
	{
		number.special = header;
		return number;
	}
	/* Short: the sign, six bits of the scale, seven of the weight. */
	if (header & 0x8000)
	{
		number.is_negative = (header & 0x2000) != 0;
		number.scale = (header >> 7) & 0x3F;
		number.weight = (header & 0x3F) - (header & 0x40);
	}
	else
	{
		number.is_negative = (header & FB_NUMERIC_SIGN_BITS) == FB_NUMERIC_NEGATIVE;
		number.scale = header & 0x3FFF;
		memcpy(&number.weight, number.digits, sizeof number.weight);
		number.digits += sizeof number.weight;
	}
	number.count = (data + bytes - number.digits) / sizeof(uint16);
	return number;
}

#endif							/* FB_NUMERIC_FORM_H */
