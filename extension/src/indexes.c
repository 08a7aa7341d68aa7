/*
 * indexes.c - gathers the keys of rows as they are stored, and builds indexes of them.
 *
 * The indexes were made on the empty table, in the transaction that loads it. From the first COPY
 * until fullbore.finish() they lack its rows; nobody else can see them, and a transaction that would commit
 * before is not let through. Whatever else writes to an index meanwhile makes it longer than one page.
 */
#include "indexes.h"
#include "keys.h"
#include "load.h"
#include "shared.h"
#include "sorter.h"
#include "state.h"
#include "store.h"
#include "tree.h"
#include "writers.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_type.h"
#include "commands/tablecmds.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/relcache.h"

PG_FUNCTION_INFO_V1(fullbore_fills);
PG_FUNCTION_INFO_V1(fullbore_finish);

/* With less, each of many indexes would have thousands of files. */
#define SORTER_BYTES_MIN ((Size) 1024 * 1024)

typedef struct FbIndex
{
	Oid			oid;
	FbLocator	locator;
	FbKeys		keys;			/* of the COPY at hand, or of finish() */
	FbSorter	sorter;
	bool		is_begun;		/* its pages are being written, or were */
	bool		is_built;
} FbIndex;

struct FbIndexes
{
	Oid			table;
	FbLocator	locator;
	SubTransactionId sub;
	SubTransactionId emptied;	/* the later one that emptied the table, if it is not rolled back */
	MemoryContext context;
	FbFields	fields;
	int			count;
	FbIndex    *indexes;
	struct FbIndexes *next;
};

static FbIndexes *unfinished = NULL;

static FbIndexes *
find(Relation rel)
{
	for (FbIndexes *at = unfinished; at != NULL; at = at->next)
		if (FbLocatorEquals(at->locator, FbRelationLocator(rel)))
			return at;
	return NULL;
}

static void
forget(FbIndexes *indexes)
{
	for (FbIndexes **at = &unfinished; *at != NULL; at = &(*at)->next)
		if (*at == indexes)
		{
			*at = indexes->next;
			break;
		}
	for (int at = 0; at < indexes->count; at++)
		fb_sorter_end(&indexes->indexes[at].sorter);
	MemoryContextDelete(indexes->context);
}

/* An index that is still there must not be committed without its rows, wherever they are now. */
static void
check_finished(void)
{
	for (FbIndexes *indexes = unfinished; indexes != NULL; indexes = indexes->next)
		for (int at = 0; at < indexes->count; at++)
		{
			const FbIndex *index = &indexes->indexes[at];
			char	   *name = index->is_built ? NULL : get_rel_name(index->oid);

			if (name != NULL)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("index \"%s\" lacks the rows of this transaction", name),
						 errhint("Call fullbore.finish() after the last direct load.")));
		}
}

/* Temporary files go with the subtransaction that made them, even where it is released. */
static void
check_files(SubTransactionId sub)
{
	for (FbIndexes *indexes = unfinished; indexes != NULL; indexes = indexes->next)
		for (int at = 0; at < indexes->count && indexes->sub == sub; at++)
			if (indexes->indexes[at].sorter.run_count > 0)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("a savepoint cannot be released before the indexes of what was loaded "
								"directly after it are filled"),
						 errhint("Call fullbore.finish() after the last direct load.")));
}

static void
transaction_ends(XactEvent event, void *argument)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			check_finished();
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			break;
		default:
			/* Memory and files go with the transaction. */
			unfinished = NULL;
			break;
	}
}

static void
subtransaction_ends(SubXactEvent event, SubTransactionId sub, SubTransactionId parent,
					void *argument)
{
	FbIndexes **at = &unfinished;

	if (event == SUBXACT_EVENT_PRE_COMMIT_SUB)
		check_files(sub);
	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	while (*at != NULL)
	{
		FbIndexes  *indexes = *at;

		if (indexes->sub == sub && event == SUBXACT_EVENT_ABORT_SUB)
		{
			*at = indexes->next;
			continue;
		}
		if (indexes->sub == sub)
			indexes->sub = parent;
		if (indexes->emptied == sub)
			indexes->emptied = event == SUBXACT_EVENT_ABORT_SUB ? InvalidSubTransactionId : parent;
		if (indexes->emptied == indexes->sub)
		{
			forget(indexes);
			continue;
		}
		at = &indexes->next;
	}
}

void
fb_indexes_forget(Oid table)
{
	FbIndexes  *next;

	for (FbIndexes *at = unfinished; at != NULL; at = next)
	{
		next = at->next;
		if (at->table != table)
			continue;
		/* In a later subtransaction the table gets new storage, and may get the old one back. */
		if (at->sub == GetCurrentSubTransactionId())
			forget(at);
		else if (at->emptied == InvalidSubTransactionId)
			at->emptied = GetCurrentSubTransactionId();
	}
}

void
fb_indexes_init(void)
{
	RegisterXactCallback(transaction_ends, NULL);
	RegisterSubXactCallback(subtransaction_ends, NULL);
}

/* Was its storage made in this transaction, and has nobody written to it? */
static bool
is_empty(Relation index, SubTransactionId sub)
{
	bool		is_new = sub == InvalidSubTransactionId
		? index->rd_createSubid != InvalidSubTransactionId
		|| FbNewStorageSubid(index) != InvalidSubTransactionId
		: index->rd_createSubid == sub || FbNewStorageSubid(index) == sub;

	return is_new && RelationGetNumberOfBlocks(index) == 1;
}

static void FB_NORETURN
refuse_index(Relation rel, Relation index, const char *reason)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("index \"%s\" can't be filled by a direct load into table \"%s\"",
					RelationGetRelationName(index), RelationGetRelationName(rel)),
			 errdetail("Reason: %s.", reason),
			 errhint("Create it after the load.")));
}

/* Opens an index, which must be new and empty. */
static void
begin_index(FbIndex *index, Relation rel, Oid oid, Size limit)
{
	Relation	opened = index_open(oid, RowExclusiveLock);
	const char *reason = fb_keys_refuse(opened);

	if (reason == NULL && !is_empty(opened, GetCurrentSubTransactionId()))
		reason = "it was not created in this subtransaction on the empty table";
	if (reason != NULL)
		refuse_index(rel, opened, reason);
	index->oid = oid;
	index->locator = FbRelationLocator(opened);
	fb_keys_begin(&index->keys, rel, opened);
	fb_sorter_begin(&index->sorter, &index->keys, limit);
}

static FbIndexes *
make(Relation rel, List *oids)
{
	MemoryContext context = AllocSetContextCreate(CurTransactionContext, "fullbore indexes",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext previous = MemoryContextSwitchTo(context);
	FbIndexes  *made = palloc0(sizeof *made);
	Size		memory = (Size) maintenance_work_mem * 1024;
	ListCell   *cell;

	made->table = RelationGetRelid(rel);
	made->locator = FbRelationLocator(rel);
	made->sub = GetCurrentSubTransactionId();
	made->context = context;
	made->indexes = palloc0(list_length(oids) * sizeof(FbIndex));
	foreach(cell, oids)
		begin_index(&made->indexes[made->count++], rel, lfirst_oid(cell),
					Max(memory / list_length(oids), SORTER_BYTES_MIN));
	MemoryContextSwitchTo(previous);
	made->next = unfinished;
	unfinished = made;
	return made;
}

/* Opens an index again, which must be what it was. */
static Relation
reopen(FbIndexes *indexes, FbIndex *index, Relation rel)
{
	Relation	opened = index_open(index->oid, RowExclusiveLock);
	FbKeys		before = index->keys;
	const char *reason = fb_keys_refuse(opened);
	MemoryContext previous;

	if (reason == NULL && (index->is_begun
						   || !FbLocatorEquals(index->locator, FbRelationLocator(opened))
						   || !is_empty(opened, InvalidSubTransactionId)))
		reason = "it was changed or written to since the load began";
	if (reason != NULL)
		refuse_index(rel, opened, reason);
	previous = MemoryContextSwitchTo(indexes->context);
	fb_keys_begin(&index->keys, rel, opened);
	MemoryContextSwitchTo(previous);
	if (before.count != index->keys.count || before.key_count != index->keys.key_count
		|| memcmp(before.columns, index->keys.columns, before.count * sizeof(FbKeyColumn)) != 0)
		refuse_index(rel, opened, "its columns were changed since the load began");
	return opened;
}

static void
check_list(FbIndexes *indexes, Relation rel, List *oids)
{
	bool		is_same = list_length(oids) == indexes->count;

	for (int at = 0; at < indexes->count && is_same; at++)
		is_same = list_member_oid(oids, indexes->indexes[at].oid);
	if (!is_same)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" got or lost an index since its load began",
						RelationGetRelationName(rel)),
				 errhint("Create all indexes before the first direct load, or after the last.")));
}

FbIndexes *
fb_indexes_begin(Relation rel, BlockNumber blocks)
{
	List	   *oids = RelationGetIndexList(rel);
	FbIndexes  *indexes = find(rel);
	int			fields = 0;

	if (indexes == NULL && oids == NIL)
		return NULL;
	if (indexes == NULL)
	{
		if (blocks != 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("table \"%s\" contains rows whose keys were not gathered",
							RelationGetRelationName(rel)),
					 errhint("Create all indexes before the first direct load, or after the last.")));
		indexes = make(rel, oids);
	}
	else
	{
		check_list(indexes, rel, oids);
		for (int at = 0; at < indexes->count; at++)
			reopen(indexes, &indexes->indexes[at], rel);
	}
	/* They are open until the COPY ends. */
	for (int at = 0; at < indexes->count; at++)
	{
		const FbKeys *keys = &indexes->indexes[at].keys;

		for (int column = 0; column < keys->count; column++)
			fields = Max(fields, keys->columns[column].attribute + 1);
	}
	fb_fields_begin(&indexes->fields, rel, fields);
	return indexes;
}

void
fb_indexes_take(FbIndexes *indexes, HeapTupleHeader row)
{
	fb_fields_find(&indexes->fields, row);
	for (int at = 0; at < indexes->count; at++)
	{
		FbIndex    *index = &indexes->indexes[at];
		uint64		words[FB_WORDS_MAX];
		char	   *room;
		Size		bytes;

		if (index->keys.packed_words > 0)
		{
			fb_keys_pack(&index->keys, &indexes->fields, words);
			fb_sorter_put_packed(&index->sorter, words, &row->t_ctid);
			continue;
		}
		room = fb_sorter_room(&index->sorter, FB_PLAIN_TUPLE_MAX);
		bytes = fb_keys_form_plain(&index->keys, &indexes->fields, room);
		if (unlikely(bytes == 0))
		{
			MemoryContext previous = MemoryContextSwitchTo(index->keys.scratch);
			IndexTuple	formed = fb_keys_form(&index->keys, &indexes->fields);

			bytes = MAXALIGN(IndexTupleSize(formed));
			room = fb_sorter_room(&index->sorter, bytes);
			memcpy(room, formed, IndexTupleSize(formed));
			MemoryContextSwitchTo(previous);
			MemoryContextReset(index->keys.scratch);
		}
		((IndexTuple) room)->t_tid = row->t_ctid;
		fb_keys_normalise(&index->keys, &indexes->fields);
		fb_sorter_put(&index->sorter, bytes, index->keys.normal, index->keys.normal_bytes);
	}
}

void
fb_indexes_end(FbIndexes *indexes)
{
	for (int at = 0; at < indexes->count; at++)
		index_close(indexes->indexes[at].keys.index, NoLock);
}

/* Of a partition, rows are seen once they are committed: none of its indexes can be left invalid. */
static void
check_unique(Relation rel, Relation index)
{
	if (rel->rd_rel->relispartition)
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("could not fill unique index \"%s\"", RelationGetRelationName(index)),
				 errdetail("Rows share their keys."),
				 errtableconstraint(rel, RelationGetRelationName(index))));
}

/* False: its keys are not unique, and should be; it is invalid. */
static bool
build(FbIndexes *indexes, FbIndex *index, Relation rel, FbSpare *spare)
{
	Relation	opened = reopen(indexes, index, rel);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fullbore tree",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext previous = MemoryContextSwitchTo(context);
	bool		is_unique = opened->rd_index->indisunique;
	bool		nulls_differ = FbNullsAreDistinct(opened);
	bool		is_fine = true;
	char		room[FB_PACKED_TUPLE_MAX] pg_attribute_aligned(MAXIMUM_ALIGNOF);
	FbSorted	next;
	FbTree		tree;

	index->is_begun = true;
	fb_sorter_sort(&index->sorter, spare);
	fb_tree_begin(&tree, rel, opened);
	while (fb_sorter_next(&index->sorter, &next))
	{
		IndexTuple	tuple = next.tuple;

		if (tuple == NULL)
		{
			if (next.is_equal && fb_tree_add_row(&tree, &next.row))
				continue;
			tuple = fb_keys_unpack(&index->keys, next.words, room);
			tuple->t_tid = next.row;
		}
		if (next.is_equal && is_unique
			&& !(nulls_differ && fb_keys_is_null(tuple, index->keys.key_count)))
			is_fine = false;
		fb_tree_add(&tree, tuple, next.is_equal, next.is_single);
	}
	fb_tree_finish(&tree);
	index->is_built = true;
	MemoryContextSwitchTo(previous);
	MemoryContextDelete(context);
	fb_sorter_end(&index->sorter);
	if (!is_fine)
		check_unique(rel, opened);
	index_close(opened, NoLock);
	if (!is_fine)
		fb_shared_mark(rel, index->oid);
	return is_fine;
}

/* Builds all of them; those whose keys are not unique, and should be. */
static ArrayType *
build_all(FbIndexes *indexes, Relation rel)
{
	Datum	   *failed = palloc(indexes->count * sizeof(Datum));
	volatile int failed_count = 0;
	FbSpare		spare = {0};

	if (RelationGetNumberOfBlocks(rel) != fb_state_blocks(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" was written to since it was loaded directly",
						RelationGetRelationName(rel)),
				 errhint("Call fullbore.finish() before anything else writes to it.")));
	check_list(indexes, rel, RelationGetIndexList(rel));
	PG_TRY();
	{
		for (int at = 0; at < indexes->count; at++)
			if (!build(indexes, &indexes->indexes[at], rel, &spare))
				failed[failed_count++] = ObjectIdGetDatum(indexes->indexes[at].oid);
	}
	PG_CATCH();
	{
		fb_store_abandon();
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (spare.memory != NULL)
		pfree(spare.memory);
	return construct_array(failed, failed_count, REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT);
}

/* Why an index can't be filled from rows as they pass; NULL: it can. */
Datum
fullbore_fills(PG_FUNCTION_ARGS)
{
	Relation	index = relation_open(PG_GETARG_OID(0), AccessShareLock);
	bool		is_index = index->rd_rel->relkind == RELKIND_INDEX
		|| index->rd_rel->relkind == RELKIND_PARTITIONED_INDEX;
	const char *reason = is_index ? fb_keys_refuse(index) : "it is not an index";
	text	   *answer = reason == NULL ? NULL : cstring_to_text(reason);

	relation_close(index, AccessShareLock);
	if (answer == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(answer);
}

/*
 * Builds the indexes of a table from the keys of this transaction's loads. Returns those that are invalid, since
 * their keys are not unique.
 */
Datum
fullbore_finish(PG_FUNCTION_ARGS)
{
	Oid			table = PG_GETARG_OID(0);
	Relation	rel;
	FbIndexes  *indexes;
	ArrayType  *failed;

	fb_check_may_load();
	fb_writers_refuse_nested("fullbore.finish()");
	fb_check_owner(table);
	rel = table_open(table, RowExclusiveLock);
	CheckTableNotInUse(rel, "fullbore.finish()");
	indexes = find(rel);
	/* A rollback that leaves the table would leave pages that nobody knows of. */
	if (indexes != NULL && indexes->sub != GetCurrentSubTransactionId())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" was loaded directly before the current savepoint",
						RelationGetRelationName(rel)),
				 errhint("Release it or roll back to it before fullbore.finish().")));
	failed = indexes == NULL ? construct_empty_array(REGCLASSOID) : build_all(indexes, rel);
	table_close(rel, NoLock);
	PG_RETURN_ARRAYTYPE_P(failed);
}
