/*
 * shared.c - rows that share a key, told by the index that was filled with all of them.
 *
 * fullbore.finish() fills a unique index whether or not its keys are unique, and leaves it invalid where they
 * are not. Equal keys stand side by side in it, so one pass over its leaves finds their rows; once none of
 * them share a key any more, the index is valid. It holds rows that were deleted since, as any index may.
 *
 * What is written to the table afterwards is held against the index, so that no other rows come to share a key:
 * a transaction that asks again is told by the rows that the pass found.
 *
 * An invalid index of other origin may lack rows, and must never become valid so. Ours are marked in a way in
 * which the server leaves none: invalid, and yet to be used by later transactions only (indcheckxmin, which
 * CREATE INDEX CONCURRENTLY never sets).
 */
#include "shared.h"
#include "compat.h"
#include "keys.h"
#include "load.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(fullbore_shared);

/* Pages that are asked for before they are needed: a direct load leaves none in memory. */
#define FB_AHEAD 1024

/* So many of them at a time, where they follow each other: it is reads that a virtual disk counts. */
#define FB_AHEAD_STEP 16

/* Rows of equal keys, one behind the other, as an index held them once it was filled. */
typedef struct Equals
{
	Oid			table;			/* InvalidOid: it holds others since */
	Oid			index;
	FbLocator	locator;
	int			count;
	ItemPointer rows;
	bool	   *is_first;		/* of its key, for each of them */
	MemoryContextCallback ends;
	struct Equals *next;
} Equals;

/* Found by this transaction, or by subtransactions of it that were not rolled back. */
static Equals *found = NULL;

typedef struct Walk
{
	Relation	index;
	BTScanInsert key;
	bool		nulls_differ;
	IndexTuple	last;			/* of the rows at hand; NULL: none */
	int			first;			/* of the rows that share its key */
	int			room;
	Equals	   *equals;
	BufferAccessStrategy strategy;
} Walk;

static void
set_valid(Relation rel, Oid index, bool is_valid)
{
	Relation	catalog = table_open(IndexRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(INDEXRELID, ObjectIdGetDatum(index));
	Form_pg_index form;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", index);
	form = (Form_pg_index) GETSTRUCT(tuple);
	form->indisvalid = is_valid;
	form->indcheckxmin = !is_valid;
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(catalog, RowExclusiveLock);
	CacheInvalidateRelcache(rel);
}

/* Its memory is given back. */
static void
forget(void *argument)
{
	for (Equals **at = &found; *at != NULL; at = &(*at)->next)
		if (*at == argument)
		{
			*at = (*at)->next;
			break;
		}
}

void
fb_shared_forget(Oid table)
{
	for (Equals *equals = found; equals != NULL; equals = equals->next)
		if (equals->table == table)
			equals->table = InvalidOid;
}

void
fb_shared_mark(Relation rel, Oid index)
{
	fb_shared_forget(RelationGetRelid(rel));
	set_valid(rel, index, false);
}

/* Of an index that is invalid. */
static bool
is_marked(Relation index)
{
	Form_pg_index form = index->rd_index;

	return form->indisunique && form->indisready && form->indcheckxmin;
}

/* Where the key's bytes end. */
static Size
key_end(IndexTuple tuple)
{
	return BTreeTupleIsPosting(tuple) ? BTreeTupleGetPostingOffset(tuple) : IndexTupleSize(tuple);
}

static bool
is_same_key(const Walk *walk, IndexTuple one, IndexTuple other)
{
	TupleDesc	description = RelationGetDescr(walk->index);
	Size		end = key_end(one);

	if (IndexTupleHasNulls(one) == IndexTupleHasNulls(other) && end == key_end(other))
	{
		const uint64 *its = (const uint64 *) ((char *) one + sizeof *one);
		const uint64 *others = (const uint64 *) ((char *) other + sizeof *other);
		Size		words = (end - sizeof *one) / sizeof *its;
		Size		at = 0;

		/* Tuples and the keys in them end at whole words. */
		StaticAssertStmt(MAXIMUM_ALIGNOF == sizeof *its, "keys are compared word by word");
		while (at < words && its[at] == others[at])
			at++;
		if (at == words)
			return true;
	}
	/* Equal values of these types are stored alike, unless one of them is compressed. */
	if (walk->key->allequalimage && !IndexTupleHasVarwidths(one))
		return false;
	for (int at = 0; at < IndexRelationGetNumberOfKeyAttributes(walk->index); at++)
	{
		ScanKey		key = &walk->key->scankeys[at];
		bool		one_is_null;
		bool		other_is_null;
		Datum		its = index_getattr(one, at + 1, description, &one_is_null);
		Datum		others = index_getattr(other, at + 1, description, &other_is_null);

		if (one_is_null != other_is_null)
			return false;
		if (!one_is_null
			&& DatumGetInt32(FunctionCall2Coll(&key->sk_func, key->sk_collation, its, others)) != 0)
			return false;
	}
	return true;
}

/* Keeps the rows at hand if there are several. */
static void
end_rows(Walk *walk)
{
	int			keys = IndexRelationGetNumberOfKeyAttributes(walk->index);
	Equals	   *equals = walk->equals;

	if (equals->count - walk->first > 1
		&& !(walk->nulls_differ && fb_keys_is_null(walk->last, keys)))
		walk->first = equals->count;
	else
		equals->count = walk->first;
}

static void
take_item(Walk *walk, IndexTuple tuple)
{
	int			rows = BTreeTupleIsPosting(tuple) ? BTreeTupleGetNPosting(tuple) : 1;
	ItemPointer row = BTreeTupleIsPosting(tuple) ? BTreeTupleGetPosting(tuple) : &tuple->t_tid;
	Equals	   *equals = walk->equals;

	if (walk->last != NULL && !is_same_key(walk, walk->last, tuple))
		end_rows(walk);
	walk->last = tuple;
	if (equals->count + rows > walk->room)
	{
		walk->room = 2 * (equals->count + rows);
		equals->rows = repalloc_huge(equals->rows, walk->room * sizeof(ItemPointerData));
		equals->is_first = repalloc_huge(equals->is_first, walk->room * sizeof(bool));
	}
	for (int at = 0; at < rows; at++, equals->count++)
	{
		equals->rows[equals->count] = row[at];
		equals->is_first[equals->count] = equals->count == walk->first;
	}
}

/* Of these, the rows that are still there and share their key with another one that is; how many. */
static int
alive_of(const Equals *equals, Relation rel, ItemPointer alive)
{
	int			kept = 0;
	int			first = 0;

	for (int at = 0; at < Min(FB_AHEAD, equals->count); at++)
		PrefetchBuffer(rel, MAIN_FORKNUM, ItemPointerGetBlockNumber(&equals->rows[at]));
	for (int at = 0; at < equals->count; at++)
	{
		ItemPointerData row = equals->rows[at];

		CHECK_FOR_INTERRUPTS();
		if (at + FB_AHEAD < equals->count)
			PrefetchBuffer(rel, MAIN_FORKNUM,
						   ItemPointerGetBlockNumber(&equals->rows[at + FB_AHEAD]));
		if (equals->is_first[at])
		{
			kept = kept - first > 1 ? kept : first;
			first = kept;
		}
		if (table_index_fetch_tuple_check(rel, &row, SnapshotSelf, NULL))
			alive[kept++] = row;
	}
	return kept - first > 1 ? kept : first;
}

static void
copy_page(const Walk *walk, BlockNumber block, Page page)
{
	Buffer		buffer = ReadBufferExtended(walk->index, MAIN_FORKNUM, block, RBM_NORMAL,
											walk->strategy);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(page, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
}

/* The first leaf; P_NONE: the index is empty. */
static BlockNumber
first_leaf(const Walk *walk, Page page)
{
	BlockNumber block;

	copy_page(walk, BTREE_METAPAGE, page);
	block = BTPageGetMeta(page)->btm_root;
	while (block != P_NONE)
	{
		BTPageOpaque opaque;
		IndexTuple	first;

		copy_page(walk, block, page);
		opaque = FbOpaque(page);
		if (P_ISLEAF(opaque))
			break;
		first = (IndexTuple) PageGetItem(page, PageGetItemId(page, P_FIRSTDATAKEY(opaque)));
		block = BTreeTupleGetDownLink(first);
	}
	return block;
}

static void
walk_leaves(Walk *walk)
{
	/* The last tuple of a page is compared with the first one of the next. */
	char	   *pages[2] = {palloc(BLCKSZ), palloc(BLCKSZ)};
	int			at = 0;
	BlockNumber block = first_leaf(walk, pages[0]);
	BlockNumber blocks = RelationGetNumberOfBlocks(walk->index);
	BlockNumber ahead = block;

	while (block != P_NONE)
	{
		Page		page = pages[at ^= 1];
		BTPageOpaque opaque;
		OffsetNumber last;

		CHECK_FOR_INTERRUPTS();
		/* Leaves that were filled follow each other. */
		for (; ahead < Min(blocks, block + FB_AHEAD); ahead += FB_AHEAD_STEP)
			FbPrefetch(walk->index, ahead, Min(FB_AHEAD_STEP, blocks - ahead));
		copy_page(walk, block, page);
		opaque = FbOpaque(page);
		last = P_IGNORE(opaque) ? 0 : PageGetMaxOffsetNumber(page);
		for (OffsetNumber item = P_FIRSTDATAKEY(opaque); item <= last; item++)
			take_item(walk, (IndexTuple) PageGetItem(page, PageGetItemId(page, item)));
		/* Of a page without items nothing is kept: the next one takes its place. */
		if (last < P_FIRSTDATAKEY(opaque))
			at ^= 1;
		block = opaque->btpo_next;
	}
	end_rows(walk);
}

static const Equals *
equals_of(Relation rel, Relation index)
{
	FbLocator	locator = FbRelationLocator(index);
	Walk		walk = {.index = index,.room = 64};
	Equals	   *equals;

	/* What a deferrable constraint lets in is held against it later. */
	for (equals = found; equals != NULL && index->rd_index->indimmediate; equals = equals->next)
		if (equals->table == RelationGetRelid(rel) && equals->index == RelationGetRelid(index)
			&& FbLocatorEquals(equals->locator, locator))
			return equals;
	walk.key = _bt_mkscankey(index, NULL);
	walk.key->allequalimage = _bt_allequalimage(index, false);
	walk.nulls_differ = FbNullsAreDistinct(index);
	/* As long as the lock, without which VACUUM may make room for other rows in places of these. */
	equals = MemoryContextAllocZero(CurTransactionContext, sizeof *equals);
	equals->rows = MemoryContextAlloc(CurTransactionContext, walk.room * sizeof(ItemPointerData));
	equals->is_first = MemoryContextAlloc(CurTransactionContext, walk.room * sizeof(bool));
	walk.equals = equals;
	walk.strategy = GetAccessStrategy(BAS_BULKREAD);
	walk_leaves(&walk);
	FreeAccessStrategy(walk.strategy);
	equals->table = RelationGetRelid(rel);
	equals->index = RelationGetRelid(index);
	equals->locator = locator;
	equals->ends.func = forget;
	equals->ends.arg = equals;
	MemoryContextRegisterResetCallback(CurTransactionContext, &equals->ends);
	equals->next = found;
	found = equals;
	return equals;
}

/*
 * Rows of the table that share their key in this index, which fullbore.finish() left invalid. Where there are
 * none, the index is valid from now on.
 */
Datum
fullbore_shared(PG_FUNCTION_ARGS)
{
	Oid			oid = PG_GETARG_OID(0);
	Oid			table;
	Relation	rel;
	Relation	index;
	int			count = 0;
	ItemPointer alive = NULL;
	Datum	   *shared;

	fb_check_may_load();
	table = IndexGetRelation(oid, false);
	fb_check_owner(table);
	/* Nobody writes meanwhile. */
	rel = table_open(table, ShareLock);
	index = index_open(oid, AccessShareLock);
	if (!index->rd_index->indisvalid)
	{
		const Equals *equals;

		if (!is_marked(index))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("index \"%s\" is invalid for a reason of its own",
							RelationGetRelationName(index)),
					 errhint("Use REINDEX.")));
		equals = equals_of(rel, index);
		alive = MemoryContextAllocHuge(CurrentMemoryContext,
									   Max(equals->count, 1) * sizeof(ItemPointerData));
		count = alive_of(equals, rel, alive);
		if (count == 0)
			set_valid(rel, oid, true);
	}
	index_close(index, NoLock);
	table_close(rel, NoLock);
	shared = MemoryContextAllocHuge(CurrentMemoryContext, Max(count, 1) * sizeof(Datum));
	for (int at = 0; at < count; at++)
		shared[at] = PointerGetDatum(&alive[at]);
	PG_RETURN_ARRAYTYPE_P(construct_array(shared, count, TIDOID, sizeof(ItemPointerData), false,
										  TYPALIGN_SHORT));
}
