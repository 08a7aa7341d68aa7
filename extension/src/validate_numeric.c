/*
 * validate_numeric.c - numeric as numeric.c's make_result() leaves it.
 *
 * A value is a header and digits to the base 10,000. The header is short (2 bytes) wherever scale
 * and weight fit into it, long (4 bytes) otherwise, or one of three special ones alone.
 */
#include "numeric_form.h"
#include "validate.h"
#include "validate_fast.h"

#define SHORT_SCALE_MAX 63
#define SHORT_WEIGHT_MAX 63
#define SHORT_WEIGHT_MIN (-64)
#define BASE 10000
#define BASE_DIGITS 4

/* Decimal digits of a digit to the base 10,000, without leading zeros. */
static inline int
decimal_digits(uint16_t digit)
{
	return digit >= 1000 ? 4 : digit >= 100 ? 3 : digit >= 10 ? 2 : 1;
}

/* Zeros at its end. */
static inline int
trailing_zeros(uint16_t digit)
{
	return digit % 10 != 0 ? 0 : digit % 100 != 0 ? 1 : digit % 1000 != 0 ? 2 : 3;
}

static const char *
check_special(const FbColumn *column, uint16_t header, uint32_t length)
{
	if (length != 2)
		return "digits after a numeric that is not finite";
	if (header == FB_NUMERIC_NAN)
		return NULL;
	if (header != FB_NUMERIC_PLUS_INFINITY && header != FB_NUMERIC_MINUS_INFINITY)
		return "an unknown kind of numeric";
	if (column->limited)
		return "an infinity in a numeric column with a precision";
	return NULL;
}

const char *
fb_validate_numeric(const FbColumn *column, const uint8_t *value, uint32_t length)
{
	uint16_t	header;
	const uint8_t *digits;
	int			count;
	int			scale;
	int			weight;
	bool		negative;
	uint16_t	first;
	uint16_t	last;
	int			lowest;

	if (length < 2 || length % 2 != 0)
		return "not a whole number of numeric digits";
	header = fb_load_16(value);
	if ((header & FB_NUMERIC_KIND) == FB_NUMERIC_SPECIAL)
		return check_special(column, header, length);

	if ((header & FB_NUMERIC_KIND) == FB_NUMERIC_SHORT)
	{
		scale = FB_NUMERIC_SHORT_SCALE(header);
		weight = FB_NUMERIC_SHORT_WEIGHT(header);
		negative = (header & FB_NUMERIC_SHORT_NEGATIVE) != 0;
		digits = value + 2;
		count = (int) (length - 2) / 2;
	}
	else
	{
		if (length < 4)
			return "a numeric without its weight";
		scale = header & FB_NUMERIC_LONG_SCALE;
		weight = (int16_t) fb_load_16(value + 2);
		negative = (header & FB_NUMERIC_KIND) == FB_NUMERIC_NEGATIVE;
		digits = value + 4;
		count = (int) (length - 4) / 2;
		if (scale <= SHORT_SCALE_MAX && weight >= SHORT_WEIGHT_MIN && weight <= SHORT_WEIGHT_MAX)
			return "a long numeric where a short one would do";
	}

	if (column->limited && scale != (column->scale < 0 ? 0 : column->scale))
		return "a numeric of another scale than its column's";
	if (count == 0)
		return weight == 0 && !negative ? NULL : "a numeric zero with a weight or a sign";

	for (int at = 0; at < count; at++)
		if (fb_load_16(digits + 2 * at) >= BASE)
			return "a numeric digit above 9999";
	first = fb_load_16(digits);
	last = fb_load_16(digits + 2 * (count - 1));
	if (first == 0 || last == 0)
		return "a numeric with leading or trailing zero digits";

	/* The power of ten of the lowest decimal that is not zero. */
	lowest = BASE_DIGITS * (weight - count + 1) + trailing_zeros(last);
	if (lowest < -scale)
		return "a numeric with more decimals than its scale";
	if (column->limited)
	{
		if (lowest < -column->scale)
			return "a numeric that is not rounded to its column's scale";
		if (BASE_DIGITS * weight + decimal_digits(first) > column->precision - column->scale)
			return "a numeric of more digits than its column's precision";
	}
	return NULL;
}
