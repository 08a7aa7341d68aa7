/*
 * store.c - pages to disk: WAL, checksums, writing, syncing.
 *
 * The buffer manager is passed by: nobody else can see this storage, it is new in our
 * transaction. What it would have done for us is done here, by the rules of the server's own bulk
 * writers (rewriteheap.c up to 16, bulk_write.c from 17 on):
 *
 * - A page is logged before it is written, as a full image, unless the relation needs no WAL.
 * - Between logging and writing no checkpoint may come to its end: it would leave a recovery, or
 *   a base backup, that begins behind the record and finds a file without the page.
 * - The checksum comes last, after the LSN.
 * - A checkpoint that began while we wrote did not sync what we had written before. When one did,
 *   we sync ourselves; otherwise the next one is told to.
 * - So a run that is logged is waited for at once; of what is not, one may be on its way.
 * - With WAL skipped (wal_level=minimal, storage new in this transaction) the server itself syncs
 *   every fork before it commits; here the kernel is only told to begin early.
 */
#include "store.h"
#include "direct_file.h"
#include "guard.h"
#include "in_flight.h"
#include "visibility.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufpage.h"
#include "utils/memutils.h"

#define FB_RUN_BYTES ((Size) FB_RUN_PAGES * BLCKSZ)

void
fb_store_begin(FbStore *store, Relation rel, FbIo io, BlockNumber first_block)
{
	char	   *memory = palloc(2 * FB_RUN_BYTES + BLCKSZ);

	memset(store, 0, sizeof *store);
	store->rel = rel;
	store->io = io;
	store->needs_wal = RelationNeedsWAL(rel);
	/* An unlogged table's file has to survive a clean shutdown. */
	store->needs_sync = store->needs_wal || rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED;
	store->overlaps = !store->needs_wal;
	store->run = store->runs = (char *) TYPEALIGN(BLCKSZ, memory);
	fb_guard_begin(CurrentMemoryContext, store->runs, 2 * FB_RUN_BYTES);
	fb_guard_close(store->runs, 2 * FB_RUN_BYTES);
	store->first_block = first_block;
	store->run_block = first_block;
	store->redo_at_start = GetRedoRecPtr();
	store->direct = fb_direct_file_begin(store);
}

char *
fb_store_next_page(FbStore *store, BlockNumber *block)
{
	char	   *page;

	*block = store->run_block + store->run_used;
	if (*block == InvalidBlockNumber - 1)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot extend relation \"%s\" beyond %u blocks",
						RelationGetRelationName(store->rel), InvalidBlockNumber)));
	page = store->run + (Size) store->run_used * BLCKSZ;
	fb_guard_open(page, BLCKSZ);
	return page;
}

/* Through the page cache. */
static void
write_buffered(FbStore *store, int first)
{
	SMgrRelation smgr = FbSmgr(store->rel);

	for (int at = first; at < store->run_used; at++)
		smgrextend(smgr, MAIN_FORKNUM, store->run_block + at,
				   FbPageForWrite(store->run + (Size) at * BLCKSZ), true);

	/* Begun now, the writing does not wait for the commit. */
	smgrwriteback(smgr, MAIN_FORKNUM, store->run_block, store->run_used);
}

/* A table of a few pages is likely to be read soon, and its writing costs next to nothing. */
static bool
use_direct(const FbStore *store)
{
	return store->direct != NULL
		&& (store->io == FB_IO_DIRECT || store->run_used == FB_RUN_PAGES
			|| store->run_block - store->first_block >= FB_RUN_PAGES);
}

/*
 * Functions of the table's own (defaults, checks) run between two runs of pages. What they wrote to
 * the table through the buffer manager would be under our pages: one block with two contents, and a
 * recovery that finds items where its records put theirs.
 */
static void
check_end(const FbStore *store)
{
	BlockNumber blocks = smgrnblocks(FbSmgr(store->rel), MAIN_FORKNUM);

	if (blocks != store->run_block)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" was written to while it was being loaded",
						RelationGetRelationName(store->rel)),
				 errdetail("It has %u blocks, of which direct loads of this transaction wrote %u.",
						   blocks, store->run_block),
				 errhint("A default or a check may have written to it: load by COPY (--method copy).")));
}

static void
write_run(FbStore *store)
{
	int			count = store->run_used;
	int			written = 0;

	if (count == 0)
		return;
	check_end(store);
	if (store->needs_wal)
	{
		BlockNumber blocks[FB_RUN_PAGES];
		Page		pages[FB_RUN_PAGES];

		for (int at = 0; at < count; at++)
		{
			blocks[at] = store->run_block + at;
			pages[at] = (Page) (store->run + (Size) at * BLCKSZ);
		}
		FbDelayCheckpoint(true);
		log_newpages(FbSmgrLocator(FbSmgr(store->rel)), MAIN_FORKNUM, count, blocks,
					 pages, true);
	}
	for (int at = 0; at < count; at++)
		PageSetChecksumInplace((Page) (store->run + (Size) at * BLCKSZ), store->run_block + at);

	if (use_direct(store) && !fb_direct_file_write(store->direct, store, &written))
	{
		/* The file system knows no direct I/O: it is not asked again. */
		fb_direct_file_end(store->direct);
		store->direct = NULL;
	}
	if (written < count)
		write_buffered(store, written);
	if (store->needs_wal)
		FbDelayCheckpoint(false);
	/* The buffer manager counts for pg_stat_io what it writes, and has not written this. */
	FbCountExtended(count);

	fb_guard_close(store->run, (Size) count * BLCKSZ);
	store->run_block += count;
	store->run_used = 0;
	if (store->overlaps && store->direct != NULL)
		store->run = store->run == store->runs ? store->runs + FB_RUN_BYTES : store->runs;
	CHECK_FOR_INTERRUPTS();
}

void
fb_store_page_done(FbStore *store)
{
	if (++store->run_used == FB_RUN_PAGES)
		write_run(store);
}

/* The rule of bulk_write.c's end. */
static void
make_durable(FbStore *store)
{
	SMgrRelation smgr = FbSmgr(store->rel);

#ifdef FB_HAVE_REGISTERSYNC
	bool		checkpoint_passed;

	FbDelayCheckpoint(true);
	checkpoint_passed = store->redo_at_start != GetRedoRecPtr();
	if (!checkpoint_passed)
		smgrregistersync(smgr, MAIN_FORKNUM);
	FbDelayCheckpoint(false);
	if (!checkpoint_passed)
		return;
#endif
	smgrimmedsync(smgr, MAIN_FORKNUM);
}

void
fb_store_settle(FbStore *store)
{
	if (store->direct != NULL)
		fb_direct_file_land(store->direct);
}

void
fb_store_finish(FbStore *store, bool frozen)
{
	write_run(store);
	if (store->direct != NULL)
		fb_direct_file_end(store->direct);
	store->direct = NULL;
	if (store->run_block == store->first_block)
		return;
	if (store->needs_sync)
		make_durable(store);
	if (frozen)
		fb_set_all_visible(store->rel, store->first_block, store->run_block);
}

void
fb_store_abandon(void)
{
	FbDelayCheckpoint(false);
	fb_in_flight_abandon();
	/* A descriptor of ours is closed by the transaction's end. */
}
