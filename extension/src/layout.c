/*
 * layout.c - compiles a table's columns for the validator.
 */
#include "layout.h"

#include "access/genam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

/* One type on the whitelist. */
typedef struct FbType
{
	Oid			oid;
	FbForm		form;
	const char *name;
} FbType;

static const FbType types[] = {
	{BOOLOID, FB_BOOL, "bool"},
	{INT2OID, FB_ANY_2, "int2"},
	{INT4OID, FB_ANY_4, "int4"},
	{INT8OID, FB_ANY_8, "int8"},
	{FLOAT4OID, FB_ANY_4, "float4"},
	{FLOAT8OID, FB_ANY_8, "float8"},
	{DATEOID, FB_DATE, "date"},
	{TIMEOID, FB_TIME, "time"},
	{TIMESTAMPOID, FB_TIMESTAMP, "timestamp"},
	{TIMESTAMPTZOID, FB_TIMESTAMP, "timestamptz"},
	{UUIDOID, FB_ANY_16, "uuid"},
	{TEXTOID, FB_TEXT, "text"},
	{VARCHAROID, FB_VARCHAR, "varchar"},
	{BPCHAROID, FB_BPCHAR, "bpchar"},
	{BYTEAOID, FB_BYTEA, "bytea"},
	{JSONOID, FB_JSON, "json"},
	{NUMERICOID, FB_NUMERIC, "numeric"},
	{OIDOID, FB_ANY_4, "oid"},
};

static const FbType enum_type = {InvalidOid, FB_ENUM, "enum"};

static const FbType *
find_type(Form_pg_attribute attribute)
{
	for (Size at = 0; at < lengthof(types); at++)
		if (types[at].oid == attribute->atttypid)
			return &types[at];
	/* A domain is not its base type: its constraints have to run. */
	if (get_typtype(attribute->atttypid) == TYPTYPE_ENUM)
		return &enum_type;
	return NULL;
}

const char *
fb_form_name(Form_pg_attribute attribute)
{
	const FbType *type = find_type(attribute);

	return type == NULL ? NULL : type->name;
}

FbLabel *
fb_enum_labels(Oid type, int *count)
{
	Relation	catalog = table_open(EnumRelationId, AccessShareLock);
	Relation	index = index_open(EnumTypIdSortOrderIndexId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	int			room = 16;
	FbLabel    *labels = palloc(room * sizeof(FbLabel));

	*count = 0;
	ScanKeyInit(&key, Anum_pg_enum_enumtypid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(type));
	scan = systable_beginscan_ordered(catalog, index, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		Form_pg_enum label = (Form_pg_enum) GETSTRUCT(tuple);

		/* Added in this transaction to an older type: an abort would leave it in an index. */
		if (EnumUncommitted(label->oid))
			continue;
		if (*count == room)
			labels = repalloc(labels, (room *= 2) * sizeof(FbLabel));
		labels[*count].oid = label->oid;
		labels[*count].name = pstrdup(NameStr(label->enumlabel));
		(*count)++;
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(catalog, AccessShareLock);
	return labels;
}

static int
compare_labels(const void *a, const void *b)
{
	uint32_t	left = *(const uint32_t *) a;
	uint32_t	right = *(const uint32_t *) b;

	return left < right ? -1 : left > right;
}

static void
add_labels(FbColumn *column, Oid type)
{
	int			count;
	FbLabel    *labels = fb_enum_labels(type, &count);
	uint32_t   *oids = palloc(Max(count, 1) * sizeof(uint32_t));

	for (int at = 0; at < count; at++)
		oids[at] = labels[at].oid;
	qsort(oids, count, sizeof(uint32_t), compare_labels);
	column->labels = oids;
	column->label_count = count;
}

/* What the type's modifier asks of a value. */
static void
add_modifier(FbColumn *column, int32 modifier)
{
	column->limit = -1;
	column->unit = 1;
	if (modifier < 0)
		return;
	switch (column->form)
	{
		case FB_VARCHAR:
		case FB_BPCHAR:
			column->limited = true;
			column->limit = modifier - VARHDRSZ;
			break;
		case FB_NUMERIC:
			column->limited = true;
			modifier -= VARHDRSZ;
			column->precision = (modifier >> 16) & 0xffff;
#if PG_VERSION_NUM >= 150000
			/* Eleven bits with a sign. */
			column->scale = ((modifier & 0x7ff) ^ 1024) - 1024;
#else
			column->scale = modifier & 0xffff;
#endif
			break;
		case FB_TIME:
		case FB_TIMESTAMP:
			for (int digits = modifier; digits < 6; digits++)
				column->unit *= 10;
			break;
		default:
			break;
	}
}

static int
count_characters(void *argument, const char *text, int bytes)
{
	return pg_verify_mbstr_len(GetDatabaseEncoding(), text, bytes, true);
}

uint32
fb_body_bytes_max(Relation rel)
{
	uint32		tuple_bytes = OidIsValid(rel->rd_rel->reltoastrelid)
		? TOAST_TUPLE_THRESHOLD : MaxHeapTupleSize;

	return tuple_bytes - SizeofHeapTupleHeader;
}

FbLayout *
fb_make_layout(Relation rel)
{
	TupleDesc	descriptor = RelationGetDescr(rel);
	FbLayout   *layout = palloc0(sizeof(FbLayout));

	layout->column_count = descriptor->natts;
	layout->columns = palloc0((descriptor->natts + 1) * sizeof(FbColumn));
	layout->body_bytes_max = fb_body_bytes_max(rel);
	layout->data_plain_at = MAXALIGN(SizeofHeapTupleHeader) - SizeofHeapTupleHeader;
	layout->data_bitmap_at = MAXALIGN(SizeofHeapTupleHeader + BITMAPLEN(descriptor->natts))
		- SizeofHeapTupleHeader;
	layout->range_column = -1;
	if (GetDatabaseEncoding() == PG_UTF8)
		layout->encoding = FB_UTF8;
	else if (pg_database_encoding_max_length() == 1)
		layout->encoding = FB_SINGLE_BYTE;
	else
		layout->encoding = FB_OTHER_ENCODING;
	layout->characters = count_characters;

	for (int at = 0; at < descriptor->natts; at++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, at);
		FbColumn   *column = &layout->columns[at];
		const FbType *type = find_type(attribute);

		column->form = type == NULL ? FB_NO_FORM : type->form;
		column->align = fb_align_bytes(attribute->attalign);
		column->plain = attribute->attstorage == TYPSTORAGE_PLAIN;
		column->not_null = attribute->attnotnull;
		if (column->form == FB_ENUM)
			add_labels(column, attribute->atttypid);
		add_modifier(column, attribute->atttypmod);
		fb_prepare_column(column);
	}
	return layout;
}
