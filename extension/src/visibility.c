/*
 * visibility.c - the visibility map of frozen pages.
 *
 * The heap pages, already on disk, say PD_ALL_VISIBLE; the map follows. It goes through the buffer
 * manager: one page of it covers a quarter of a gigabyte, and an earlier COPY of this transaction
 * may have left one there. A page of the map keeps its bits where other pages have their hole, so
 * its image is logged whole.
 */
#include "visibility.h"

#include "access/visibilitymap.h"
#include "access/visibilitymapdefs.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"

/* As visibilitymap.c has it; the layout is part of the server's on-disk format. */
#define MAP_BYTES (BLCKSZ - MAXALIGN(SizeOfPageHeaderData))
#define BLOCKS_PER_BYTE (BITS_PER_BYTE / BITS_PER_HEAPBLOCK)
#define BLOCKS_PER_PAGE (MAP_BYTES * BLOCKS_PER_BYTE)

static void
set_bits(char *map, uint32 first, uint32 end)
{
	for (uint32 at = first; at < end;)
	{
		if (at % BLOCKS_PER_BYTE == 0 && at + BLOCKS_PER_BYTE <= end)
		{
			map[at / BLOCKS_PER_BYTE] = (char) 0xff;
			at += BLOCKS_PER_BYTE;
			continue;
		}
		map[at / BLOCKS_PER_BYTE] |= VISIBILITYMAP_VALID_BITS
			<< (at % BLOCKS_PER_BYTE * BITS_PER_HEAPBLOCK);
		at++;
	}
}

void
fb_set_all_visible(Relation rel, BlockNumber first, BlockNumber end)
{
	Buffer		buffer = InvalidBuffer;

	while (first < end)
	{
		BlockNumber page_first = first - first % BLOCKS_PER_PAGE;
		BlockNumber page_end = Min((uint64) end, (uint64) page_first + BLOCKS_PER_PAGE);

		visibilitymap_pin(rel, first, &buffer);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		START_CRIT_SECTION();
		set_bits(PageGetContents(BufferGetPage(buffer)), first - page_first,
				 page_end - page_first);
		MarkBufferDirty(buffer);
		if (RelationNeedsWAL(rel))
			log_newpage_buffer(buffer, false);
		END_CRIT_SECTION();
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		first = page_end;
		CHECK_FOR_INTERRUPTS();
	}
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
}
