/*
 * keys.c - index tuples of rows, and keys that sort as bytes.
 *
 * A tuple of an index holds its columns as the heap does, aligned anew; where the server would
 * compress a value it forms the tuple itself. Beside it stands a normalised key: each column's value
 * as bytes that compare by memcmp as the operator class compares them, one after the other. That is
 * known of the operator classes below and of no others.
 */
#include "keys.h"

#include <math.h>

#include "access/genam.h"
#include "access/heaptoast.h"
#include "access/nbtree.h"
#include "access/tupmacs.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_collation.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/pg_locale.h"

/* A class of operators, by its comparing function. */
typedef struct FbClass
{
	Oid			compare;
	FbKeyForm	form;
	int16		length;
	bool		collated;		/* sorts as bytes only under C */
} FbClass;

static const FbClass classes[] = {
	{F_BTBOOLCMP, FB_KEY_BOOL, 1, false},
	{F_BTINT2CMP, FB_KEY_INT2, 2, false},
	{F_BTINT4CMP, FB_KEY_INT4, 4, false},
	{F_BTINT8CMP, FB_KEY_INT8, 8, false},
	{F_BTOIDCMP, FB_KEY_OID, 4, false},
	{F_DATE_CMP, FB_KEY_INT4, 4, false},
	{F_TIME_CMP, FB_KEY_INT8, 8, false},
	{F_TIMESTAMP_CMP, FB_KEY_INT8, 8, false},
	{F_TIMESTAMPTZ_CMP, FB_KEY_INT8, 8, false},
	{F_UUID_CMP, FB_KEY_UUID, 16, false},
	{F_BTFLOAT4CMP, FB_KEY_FLOAT4, 4, false},
	{F_BTFLOAT8CMP, FB_KEY_FLOAT8, 8, false},
	{F_BTTEXTCMP, FB_KEY_TEXT, -1, true},
	{F_BTTEXT_PATTERN_CMP, FB_KEY_TEXT, -1, false},
	{F_BPCHARCMP, FB_KEY_BPCHAR, -1, true},
	{F_BTBPCHAR_PATTERN_CMP, FB_KEY_BPCHAR, -1, false},
	{F_BYTEACMP, FB_KEY_BYTEA, -1, false},
	{F_NUMERIC_CMP, FB_KEY_NUMERIC, -1, false},
};

/* By form: the bytes of a normalised value; 0: they differ. */
static const uint8 normal_bytes[] = {0, 1, 2, 4, 8, 4, 16, 4, 8, 0, 0, 0, 0};

/* Is a value of this form its bits, and at most eight bytes? */
static inline bool
is_whole(FbKeyForm form)
{
	return form >= FB_KEY_BOOL && form <= FB_KEY_OID;
}

static const FbClass *
find_class(Relation index, int column)
{
	Oid			compare = index_getprocid(index, column + 1, BTORDER_PROC);

	for (Size at = 0; at < lengthof(classes); at++)
		if (classes[at].compare == compare
			&& (!classes[at].collated || FbCollateIsC(index->rd_indcollation[column])))
			return &classes[at];
	return NULL;
}

const char *
fb_keys_refuse(Relation index)
{
	Form_pg_index form = index->rd_index;
	TupleDesc	descriptor = RelationGetDescr(index);

	if (index->rd_rel->relam != BTREE_AM_OID)
		return "it is not a B-tree";
	if (index->rd_rel->relkind == RELKIND_INDEX
		&& (!form->indisvalid || !form->indisready || !form->indislive))
		return "it is not valid";
	if (form->indisexclusion)
		return "it holds an exclusion constraint";
	if (RelationGetIndexExpressions(index) != NIL)
		return "it has an expression";
	if (RelationGetIndexPredicate(index) != NIL)
		return "it is partial";
	for (int at = 0; at < form->indnatts; at++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, at);
		const FbClass *class;

		if (form->indkey.values[at] <= 0)
			return "it is on a system column";
		if (attribute->attlen == -2)
			return "a column is of a type without a length";
		if (at >= form->indnkeyatts)
			continue;
		class = find_class(index, at);
		if (class == NULL)
			return psprintf("its column \"%s\" sorts otherwise than by bytes",
							NameStr(attribute->attname));
		if (class->length != attribute->attlen)
			return psprintf("its column \"%s\" is stored otherwise than its operators have it",
							NameStr(attribute->attname));
	}
	return NULL;
}

static uint8
align_bytes(char align)
{
	return align == TYPALIGN_CHAR ? 1
		: align == TYPALIGN_SHORT ? ALIGNOF_SHORT
		: align == TYPALIGN_INT ? ALIGNOF_INT : ALIGNOF_DOUBLE;
}

/* Keys that are numbers, all of the tuple, and short are packed. */
static void
begin_packing(FbKeys *keys)
{
	int			bits = 0;
	uint32		at = 0;

	for (int number = 0; number < keys->count; number++)
	{
		FbKeyColumn *column = &keys->columns[number];

		if (!is_whole(column->form))
			return;
		column->bits = 8 * normal_bytes[column->form];
		bits += column->nullable;
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

void
fb_keys_begin(FbKeys *keys, Relation rel, Relation index)
{
	Form_pg_index form = index->rd_index;

	memset(keys, 0, sizeof *keys);
	keys->index = index;
	keys->count = form->indnatts;
	keys->key_count = form->indnkeyatts;
	keys->columns = palloc0(keys->count * sizeof(FbKeyColumn));
	keys->scratch = AllocSetContextCreate(CurrentMemoryContext, "fullbore key",
										  ALLOCSET_SMALL_SIZES);
	keys->normal_room = 1024;
	keys->normal = palloc(keys->normal_room);
	for (int at = 0; at < keys->count; at++)
	{
		FbKeyColumn *column = &keys->columns[at];
		Form_pg_attribute stored = TupleDescAttr(RelationGetDescr(index), at);
		int16		options;

		column->attribute = form->indkey.values[at] - 1;
		column->length = stored->attlen;
		column->align = align_bytes(stored->attalign);
		column->nullable = !TupleDescAttr(RelationGetDescr(rel), column->attribute)->attnotnull;
		if (at >= keys->key_count)
			continue;
		column->form = find_class(index, at)->form;
		options = index->rd_indoption[at];
		column->descending = (options & INDOPTION_DESC) != 0;
		column->nulls_first = (options & INDOPTION_NULLS_FIRST) != 0;
	}
	begin_packing(keys);
	for (int at = 0; at < keys->key_count; at++)
	{
		const FbKeyColumn *column = &keys->columns[at];

		if (normal_bytes[column->form] == 0)
		{
			keys->bytes_max = 0;
			break;
		}
		keys->bytes_max += column->nullable + normal_bytes[column->form];
	}
}

void
fb_fields_begin(FbFields *fields, Relation rel, int count)
{
	uint32		at = 0;
	bool		is_fixed = true;

	memset(fields, 0, sizeof *fields);
	fields->count = count;
	fields->fields = palloc0(count * sizeof(FbField));
	fields->values = palloc0(count * sizeof(char *));
	for (int number = 0; number < count; number++)
	{
		Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(rel), number);
		FbField    *field = &fields->fields[number];

		field->length = attribute->attlen;
		field->align = align_bytes(attribute->attalign);
		field->fixed_at = -1;
		is_fixed = is_fixed && field->length > 0;
		if (!is_fixed)
			continue;
		at = TYPEALIGN(field->align, at);
		field->fixed_at = at;
		at += field->length;
		fields->fixed = number + 1;
		fields->fixed_end = at;
	}
}

void
fb_fields_find(FbFields *fields, HeapTupleHeader tuple)
{
	const char *data = (const char *) tuple + tuple->t_hoff;
	bool		has_nulls = (tuple->t_infomask & HEAP_HASNULL) != 0;
	uint32		at = 0;
	int			number = 0;

	if (!has_nulls)
	{
		for (; number < fields->fixed; number++)
			fields->values[number] = data + fields->fields[number].fixed_at;
		at = fields->fixed_end;
	}
	for (; number < fields->count; number++)
	{
		const FbField *field = &fields->fields[number];

		if (has_nulls && att_isnull(number, tuple->t_bits))
		{
			fields->values[number] = NULL;
			continue;
		}
		/* A short varlena is not aligned, and padding is zero, which is no short header. */
		if (field->length != -1 || !VARATT_NOT_PAD_BYTE(data + at))
			at = TYPEALIGN(field->align, at);
		fields->values[number] = data + at;
		if (field->length > 0)
			at += field->length;
		else if (field->length == -1)
			at += VARSIZE_ANY(data + at);
		else
			at += strlen(data + at) + 1;
	}
}

/* Does the server store it in an index as it is? Otherwise it may compress it. */
static inline bool
is_plain(const char *value)
{
	return VARATT_IS_SHORT(value)
		|| (VARATT_IS_4B_U(value) && VARSIZE(value) <= TOAST_INDEX_TARGET);
}

Size
fb_keys_form_plain(const FbKeys *keys, const FbFields *fields, char *room)
{
	IndexTuple	tuple = (IndexTuple) room;
	uint16		info = 0;
	uint32		at = 0;
	char	   *data;

	for (int number = 0; number < keys->count; number++)
		if (fields->values[keys->columns[number].attribute] == NULL)
			info = INDEX_NULL_MASK;
	data = room + IndexInfoFindDataOffset(info);
	memset(room + sizeof(IndexTupleData), 0, data - room - sizeof(IndexTupleData));
	for (int number = 0; number < keys->count; number++)
	{
		const FbKeyColumn *column = &keys->columns[number];
		const char *value = fields->values[column->attribute];
		uint32		begin = at;
		uint32		bytes;

		if (value == NULL)
			continue;
		if (info & INDEX_NULL_MASK)
			((bits8 *) (room + sizeof(IndexTupleData)))[number >> 3] |= 1 << (number & 7);
		if (column->length > 0)
		{
			bytes = column->length;
			begin = TYPEALIGN(column->align, at);
		}
		else
		{
			if (!is_plain(value))
				return 0;
			bytes = VARSIZE_ANY(value);
			info |= INDEX_VAR_MASK;
			if (!VARATT_IS_SHORT(value))
				begin = TYPEALIGN(column->align, at);
		}
		if (data + begin + bytes > room + FB_PLAIN_TUPLE_MAX - MAXIMUM_ALIGNOF)
			return 0;
		while (at < begin)
			data[at++] = 0;
		memcpy(data + begin, value, bytes);
		at = begin + bytes;
	}
	for (uint32 end = MAXALIGN(at); at < end;)
		data[at++] = 0;
	tuple->t_info = info | (uint16) (data + at - room);
	return data + at - room;
}

IndexTuple
fb_keys_form(const FbKeys *keys, const FbFields *fields)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		is_null[INDEX_MAX_KEYS];

	for (int at = 0; at < keys->count; at++)
	{
		const char *value = fields->values[keys->columns[at].attribute];
		Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(keys->index), at);

		is_null[at] = value == NULL;
		values[at] = value == NULL ? (Datum) 0
			: fetch_att(value, attribute->attbyval, attribute->attlen);
	}
	return index_form_tuple(RelationGetDescr(keys->index), values, is_null);
}

bool
fb_keys_is_null(const FbKeys *keys, IndexTuple tuple)
{
	if (!IndexTupleHasNulls(tuple))
		return false;
	for (int at = 0; at < keys->key_count; at++)
		if (att_isnull(at, (bits8 *) ((char *) tuple + sizeof(IndexTupleData))))
			return true;
	return false;
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

void
fb_keys_pack(const FbKeys *keys, const FbFields *fields, uint64 *words)
{
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

	for (int number = 0; number < keys->count; number++)
		if (is_null_packed(&keys->columns[number], words))
			info = INDEX_NULL_MASK;
	memset(room, 0, FB_PACKED_TUPLE_MAX);
	data = room + IndexInfoFindDataOffset(info);
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

/* Of numeric.c's form on disk. */
#define NUMERIC_SIGN_BITS 0xC000
#define NUMERIC_IS_SHORT 0x8000
#define NUMERIC_IS_SPECIAL 0xC000
#define NUMERIC_IS_NEGATIVE 0x4000
#define NUMERIC_SHORT_IS_NEGATIVE 0x2000
#define NUMERIC_SHORT_WEIGHT 0x007F
#define NUMERIC_SHORT_WEIGHT_SIGN 0x0040
#define NUMERIC_PLUS_INFINITE 0xD000
#define NUMERIC_MINUS_INFINITE 0xF000

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
	uint16		header;
	int16		weight;
	bool		is_negative;
	Size		digits;
	uint8	   *begin;
	uint8	   *to;

	make_room(keys, bytes + 8);
	begin = to = keys->normal + keys->normal_bytes;
	memcpy(&header, data, sizeof header);
	data += sizeof header;
	bytes -= sizeof header;
	if ((header & NUMERIC_SIGN_BITS) == NUMERIC_IS_SPECIAL)
	{
		*to = (header & 0xF000) == NUMERIC_PLUS_INFINITE ? PLUS_INFINITE
			: (header & 0xF000) == NUMERIC_MINUS_INFINITE ? MINUS_INFINITE : NOT_A_NUMBER;
		keys->normal_bytes++;
		return;
	}
	if (header & NUMERIC_IS_SHORT)
	{
		is_negative = (header & NUMERIC_SHORT_IS_NEGATIVE) != 0;
		weight = header & NUMERIC_SHORT_WEIGHT;
		if (weight & NUMERIC_SHORT_WEIGHT_SIGN)
			weight |= ~NUMERIC_SHORT_WEIGHT;
	}
	else
	{
		is_negative = (header & NUMERIC_SIGN_BITS) == NUMERIC_IS_NEGATIVE;
		memcpy(&weight, data, sizeof weight);
		data += sizeof weight;
		bytes -= sizeof weight;
	}
	digits = bytes / sizeof(uint16);
	if (digits == 0)
	{
		*to = ZERO;
		keys->normal_bytes++;
		return;
	}
	*to++ = is_negative ? NEGATIVE : POSITIVE;
	put_16(to, (uint16) weight ^ 0x8000);
	to += 2;
	for (Size at = 0; at < digits; at++, to += 2)
	{
		uint16		digit;

		memcpy(&digit, data + at * sizeof digit, sizeof digit);
		put_16(to, digit + 1);
	}
	put_16(to, 0);
	to += 2;
	if (is_negative)
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

	if (!VARATT_IS_SHORT(value) && !VARATT_IS_4B_U(value))
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
