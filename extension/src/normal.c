/*
 * normal.c - keys as bytes that sort as their operator classes do.
 *
 * The bytes of the columns stand one behind the other. None of two different keys begins the other, so that
 * what follows a column is never compared with a part of it.
 */
#include "keys.h"
#include "numeric_form.h"

#include <math.h>

#include "utils/memutils.h"

/* By form: the bytes of a normalised value; 0: they differ. */
static const uint8 normal_bytes[] = {0, 1, 2, 4, 8, 4, 16, 4, 8, 0, 0, 0, 0};

uint8
fb_normal_bytes(FbKeyForm form)
{
	return normal_bytes[form];
}

static inline void
make_room(FbKeys *keys, Size more)
{
	if (keys->normal_bytes + more <= keys->normal_room)
		return;
	while (keys->normal_bytes + more > keys->normal_room)
		keys->normal_room *= 2;
	keys->normal = repalloc(keys->normal, keys->normal_room);
}

static inline void
put_16(uint8 *at, uint16 value)
{
	value = pg_bswap16(value);
	memcpy(at, &value, sizeof value);
}

static inline void
put_32(uint8 *at, uint32 value)
{
	value = pg_bswap32(value);
	memcpy(at, &value, sizeof value);
}

static inline void
put_64(uint8 *at, uint64 value)
{
	value = pg_bswap64(value);
	memcpy(at, &value, sizeof value);
}

/*
 * The bytes of a value of a fixed length. Floats below zero have all bits turned, so that the larger
 * one sorts first; there are two zeros, which are equal, and NaN is above all.
 */
static inline void
normalise_fixed(FbKeyForm form, const char *value, uint8 *to)
{
	switch (form)
	{
		case FB_KEY_BOOL:
			*to = *value;
			break;
		case FB_KEY_INT2:
			{
				uint16		number;

				memcpy(&number, value, sizeof number);
				put_16(to, number ^ 0x8000);
				break;
			}
		case FB_KEY_INT4:
		case FB_KEY_OID:
			{
				uint32		number;

				memcpy(&number, value, sizeof number);
				put_32(to, form == FB_KEY_OID ? number : number ^ 0x80000000);
				break;
			}
		case FB_KEY_INT8:
			{
				uint64		number;

				memcpy(&number, value, sizeof number);
				put_64(to, number ^ (UINT64CONST(1) << 63));
				break;
			}
		case FB_KEY_FLOAT4:
			{
				float		number;
				uint32		bits;

				memcpy(&number, value, sizeof number);
				memcpy(&bits, value, sizeof bits);
				if (number == 0)
					bits = 0;
				put_32(to, isnan(number) ? UINT32_MAX
					   : bits >> 31 ? ~bits : bits | 0x80000000);
				break;
			}
		case FB_KEY_FLOAT8:
			{
				double		number;
				uint64		bits;

				memcpy(&number, value, sizeof number);
				memcpy(&bits, value, sizeof bits);
				if (number == 0)
					bits = 0;
				put_64(to, isnan(number) ? UINT64_MAX
					   : bits >> 63 ? ~bits : bits | (UINT64CONST(1) << 63));
				break;
			}
		default:
			memcpy(to, value, 16);
			break;
	}
}

/* Text ends with a zero, which it can't contain. */
static void
normalise_text(FbKeys *keys, const char *text, Size bytes)
{
	make_room(keys, bytes + 1);
	memcpy(keys->normal + keys->normal_bytes, text, bytes);
	keys->normal_bytes += bytes;
	keys->normal[keys->normal_bytes++] = 0;
}

/* Bytes end with two zeros; a zero among them is followed by 255. */
static void
normalise_bytes(FbKeys *keys, const char *data, Size bytes)
{
	uint8	   *to;

	make_room(keys, 2 * bytes + 2);
	to = keys->normal + keys->normal_bytes;
	for (Size at = 0; at < bytes; at++)
	{
		*to++ = data[at];
		if (data[at] == 0)
			*to++ = 0xff;
	}
	*to++ = 0;
	*to++ = 0;
	keys->normal_bytes = to - keys->normal;
}

enum
{
	MINUS_INFINITE, NEGATIVE, ZERO, POSITIVE, PLUS_INFINITE, NOT_A_NUMBER
};

/*
 * What class of number; then, of one that is not zero, its weight and its digits, which have no zeros at
 * their ends: each digit plus one, so that a zero ends them. Of a negative one, all bits turned.
 */
static void
normalise_numeric(FbKeys *keys, const char *data, Size bytes)
{
	FbNumeric	number = fb_read_numeric(data, bytes);
	uint8	   *begin;
	uint8	   *to;

	make_room(keys, bytes + 8);
	begin = to = keys->normal + keys->normal_bytes;
	if (number.special)
	{
		*to = (number.special & 0xF000) == FB_NUMERIC_PLUS_INFINITY ? PLUS_INFINITE
			: (number.special & 0xF000) == FB_NUMERIC_MINUS_INFINITY ? MINUS_INFINITE : NOT_A_NUMBER;
		keys->normal_bytes++;
		return;
	}
	if (number.count == 0)
	{
		*to = ZERO;
		keys->normal_bytes++;
		return;
	}
	*to++ = number.is_negative ? NEGATIVE : POSITIVE;
	put_16(to, (uint16) number.weight ^ 0x8000);
	to += 2;
	for (int at = 0; at < number.count; at++, to += 2)
	{
		uint16		digit;

		memcpy(&digit, number.digits + at * sizeof digit, sizeof digit);
		put_16(to, digit + 1);
	}
	put_16(to, 0);
	to += 2;
	if (number.is_negative)
		for (uint8 *at = begin + 1; at < to; at++)
			*at = ~*at;
	keys->normal_bytes = to - keys->normal;
}

static void
normalise_varlena(FbKeys *keys, FbKeyForm form, const char *value)
{
	MemoryContext previous = NULL;
	const char *data;
	Size		bytes;

	if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
	{
		previous = MemoryContextSwitchTo(keys->scratch);
		value = (const char *) pg_detoast_datum_packed((struct varlena *) value);
		MemoryContextSwitchTo(previous);
	}
	data = VARDATA_ANY(value);
	bytes = VARSIZE_ANY_EXHDR(value);
	switch (form)
	{
		case FB_KEY_BPCHAR:
			/* Blanks at its end do not count. */
			while (bytes > 0 && data[bytes - 1] == ' ')
				bytes--;
			normalise_text(keys, data, bytes);
			break;
		case FB_KEY_BYTEA:
			normalise_bytes(keys, data, bytes);
			break;
		case FB_KEY_NUMERIC:
			normalise_numeric(keys, data, bytes);
			break;
		default:
			normalise_text(keys, data, bytes);
			break;
	}
	if (previous != NULL)
		MemoryContextReset(keys->scratch);
}

void
fb_keys_normalise(FbKeys *keys, const FbFields *fields)
{
	keys->normal_bytes = 0;
	for (int number = 0; number < keys->key_count; number++)
	{
		const FbKeyColumn *column = &keys->columns[number];
		const char *value = fields->values[column->attribute];
		Size		begin;

		make_room(keys, 1 + 16);
		if (column->nullable)
		{
			keys->normal[keys->normal_bytes++] = value != NULL ? 1 : column->nulls_first ? 0 : 2;
			if (value == NULL)
				continue;
		}
		begin = keys->normal_bytes;
		if (column->length > 0)
		{
			normalise_fixed(column->form, value, keys->normal + begin);
			keys->normal_bytes += normal_bytes[column->form];
		}
		else
			normalise_varlena(keys, column->form, value);
		if (column->descending)
			for (Size at = begin; at < keys->normal_bytes; at++)
				keys->normal[at] = ~keys->normal[at];
	}
}
