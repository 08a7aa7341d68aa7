/*
 * fields.c - finds the values of a row that indexes want.
 *
 * The leading columns of a fixed length stand at the same place in every row without NULLs; from there
 * on it is walked once, for all indexes.
 */
#include "keys.h"

#include "access/tupmacs.h"

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
		field->align = fb_align_bytes(attribute->attalign);
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
