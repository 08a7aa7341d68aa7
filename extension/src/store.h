/*
 * store.h - pages to disk: WAL, checksums, writing, syncing, the visibility map.
 */
#ifndef FB_STORE_H
#define FB_STORE_H

#include "compat.h"

#include "access/xlogdefs.h"

/* How pages are written. */
typedef enum FbIo
{
	FB_IO_AUTO,
	FB_IO_BUFFERED,
	FB_IO_DIRECT
} FbIo;

/* Pages built before they are logged and written together. */
#define FB_RUN_PAGES 128

typedef struct FbStore
{
	Relation	rel;
	FbIo		io;
	bool		needs_wal;
	bool		needs_sync;		/* nobody else will sync what we write */
	bool		overlaps;		/* pages may be on their way while others are built */
	char	   *runs;			/* memory for two runs of FB_RUN_PAGES, aligned for direct I/O */
	char	   *run;			/* the one at hand */
	int			run_used;
	BlockNumber first_block;	/* the first one that this COPY writes */
	BlockNumber run_block;		/* the number of the run's first page */
	XLogRecPtr	redo_at_start;	/* where a recovery would have begun when we began */
	struct FbDirectFile *direct;	/* NULL: through the page cache */
} FbStore;

extern void fb_store_begin(FbStore *store, Relation rel, FbIo io, BlockNumber first_block);

/* Memory for one more page, and its number; not initialised. */
extern char *fb_store_next_page(FbStore *store, BlockNumber *block);

/* That page is ready. */
extern void fb_store_page_done(FbStore *store);

/* Waits for the run that is on its way: the table may be read now, up to the run at hand. */
extern void fb_store_settle(FbStore *store);

/* Writes what is left and makes it as durable as its commit will need. */
extern void fb_store_finish(FbStore *store, bool frozen);

/* After an error: gives back what no memory context knows. */
extern void fb_store_abandon(void);

/* The number of blocks now on disk. */
#define fb_store_end_block(store) ((store)->run_block)

#endif							/* FB_STORE_H */
