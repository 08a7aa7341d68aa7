/*
 * filter.c - the index access method "fullbore_filter": which values a table surely does not have.
 *
 * A Bloom filter in blocks (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom
 * Filters, 2007): a value's hash chooses a page, and a few bits of it. A lookup of a value reads
 * one page. Bits are set before a row can be seen, and stay when it goes, so what is not set was
 * never there; that holds after a crash and on a standby as well, since pages are written to WAL
 * like those of any other index. No plan scans it: lookups.c asks it.
 *
 * It is as large as the rows that are there when it is built. Later rows make it tell less, until
 * all bits are set; REINDEX makes it larger.
 */
#include "filter.h"

#include "access/amapi.h"
#include "access/generic_xlog.h"
#include "access/tableam.h"
#include "access/xloginsert.h"
#include "catalog/index.h"
#include "catalog/pg_type.h"
#include "commands/vacuum.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "optimizer/cost.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(fullbore_filter_handler);

/* With ten bits and seven hashes one in a hundred values that are not there seems to be. */
#define BITS_PER_ROW 10
#define HASHES 7
#define PAGE_BYTES (BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - MAXALIGN(sizeof(PageEnd)))
#define PAGE_BITS ((uint32) PAGE_BYTES * 8)
#define ROWS_PER_PAGE (PAGE_BITS / BITS_PER_ROW)
/* Of the hash that is asked for: the standard ones are used by others, for other ends. */
#define SEED UINT64CONST(0x66756c6c626f7265)
/* So many pages of the table are looked at to know how many rows it has. */
#define PAGES_SAMPLED 32
/* It is built in memory: a gigabyte, for some 800 million rows. More make it tell less. */
#define PAGES_MAX ((uint32) (1024 * 1024 / (BLCKSZ / 1024)))

#define MAGIC 0x66626c66
#define VERSION 1

/* At the end of each page: what was lost or cut off is not to be taken for values that are not there. */
typedef struct PageEnd
{
	uint32		magic;
	uint32		version;
	uint32		pages;			/* of the index */
	BlockNumber block;
} PageEnd;

typedef struct Building
{
	Relation	index;
	uint32		pages;
	uint8	   *bits;
	double		rows;
} Building;

/*
 * Integers of all widths have the same hash: they are compared with each other. The types' own hashes
 * of 64 bits are not taken, since they fold their values to 32 bits first.
 */
static uint64
hash_of(Relation index, Oid type, Datum value)
{
	TypeCacheEntry *known;
	int64		number;
	Datum		plain = value;
	uint64		hash;

	switch (type)
	{
		case INT2OID:
			number = DatumGetInt16(value);
			break;
		case INT4OID:
			number = DatumGetInt32(value);
			break;
		case INT8OID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			number = DatumGetInt64(value);
			break;
		default:
			known = lookup_type_cache(type, TYPECACHE_HASH_EXTENDED_PROC_FINFO);
			if (!OidIsValid(known->hash_extended_proc))
				elog(ERROR, "type %u has no hash", type);
			/* Not all hash functions free the copy that they make of a short value. */
			if (known->typlen == -1)
				plain = PointerGetDatum(PG_DETOAST_DATUM(value));
			hash = DatumGetUInt64(FunctionCall2Coll(&known->hash_extended_proc_finfo,
													index->rd_indcollation[0], plain,
													UInt64GetDatum(SEED)));
			if (plain != value)
				pfree(DatumGetPointer(plain));
			return hash;
	}
	return hash_bytes_extended((unsigned char *) &number, sizeof(number), SEED);
}

/* The page of a hash among so many. */
static BlockNumber
page_of(uint64 hash, uint32 pages)
{
	return (BlockNumber) (((hash >> 32) * pages) >> 32);
}

/* Whether all bits of a hash are set. The step is odd, so that no bits fall together early. */
static bool
is_set(const uint8 *bits, uint64 hash)
{
	uint32		at = (uint32) hash;
	uint32		step = (uint32) (hash >> 17) | 1;

	for (int n = 0; n < HASHES; n++, at += step)
	{
		uint32		bit = (uint32) (((uint64) at * PAGE_BITS) >> 32);

		if ((bits[bit / 8] & (1 << bit % 8)) == 0)
			return false;
	}
	return true;
}

static void
set(uint8 *bits, uint64 hash)
{
	uint32		at = (uint32) hash;
	uint32		step = (uint32) (hash >> 17) | 1;

	for (int n = 0; n < HASHES; n++, at += step)
	{
		uint32		bit = (uint32) (((uint64) at * PAGE_BITS) >> 32);

		bits[bit / 8] |= 1 << bit % 8;
	}
}

static void
init_page(Page page, uint32 pages, BlockNumber block)
{
	PageInit(page, BLCKSZ, sizeof(PageEnd));
	/* What is between them would be taken as empty. */
	((PageHeader) page)->pd_lower = ((PageHeader) page)->pd_upper;
	*(PageEnd *) PageGetSpecialPointer(page) =
		(PageEnd) {.magic = MAGIC,.version = VERSION,.pages = pages,.block = block};
}

/* The bits of a page of an index that has so many. */
static uint8 *
bits_of(Relation index, Buffer buffer, uint32 pages)
{
	Page		page = BufferGetPage(buffer);
	PageEnd    *end = NULL;

	/* What is between lower and upper is cleared when it is logged. */
	if (!PageIsNew(page) && PageGetSpecialSize(page) == MAXALIGN(sizeof(PageEnd))
		&& ((PageHeader) page)->pd_lower == ((PageHeader) page)->pd_upper)
		end = (PageEnd *) PageGetSpecialPointer(page);
	if (end == NULL || end->magic != MAGIC || end->version != VERSION || end->pages != pages
		|| end->block != BufferGetBlockNumber(buffer))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" is damaged at block %u", RelationGetRelationName(index),
						BufferGetBlockNumber(buffer)),
				 errhint("Please REINDEX it.")));
	return (uint8 *) PageGetContents(page);
}

/* About how many rows a table has, by those of some of its pages. */
static double
rows_about(Relation heap)
{
	BlockNumber pages = RelationGetNumberOfBlocks(heap);
	uint32		sampled = Min(pages, PAGES_SAMPLED);
	uint64		rows = 0;

	if (heap->rd_tableam != GetHeapamTableAmRoutine())
		return Max(heap->rd_rel->reltuples, 0);
	for (uint32 n = 0; n < sampled; n++)
	{
		Buffer		buffer = ReadBuffer(heap, (BlockNumber) ((uint64) n * pages / sampled));
		Page		page = BufferGetPage(buffer);

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		for (OffsetNumber at = FirstOffsetNumber; at <= PageGetMaxOffsetNumber(page); at++)
			rows += ItemIdIsNormal(PageGetItemId(page, at));
		UnlockReleaseBuffer(buffer);
	}
	return sampled == 0 ? 0 : (double) rows * pages / sampled;
}

static void
add_built(Relation index, ItemPointer row, Datum *values, bool *isnull, bool is_alive, void *state)
{
	Building   *building = state;
	uint64		hash;

	if (isnull[0])
		return;
	hash = hash_of(index, index->rd_opcintype[0], values[0]);
	set(building->bits + (Size) page_of(hash, building->pages) * PAGE_BYTES, hash);
	building->rows++;
}

static void
write_pages(Building *building, ForkNumber fork)
{
	Relation	index = building->index;

	for (BlockNumber block = 0; block < building->pages; block++)
	{
		Buffer		buffer = ReadBufferExtended(index, fork, P_NEW, RBM_NORMAL, NULL);

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		START_CRIT_SECTION();
		init_page(BufferGetPage(buffer), building->pages, block);
		memcpy(PageGetContents(BufferGetPage(buffer)),
			   building->bits + (Size) block * PAGE_BYTES, PAGE_BYTES);
		MarkBufferDirty(buffer);
		/* Pages of an unlogged table's beginning are logged: they survive a crash. */
		if (RelationNeedsWAL(index) || fork == INIT_FORKNUM)
			log_newpage_buffer(buffer, false);
		END_CRIT_SECTION();
		UnlockReleaseBuffer(buffer);
	}
}

static IndexBuildResult *
build(Relation heap, Relation index, IndexInfo *info)
{
	IndexBuildResult *result = palloc0(sizeof(IndexBuildResult));
	Building	building = {.index = index};

	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));
	building.pages = (uint32) Min(rows_about(heap) / ROWS_PER_PAGE + 1, PAGES_MAX);
	building.bits = MemoryContextAllocExtended(CurrentMemoryContext,
											   (Size) building.pages * PAGE_BYTES,
											   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	result->heap_tuples = table_index_build_scan(heap, index, info, true, true, add_built,
												 &building, NULL);
	result->index_tuples = building.rows;
	write_pages(&building, MAIN_FORKNUM);
	pfree(building.bits);
	return result;
}

static void
build_empty(Relation index)
{
	Building	building = {.index = index,.pages = 1,.bits = palloc0(PAGE_BYTES)};

	write_pages(&building, INIT_FORKNUM);
}

/* How many pages it was built with: it never grows. */
static uint32
pages_of(Relation index)
{
	/* Of a new file when the index is built again: then the cache is empty. */
	if (index->rd_amcache == NULL)
	{
		uint32		pages = RelationGetNumberOfBlocks(index);

		if (pages == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("index \"%s\" is empty", RelationGetRelationName(index)),
					 errhint("Please REINDEX it.")));
		index->rd_amcache = MemoryContextAlloc(index->rd_indexcxt, sizeof(uint32));
		*(uint32 *) index->rd_amcache = pages;
	}
	return *(uint32 *) index->rd_amcache;
}

static bool
insert(Relation index, Datum *values, bool *isnull, ItemPointer row, Relation heap,
	   IndexUniqueCheck unique, bool is_unchanged, IndexInfo *info)
{
	uint32		pages = pages_of(index);
	uint64		hash;
	Buffer		buffer;

	if (isnull[0])
		return false;
	hash = hash_of(index, index->rd_opcintype[0], values[0]);
	buffer = ReadBuffer(index, page_of(hash, pages));
	/* Once they are set, bits stay: who finds them so need not keep others away. */
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!is_set(bits_of(index, buffer, pages), hash))
	{
		GenericXLogState *xlog;

		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		xlog = GenericXLogStart(index);
		set((uint8 *) PageGetContents(GenericXLogRegisterBuffer(xlog, buffer, 0)), hash);
		GenericXLogFinish(xlog);
	}
	UnlockReleaseBuffer(buffer);
	return false;
}

/* Bits are of many rows: none is cleared when some of them go. */
static IndexBulkDeleteResult *
bulk_delete(IndexVacuumInfo *info, IndexBulkDeleteResult *result, IndexBulkDeleteCallback callback,
			void *state)
{
	return result != NULL ? result : palloc0(sizeof(IndexBulkDeleteResult));
}

static IndexBulkDeleteResult *
vacuum_cleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *result)
{
	if (info->analyze_only)
		return result;
	if (result == NULL)
		result = palloc0(sizeof(IndexBulkDeleteResult));
	result->num_pages = RelationGetNumberOfBlocks(info->index);
	/* One entry for each row, as far as anyone can tell. */
	result->num_index_tuples = info->num_heap_tuples;
	result->estimated_count = info->estimated_count;
	return result;
}

/* No operator is of its families, so that no plan comes here. */
static void
estimate_cost(struct PlannerInfo *root, struct IndexPath *path, double loops, Cost *startup,
			  Cost *total, Selectivity *selectivity, double *correlation, double *pages)
{
	*startup = *total = 1.0e10;
	*selectivity = 1;
	*correlation = 0;
	*pages = 1;
}

static bytea *
options(Datum given, bool validate)
{
	if (validate)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"fullbore_filter\" has no storage parameters")));
	return NULL;
}

static bool
validate(Oid opclass)
{
	return true;
}

Datum
fullbore_filter_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *am = makeNode(IndexAmRoutine);

	am->amoptionalkey = true;
	am->amkeytype = InvalidOid;
	am->amparallelvacuumoptions = VACUUM_OPTION_NO_PARALLEL;
	am->ambuild = build;
	am->ambuildempty = build_empty;
	am->aminsert = insert;
	am->ambulkdelete = bulk_delete;
	am->amvacuumcleanup = vacuum_cleanup;
	am->amcostestimate = estimate_cost;
	am->amoptions = options;
	am->amvalidate = validate;
	PG_RETURN_POINTER(am);
}

bool
fb_is_filter(Relation index)
{
	return index->rd_indam != NULL && index->rd_indam->ambuild == build;
}

bool
fb_filter_may_have(Relation index, Oid type, Datum value)
{
	uint32		pages = pages_of(index);
	uint64		hash;
	Buffer		buffer;
	bool		may_have;

	hash = hash_of(index, type, value);
	buffer = ReadBuffer(index, page_of(hash, pages));
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	may_have = is_set(bits_of(index, buffer, pages), hash);
	UnlockReleaseBuffer(buffer);
	return may_have;
}
