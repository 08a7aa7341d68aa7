/*
 * pack.c - keys of whole numbers, dates, timestamps and uuids as one or two words.
 *
 * A column is a number that sorts as its values do, behind a bit that tells NULLs where there can be any; columns
 * stand side by side. Nothing else is kept of a row but its place: the tuple is made of the words again.
 */
#include "keys.h"

#include "port/pg_bswap.h"

/* Is a value of this form its bits, and at most eight bytes? */
static inline bool
is_whole(FbKeyForm form)
{
	return form >= FB_KEY_BOOL && form <= FB_KEY_OID;
}

/* Keys that are numbers, all of the tuple, and short are packed. */
void
fb_keys_begin_packing(FbKeys *keys)
{
	int			bits = 0;
	uint32		at = 0;

	/* A uuid takes both words. */
	if (keys->count == 1 && keys->columns[0].form == FB_KEY_UUID && !keys->columns[0].nullable)
	{
		keys->packed_words = 2;
		return;
	}
	for (int number = 0; number < keys->count; number++)
	{
		FbKeyColumn *column = &keys->columns[number];

		if (!is_whole(column->form))
			return;
		column->bits = 8 * fb_normal_bytes(column->form);
		bits += column->nullable;
		keys->packs_nulls |= column->nullable;
		column->bit_at = Min(bits, UINT8_MAX);
		bits += column->bits;
		at = TYPEALIGN(column->align, at);
		column->fixed_at = at;
		at += column->length;
	}
	if (bits > 64 * FB_WORDS_MAX)
		return;
	keys->packed_words = bits > 64 ? 2 : 1;
}

/* A whole number of a form that sorts as it does. */
static inline uint64
whole_of(FbKeyForm form, const char *value)
{
	uint16		two;
	uint32		four;
	uint64		eight;

	switch (form)
	{
		case FB_KEY_BOOL:
			return *(const uint8 *) value;
		case FB_KEY_INT2:
			memcpy(&two, value, sizeof two);
			return (uint16) (two ^ 0x8000);
		case FB_KEY_INT4:
			memcpy(&four, value, sizeof four);
			return four ^ 0x80000000;
		case FB_KEY_OID:
			memcpy(&four, value, sizeof four);
			return four;
		default:
			memcpy(&eight, value, sizeof eight);
			return eight ^ (UINT64CONST(1) << 63);
	}
}

static inline void
put_whole(FbKeyForm form, uint64 whole, char *to)
{
	uint16		two = whole ^ 0x8000;
	uint32		four = form == FB_KEY_OID ? whole : whole ^ 0x80000000;
	uint64		eight = whole ^ (UINT64CONST(1) << 63);

	switch (form)
	{
		case FB_KEY_BOOL:
			*to = whole;
			break;
		case FB_KEY_INT2:
			memcpy(to, &two, sizeof two);
			break;
		case FB_KEY_INT4:
		case FB_KEY_OID:
			memcpy(to, &four, sizeof four);
			break;
		default:
			memcpy(to, &eight, sizeof eight);
			break;
	}
}

/* Bits of words, counted from the highest of the first. */
static inline void
put_bits(uint64 *words, int at, int bits, uint64 value)
{
	int			end = at % 64 + bits;

	if (end <= 64)
		words[at / 64] |= value << (64 - end);
	else
	{
		words[at / 64] |= value >> (end - 64);
		words[at / 64 + 1] |= value << (128 - end);
	}
}

static inline uint64
take_bits(const uint64 *words, int at, int bits)
{
	int			end = at % 64 + bits;
	uint64		mask = UINT64_MAX >> (64 - bits);

	if (end <= 64)
		return (words[at / 64] >> (64 - end)) & mask;
	return ((words[at / 64] << (end - 64)) | (words[at / 64 + 1] >> (128 - end))) & mask;
}

/* The words of a uuid, of which the first byte is the highest, or the bytes of such words. */
static inline void
turn_uuid(const FbKeyColumn *column, const void *from, void *to)
{
	uint64		words[2];

	memcpy(words, from, sizeof words);
	for (int word = 0; word < 2; word++)
		words[word] = column->descending ? ~pg_ntoh64(words[word]) : pg_ntoh64(words[word]);
	memcpy(to, words, sizeof words);
}

void
fb_keys_pack(const FbKeys *keys, const FbFields *fields, uint64 *words)
{
	if (keys->columns[0].form == FB_KEY_UUID)
	{
		turn_uuid(&keys->columns[0], fields->values[keys->columns[0].attribute], words);
		return;
	}
	words[0] = words[1] = 0;
	for (int number = 0; number < keys->key_count; number++)
	{
		const FbKeyColumn *column = &keys->columns[number];
		const char *value = fields->values[column->attribute];
		uint64		whole;

		if (column->nullable && (value == NULL) != column->nulls_first)
			put_bits(words, column->bit_at - 1, 1, 1);
		if (value == NULL)
			continue;
		whole = whole_of(column->form, value);
		if (column->descending)
			whole = ~whole & (UINT64_MAX >> (64 - column->bits));
		put_bits(words, column->bit_at, column->bits, whole);
	}
}

/* Is a column of a packed key NULL? */
static inline bool
is_null_packed(const FbKeyColumn *column, const uint64 *words)
{
	return column->nullable
		&& (take_bits(words, column->bit_at - 1, 1) == 1) != column->nulls_first;
}

IndexTuple
fb_keys_unpack(const FbKeys *keys, const uint64 *words, char *room)
{
	IndexTuple	tuple = (IndexTuple) room;
	uint16		info = 0;
	uint32		at = 0;
	char	   *data;

	for (int number = 0; keys->packs_nulls && number < keys->count; number++)
		if (is_null_packed(&keys->columns[number], words))
			info = INDEX_NULL_MASK;
	memset(room, 0, FB_PACKED_TUPLE_MAX);
	data = room + IndexInfoFindDataOffset(info);
	if (keys->columns[0].form == FB_KEY_UUID)
	{
		turn_uuid(&keys->columns[0], words, data);
		tuple->t_info = MAXALIGN(data + 2 * sizeof *words - room);
		return tuple;
	}
	for (int number = 0; number < keys->count; number++)
	{
		const FbKeyColumn *column = &keys->columns[number];
		uint64		whole;

		if (info != 0)
		{
			if (is_null_packed(column, words))
				continue;
			((bits8 *) (room + sizeof(IndexTupleData)))[number >> 3] |= 1 << (number & 7);
			at = TYPEALIGN(column->align, at);
		}
		else
			at = column->fixed_at;
		whole = take_bits(words, column->bit_at, column->bits);
		if (column->descending)
			whole = ~whole & (UINT64_MAX >> (64 - column->bits));
		put_whole(column->form, whole, data + at);
		at += column->length;
	}
	tuple->t_info = info | MAXALIGN(data + at - room);
	return tuple;
}
