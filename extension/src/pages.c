/*
 * pages.c - the one page builder: line pointers, tuple headers, page headers.
 *
 * Bodies and rows that came out of band all pass here, so there is one place where a page is
 * made. Nothing of a header is ever taken from the client.
 */
#include "pages.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "storage/bufpage.h"

void
fb_pages_begin(FbPages *pages, FbStore *store, Relation rel, bool frozen, FbIndexes *indexes)
{
	memset(pages, 0, sizeof *pages);
	pages->store = store;
	pages->reserve = RelationGetTargetPageFreeSpace(rel, HEAP_DEFAULT_FILLFACTOR);
	pages->xid = GetCurrentTransactionId();
	pages->cid = GetCurrentCommandId(true);
	pages->frozen = frozen;
	pages->indexes = indexes;
	pages->infomask = HEAP_XMAX_INVALID | (frozen ? HEAP_XMIN_FROZEN : 0);
	pages->columns = RelationGetNumberOfAttributes(rel);
}

static void
begin_page(FbPages *pages)
{
	pages->page = fb_store_next_page(pages->store, &pages->block);
	pages->lower = SizeOfPageHeaderData;
	pages->upper = BLCKSZ;
}

static void
finish_page(FbPages *pages)
{
	char	   *page = pages->page;
	PageHeader	header = (PageHeader) page;

	/* What PageInit leaves; LSN and checksum are the store's. */
	memset(header, 0, SizeOfPageHeaderData);
	header->pd_flags = pages->frozen ? PD_ALL_VISIBLE : 0;
	header->pd_lower = pages->lower;
	header->pd_upper = pages->upper;
	header->pd_special = BLCKSZ;
	PageSetPageSizeAndVersion(page, BLCKSZ, PG_PAGE_LAYOUT_VERSION);

	/* The page's memory was used before. */
	memset(page + pages->lower, 0, pages->upper - pages->lower);
	pages->page = NULL;
	fb_store_page_done(pages->store);
}

HeapTupleHeader
fb_pages_add(FbPages *pages, const char *body, uint32 length, uint16 data_infomask,
			 uint8 header_and_bitmap)
{
	uint32		tuple_bytes = FB_TUPLE_HEADER_BYTES + length;
	uint32		space = MAXALIGN(tuple_bytes);
	OffsetNumber offset;
	HeapTupleHeader tuple;

	Assert(space <= MaxHeapTupleSize);

	if (pages->page != NULL)
	{
		uint32		used = (pages->lower - SizeOfPageHeaderData) / sizeof(ItemIdData);

		/* A page holds one row at least, whatever the fillfactor. */
		if (pages->lower + sizeof(ItemIdData) + space + pages->reserve > pages->upper
			|| used >= MaxHeapTuplesPerPage)
			finish_page(pages);
	}
	if (pages->page == NULL)
		begin_page(pages);

	pages->upper -= space;
	offset = (pages->lower - SizeOfPageHeaderData) / sizeof(ItemIdData) + 1;
	ItemIdSetNormal((ItemId) (pages->page + pages->lower), pages->upper, tuple_bytes);
	pages->lower += sizeof(ItemIdData);

	tuple = (HeapTupleHeader) (pages->page + pages->upper);
	/* The bytes between this tuple's end and the next one's begin. */
	*(uint64 *) ((char *) tuple + space - sizeof(uint64)) = 0;
	memcpy((char *) tuple + FB_TUPLE_HEADER_BYTES, body, length);
	tuple->t_choice.t_heap.t_xmin = pages->xid;
	tuple->t_choice.t_heap.t_xmax = InvalidTransactionId;
	tuple->t_choice.t_heap.t_field3.t_cid = pages->cid;
	ItemPointerSet(&tuple->t_ctid, pages->block, offset);
	tuple->t_infomask2 = pages->columns;
	tuple->t_infomask = pages->infomask | data_infomask;
	tuple->t_hoff = header_and_bitmap;
	pages->rows++;
	if (pages->indexes != NULL)
		fb_indexes_take(pages->indexes, tuple);
	return tuple;
}

void
fb_pages_finish(FbPages *pages)
{
	if (pages->page != NULL)
		finish_page(pages);
}
