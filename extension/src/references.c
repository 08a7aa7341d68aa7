/*
 * references.c - the foreign keys of a table, checked in one pass over its rows.
 *
 * VALIDATE CONSTRAINT joins two tables for each key. Here the keys of a table that is referred to become a set in
 * memory, and one scan of the referring table looks up all of its keys. That is exact where equal values are equal
 * numbers: whole numbers, dates and times. Other keys, sets beyond maintenance_work_mem, and keys that a row violates
 * are left as they are: VALIDATE CONSTRAINT says of them what there is to say.
 */
#include "compat.h"
#include "load.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/indexing.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(fullbore_validate);

/* A type whose values are numbers, by the function that says which are equal. */
typedef struct FbNumber
{
	Oid			equal;
	Oid			type;
	uint8		bytes;
} FbNumber;

static const FbNumber numbers[] = {
	{F_INT2EQ, INT2OID, 2},
	{F_INT4EQ, INT4OID, 4},
	{F_INT8EQ, INT8OID, 8},
	{F_OIDEQ, OIDOID, 4},
	{F_DATE_EQ, DATEOID, 4},
	{F_TIME_EQ, TIMEOID, 8},
	{F_TIMESTAMP_EQ, TIMESTAMPOID, 8},
	{F_TIMESTAMPTZ_EQ, TIMESTAMPTZOID, 8},
};

typedef struct FbReferring
{
	AttrNumber	column;
	AttrNumber	other;			/* of the table that is referred to */
	uint8		bytes;
	int64		least;			/* of the values there */
	int64		most;
	int			shift;			/* where it is in a key's number */
} FbReferring;

/* A foreign key, and the keys that there are to refer to. */
typedef struct FbReference
{
	HeapTuple	constraint;
	Oid			other;
	int			count;
	FbReferring columns[INDEX_MAX_KEYS];
	bool		is_left;		/* to the server */
	uint64		keys;
	int			bits;			/* of a key's number */

	uint8	   *map;			/* a bit for each number; NULL: places */
	uint64	   *places;			/* numbers by their hashes, each one more than it is; 0: none */
	uint64		mask;
	int			hash_shift;
} FbReference;

static const FbNumber *
find_number(Oid operator, Oid type)
{
	Oid			equal = get_opcode(operator);

	for (Size at = 0; at < lengthof(numbers); at++)
		if (numbers[at].equal == equal && numbers[at].type == type)
			return &numbers[at];
	return NULL;
}

/* Reads a constraint; false: it is left to the server. */
static bool
read_reference(Relation rel, HeapTuple tuple, FbReference *reference)
{
	Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);
	AttrNumber	columns[INDEX_MAX_KEYS];
	AttrNumber	others[INDEX_MAX_KEYS];
	Oid			equals[INDEX_MAX_KEYS];

	memset(reference, 0, sizeof *reference);
	if (form->contype != CONSTRAINT_FOREIGN || form->convalidated || OidIsValid(form->conparentid)
		|| !FbIsPlainReference(form) || get_rel_relkind(form->confrelid) != RELKIND_RELATION
		|| !FbOwnsRelation(form->confrelid))
		return false;
	FbReadReference(tuple, &reference->count, columns, others, equals);
	/* With several columns MATCH FULL refuses rows of which some are NULL. */
	if (form->confmatchtype == FKCONSTR_MATCH_FULL && reference->count > 1)
		return false;
	for (int at = 0; at < reference->count; at++)
	{
		FbReferring *column = &reference->columns[at];
		Oid			type = get_atttype(form->confrelid, others[at]);
		const FbNumber *found = find_number(equals[at], type);

		if (found == NULL || get_atttype(RelationGetRelid(rel), columns[at]) != type)
			return false;
		column->column = columns[at];
		column->other = others[at];
		column->bytes = found->bytes;
		column->least = PG_INT64_MAX;
		column->most = PG_INT64_MIN;
	}
	reference->other = form->confrelid;
	reference->constraint = heap_copytuple(tuple);
	return true;
}

static inline int64
number_of(Datum value, uint8 bytes)
{
	return bytes == 8 ? DatumGetInt64(value)
		: bytes == 4 ? DatumGetInt32(value) : DatumGetInt16(value);
}

/* Calls for each row of a table. */
typedef void (*TakeRow) (void *argument, TupleTableSlot *slot);

static void
scan(Relation rel, Snapshot snapshot, int columns, TakeRow take, void *argument)
{
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	TupleTableSlot *slot = table_slot_create(rel, NULL);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getsomeattrs(slot, columns);
		take(argument, slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
}

/* What a referred-to table has: the range of each column. */
static void
measure(void *argument, TupleTableSlot *slot)
{
	FbReference *reference = argument;

	for (int at = 0; at < reference->count; at++)
	{
		FbReferring *column = &reference->columns[at];
		int64		value;

		if (slot->tts_isnull[column->other - 1])
			return;
		value = number_of(slot->tts_values[column->other - 1], column->bytes);
		column->least = Min(column->least, value);
		column->most = Max(column->most, value);
	}
	reference->keys++;
}

static inline uint64
place_of(const FbReference *reference, uint64 number)
{
	/* The highest bits of a product with the golden ratio (Knuth, The Art of Computer Programming, 6.4). */
	uint64		at = number * UINT64CONST(0x9E3779B97F4A7C15) >> reference->hash_shift;

	while (reference->places[at] != 0 && reference->places[at] != number + 1)
		at = (at + 1) & reference->mask;
	return at;
}

typedef enum FbKeyKind
{
	FB_KEY_IS_NULL,				/* one column is enough: MATCH SIMPLE */
	FB_KEY_OUTSIDE,				/* of all keys that there are to refer to */
	FB_KEY_INSIDE
} FbKeyKind;

/* The number of a row's key, of the table that is referred to or of the one that refers. */
static inline FbKeyKind
key_of(const FbReference *reference, TupleTableSlot *slot, bool is_other, uint64 *number)
{
	FbKeyKind	kind = FB_KEY_INSIDE;

	*number = 0;
	for (int at = 0; at < reference->count; at++)
	{
		const FbReferring *column = &reference->columns[at];
		int			attribute = (is_other ? column->other : column->column) - 1;
		int64		value;

		if (slot->tts_isnull[attribute])
			return FB_KEY_IS_NULL;
		value = number_of(slot->tts_values[attribute], column->bytes);
		if (value < column->least || value > column->most)
			kind = FB_KEY_OUTSIDE;
		*number |= ((uint64) value - (uint64) column->least) << column->shift;
	}
	return kind;
}

static void
gather(void *argument, TupleTableSlot *slot)
{
	FbReference *reference = argument;
	uint64		number;

	/* The rows are those that were measured: none is outside. */
	if (key_of(reference, slot, true, &number) != FB_KEY_INSIDE)
		return;
	if (reference->map != NULL)
		reference->map[number / 8] |= 1 << number % 8;
	else
		reference->places[place_of(reference, number)] = number + 1;
}

/* Room for the keys there are, out of so much memory; false: it is not enough for them. */
static bool
make_room(FbReference *reference, Size *memory)
{
	Size		places;
	Size		bytes;
	void	   *room;
	bool		is_map;

	for (int at = 0; at < reference->count; at++)
	{
		FbReferring *column = &reference->columns[at];
		uint64		range = (uint64) column->most - (uint64) column->least;

		column->shift = reference->bits;
		reference->bits += range == 0 ? 0 : pg_leftmost_one_pos64(range) + 1;
		if (reference->bits > 63)
			return false;
	}
	places = pg_nextpower2_64(Max(2 * reference->keys, 64));
	bytes = places * sizeof(uint64);
	/* Where keys lie close together a map takes less than their places. */
	is_map = (UINT64CONST(1) << reference->bits) / 8 < bytes;
	if (is_map)
		bytes = (UINT64CONST(1) << reference->bits) / 8 + 1;
	if (bytes > *memory)
		return false;
	*memory -= bytes;
	room = MemoryContextAllocExtended(CurrentMemoryContext, bytes,
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	reference->map = is_map ? room : NULL;
	reference->places = is_map ? NULL : room;
	reference->mask = places - 1;
	reference->hash_shift = 64 - pg_leftmost_one_pos64(places);
	return true;
}

static void
gather_keys(FbReference *reference, Snapshot snapshot, Size *memory)
{
	Relation	other = table_open(reference->other, NoLock);
	int			columns = 0;

	for (int at = 0; at < reference->count; at++)
		columns = Max(columns, reference->columns[at].other);
	scan(other, snapshot, columns, measure, reference);
	/* Without any key only rows that are NULL refer to nothing. */
	if (reference->keys == 0 || !make_room(reference, memory))
		reference->is_left = true;
	else
		scan(other, snapshot, columns, gather, reference);
	table_close(other, NoLock);
}

static inline bool
refers(const FbReference *reference, TupleTableSlot *slot)
{
	uint64		number;
	FbKeyKind	kind = key_of(reference, slot, false, &number);

	if (kind != FB_KEY_INSIDE)
		return kind == FB_KEY_IS_NULL;
	if (reference->map != NULL)
		return (reference->map[number / 8] >> number % 8 & 1) != 0;
	return reference->places[place_of(reference, number)] != 0;
}

typedef struct FbReferences
{
	int			count;
	FbReference *all;
} FbReferences;

static void
look_up(void *argument, TupleTableSlot *slot)
{
	FbReferences *references = argument;

	for (int at = 0; at < references->count; at++)
	{
		FbReference *reference = &references->all[at];

		if (!reference->is_left && !refers(reference, slot))
			reference->is_left = true;
	}
}

static void
set_validated(Relation catalog, FbReference *reference)
{
	Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(reference->constraint);

	form->convalidated = true;
	CatalogTupleUpdate(catalog, &reference->constraint->t_self, reference->constraint);
	InvokeObjectPostAlterHook(ConstraintRelationId, form->oid, 0);
}

static FbReferences
read_references(Relation rel, Relation catalog)
{
	FbReferences found = {0};
	int			room = 8;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	found.all = palloc(room * sizeof(FbReference));
	ScanKeyInit(&key, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(rel)));
	scan = systable_beginscan(catalog, ConstraintRelidTypidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (found.count == room)
			found.all = repalloc(found.all, (room *= 2) * sizeof(FbReference));
		if (read_reference(rel, tuple, &found.all[found.count]))
			found.count++;
	}
	systable_endscan(scan);
	return found;
}

/* Validates foreign keys of a table: the names of those that it could, and that hold. */
Datum
fullbore_validate(PG_FUNCTION_ARGS)
{
	Oid			table = PG_GETARG_OID(0);
	Relation	rel;
	Relation	catalog;
	FbReferences found;
	Datum	   *validated;
	int			count = 0;
	int			columns = 0;
	bool		is_any = false;
	Size		memory = (Size) maintenance_work_mem * 1024;
	Snapshot	snapshot;

	fb_check_may_load();
	fb_check_owner(table);
	/* As VALIDATE CONSTRAINT: writers go on, and are checked by the constraint already. */
	rel = table_open(table, ShareUpdateExclusiveLock);
	catalog = table_open(ConstraintRelationId, RowExclusiveLock);
	if (rel->rd_rel->relkind == RELKIND_RELATION)
		found = read_references(rel, catalog);
	else
		found.count = 0;
	validated = palloc(Max(found.count, 1) * sizeof(Datum));
	/* All is looked at as of one moment, after which constraints are checked by whoever writes. */
	for (int at = 0; at < found.count; at++)
		LockRelationOid(found.all[at].other, RowShareLock);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	for (int at = 0; at < found.count; at++)
	{
		FbReference *reference = &found.all[at];

		gather_keys(reference, snapshot, &memory);
		is_any |= !reference->is_left;
		for (int number = 0; number < reference->count; number++)
			columns = Max(columns, reference->columns[number].column);
	}
	if (is_any)
		scan(rel, snapshot, columns, look_up, &found);
	UnregisterSnapshot(snapshot);
	for (int at = 0; at < found.count; at++)
		if (!found.all[at].is_left)
		{
			Form_pg_constraint form
				= (Form_pg_constraint) GETSTRUCT(found.all[at].constraint);

			set_validated(catalog, &found.all[at]);
			validated[count++] = CStringGetTextDatum(NameStr(form->conname));
		}
	table_close(catalog, RowExclusiveLock);
	table_close(rel, NoLock);
	PG_RETURN_ARRAYTYPE_P(construct_array(validated, count, TEXTOID, -1, false, TYPALIGN_INT));
}
