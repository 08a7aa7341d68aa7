/*
 * pages.h - the one page builder: line pointers, tuple headers, page headers.
 */
#ifndef FB_PAGES_H
#define FB_PAGES_H

#include "compat.h"
#include "indexes.h"
#include "store.h"

/* What of a tuple's infomask its data decides; everything else is the builder's. */
#define FB_DATA_INFOMASK (HEAP_HASNULL | HEAP_HASVARWIDTH | HEAP_HASEXTERNAL)

/* The 23 bytes before a body. */
#define FB_TUPLE_HEADER_BYTES SizeofHeapTupleHeader

typedef struct FbPages
{
	FbStore    *store;
	char	   *page;			/* the page at hand, in the store's run; NULL: none */
	BlockNumber block;			/* its number */
	uint32		lower;			/* as in its header */
	uint32		upper;
	uint32		reserve;		/* kept free by the table's fillfactor */
	TransactionId xid;
	CommandId	cid;
	uint16		infomask;		/* what all tuples have */
	uint16		columns;
	bool		frozen;
	FbIndexes  *indexes;		/* of the table; NULL: none */
	uint64		rows;
} FbPages;

extern void fb_pages_begin(FbPages *pages, FbStore *store, Relation rel, bool frozen,
						   FbIndexes *indexes);

/* Puts a body on a page, behind a header of the server's own making. Returns the tuple. */
extern HeapTupleHeader fb_pages_add(FbPages *pages, const char *body, uint32 length,
									uint16 data_infomask, uint8 header_and_bitmap);

/* Hands the last page to the store. */
extern void fb_pages_finish(FbPages *pages);

#endif							/* FB_PAGES_H */
