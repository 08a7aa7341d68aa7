/*
 * keys.c - which indexes are known, and their tuples.
 *
 * A tuple of an index holds its columns as the heap does, aligned for themselves; where the server would
 * compress a value it forms the tuple itself. How values sort is known of the operator classes below
 * and of no others: as packed numbers (pack.c) or as bytes (normal.c).
 */
#include "keys.h"

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
		column->align = fb_align_bytes(stored->attalign);
		column->nullable = !TupleDescAttr(RelationGetDescr(rel), column->attribute)->attnotnull;
		if (at >= keys->key_count)
			continue;
		column->form = find_class(index, at)->form;
		options = index->rd_indoption[at];
		column->descending = (options & INDOPTION_DESC) != 0;
		column->nulls_first = (options & INDOPTION_NULLS_FIRST) != 0;
	}
	fb_keys_begin_packing(keys);
	for (int at = 0; at < keys->key_count; at++)
	{
		const FbKeyColumn *column = &keys->columns[at];

		if (fb_normal_bytes(column->form) == 0)
		{
			keys->bytes_max = 0;
			break;
		}
		keys->bytes_max += column->nullable + fb_normal_bytes(column->form);
	}
}

/* Does the server store it in an index as it is? Otherwise it may compress it. */
static inline bool
is_plain(const char *value)
{
	/* A pointer to what is stored out of line has a short one's bit, too. */
	return !VARATT_IS_EXTERNAL(value)
		&& (VARATT_IS_SHORT(value)
			|| (VARATT_IS_4B_U(value) && VARSIZE(value) <= TOAST_INDEX_TARGET));
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
fb_keys_is_null(IndexTuple tuple, int key_count)
{
	if (!IndexTupleHasNulls(tuple))
		return false;
	for (int at = 0; at < key_count; at++)
		if (att_isnull(at, (bits8 *) ((char *) tuple + sizeof(IndexTupleData))))
			return true;
	return false;
}
