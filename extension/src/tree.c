/*
 * tree.c - the pages of a B-tree, from tuples that come in order.
 *
 * Pages are as nbtsort.c makes them: filled to the index's fillfactor, equal keys in lists of rows, high keys
 * truncated. Only their order in the file is another: all leaves first, then each level above them, so that
 * every page is written once and behind the one before it. The links to a level's pages are kept in memory
 * until it is done, a few hundredths of its size.
 *
 * The index is there before: CREATE INDEX on the empty table has made it and its first page, which says where
 * the root is. That page is written last, through the buffer manager, which may hold it.
 */
#include "tree.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "access/xloginsert.h"
#include "utils/inval.h"
#include "utils/memutils.h"

static void
begin_level(FbTree *tree, uint32 number)
{
	FbLevel    *level = &tree->level;

	memset(level, 0, sizeof *level);
	level->number = number;
	level->full = number == 0 ? BTGetTargetPageFreeSpace(tree->index)
		: BLCKSZ * (100 - BTREE_NONLEAF_FILLFACTOR) / 100;
	level->is_first = true;
}

void
fb_tree_begin(FbTree *tree, Relation rel, Relation index)
{
	memset(tree, 0, sizeof *tree);
	tree->rel = rel;
	tree->index = index;
	tree->key = _bt_mkscankey(index, NULL);
	tree->key->allequalimage = _bt_allequalimage(index, false);
	tree->deduplicates = tree->key->allequalimage && !index->rd_index->indisunique
		&& BTGetDeduplicateItems(index);
	/* A list may take a tenth of a page, less the pointer to it, as in nbtsort.c. */
	tree->rows_bytes_max = MAXALIGN_DOWN(BLCKSZ * 10 / 100) - sizeof(ItemIdData);
	if (tree->deduplicates)
		tree->rows = palloc(tree->rows_bytes_max);
	tree->base_room = 256;
	tree->base = palloc(tree->base_room);
	tree->link_room = 256;
	tree->links = palloc(tree->link_room * sizeof(IndexTuple));
	fb_store_begin(&tree->store, index, FB_IO_AUTO, BTREE_METAPAGE + 1);
	begin_level(tree, 0);
}

static void
begin_page(FbTree *tree)
{
	FbLevel    *level = &tree->level;
	BTPageOpaque opaque;

	level->page = fb_store_next_page(&tree->store, &level->block);
	_bt_pageinit(level->page, BLCKSZ);
	opaque = FbOpaque(level->page);
	opaque->btpo_prev = level->is_first ? P_NONE : level->block - 1;
	opaque->btpo_next = P_NONE;
	opaque->btpo_level = level->number;
	opaque->btpo_flags = level->number == 0 ? BTP_LEAF : 0;
	opaque->btpo_cycleid = 0;
	/* The first pointer is the high key's. */
	level->lower = SizeOfPageHeaderData + sizeof(ItemIdData);
	level->upper = ((PageHeader) level->page)->pd_upper;
	level->items = 0;
}

static inline void
put_item(FbLevel *level, const void *item, Size bytes)
{
	level->upper -= MAXALIGN(bytes);
	/* Most are of one short key. */
	if (bytes == 16)
		memcpy(level->page + level->upper, item, 16);
	else
		memcpy(level->page + level->upper, item, bytes);
	ItemIdSetNormal((ItemId) (level->page + level->lower), level->upper, bytes);
	level->lower += sizeof(ItemIdData);
	level->items++;
}

/* The first item above the leaves is below everything: only where it leads counts. */
static void
put_first(FbLevel *level, IndexTuple tuple)
{
	IndexTupleData truncated = *tuple;

	if (level->number == 0)
	{
		put_item(level, tuple, IndexTupleSize(tuple));
		return;
	}
	truncated.t_info = sizeof truncated;
	BTreeTupleSetNAtts(&truncated, 0, false);
	put_item(level, &truncated, sizeof truncated);
}

/* Where the page will be found from above. */
static void
keep_link(FbTree *tree)
{
	FbLevel    *level = &tree->level;

	BTreeTupleSetDownLink(level->low, level->block);
	if (tree->link_count == tree->link_room)
		tree->links = repalloc_huge(tree->links,
									(tree->link_room *= 2) * sizeof(IndexTuple));
	tree->links[tree->link_count++] = level->low;
	level->low = NULL;
}

static void
finish_page(FbTree *tree)
{
	FbLevel    *level = &tree->level;
	PageHeader	header = (PageHeader) level->page;

	header->pd_lower = level->lower;
	header->pd_upper = level->upper;
	level->page = NULL;
	level->is_first = false;
	fb_store_page_done(&tree->store);
}

/* The page is full: its last item becomes its high key, and the next page's first item. */
static void
next_page(FbTree *tree)
{
	FbLevel    *level = &tree->level;
	ItemId		items = (ItemId) (level->page + SizeOfPageHeaderData);
	ItemId		last = &items[level->items];
	IndexTuple	moved = CopyIndexTuple((IndexTuple) (level->page + level->upper));
	IndexTuple	high = moved;

	if (level->number == 0)
	{
		IndexTuple	left = (IndexTuple) (level->page + ItemIdGetOffset(last - 1));

		high = _bt_truncate(tree->index, left, moved, tree->key);
	}
	/* In place of the last item, which is the lowest on the page. */
	level->upper += MAXALIGN(IndexTupleSize(moved));
	memset(level->page + level->upper - MAXALIGN(IndexTupleSize(moved)), 0,
		   MAXALIGN(IndexTupleSize(moved)));
	level->upper -= MAXALIGN(IndexTupleSize(high));
	memcpy(level->page + level->upper, high, IndexTupleSize(high));
	ItemIdSetNormal(&items[0], level->upper, IndexTupleSize(high));
	memset(last, 0, sizeof *last);
	level->lower -= sizeof(ItemIdData);
	FbOpaque(level->page)->btpo_next = level->block + 1;
	keep_link(tree);
	finish_page(tree);

	begin_page(tree);
	level->low = CopyIndexTuple(high);
	put_first(level, moved);
	if (high != moved)
		pfree(high);
	pfree(moved);
}

static inline void
add_item(FbTree *tree, IndexTuple tuple, Size extra)
{
	FbLevel    *level = &tree->level;
	Size		bytes = MAXALIGN(IndexTupleSize(tuple));
	Size		last_extra = level->last_extra;
	Size		space;

	level->last_extra = extra;
	if (level->page == NULL)
	{
		begin_page(tree);
		level->low = palloc0(sizeof(IndexTupleData));
		level->low->t_info = sizeof(IndexTupleData);
		BTreeTupleSetNAtts(level->low, 0, false);
	}
	if (unlikely(bytes > FbMaxItemSize(level->page)))
		_bt_check_third_page(tree->index, tree->rel, level->number == 0, level->page, tuple);
	if (level->items == 0)
	{
		put_first(level, tuple);
		return;
	}
	space = level->upper - level->lower;
	space = space < sizeof(ItemIdData) ? 0 : space - sizeof(ItemIdData);
	/* A high key can be longer than the item that it comes from, by a row's place. */
	if (space < bytes + (level->number == 0 ? MAXALIGN(sizeof(ItemPointerData)) : 0)
		|| (space + last_extra < level->full && level->items > 1))
		next_page(tree);
	put_item(level, tuple, IndexTupleSize(tuple));
}

/* Adds the equal tuples at hand, as one. */
static void
flush_rows(FbTree *tree)
{
	if (tree->row_count == 1)
		add_item(tree, tree->base, 0);
	else if (tree->row_count > 1)
	{
		IndexTuple	list = _bt_form_posting(tree->base, tree->rows, tree->row_count);

		add_item(tree, list, IndexTupleSize(list) - BTreeTupleGetPostingOffset(list));
		pfree(list);
	}
	tree->row_count = 0;
}

bool
fb_tree_add_row(FbTree *tree, ItemPointer row)
{
	if (!tree->deduplicates || tree->row_count == 0
		|| MAXALIGN(IndexTupleSize(tree->base)
					+ (tree->row_count + 1) * sizeof(ItemPointerData)) > tree->rows_bytes_max)
		return false;
	tree->rows[tree->row_count++] = *row;
	return true;
}

/* Equal keys can be stored in different ways; only those that are the same bit for bit are one. */
static bool
is_same(const FbTree *tree, IndexTuple tuple)
{
	return tuple->t_info == tree->base->t_info
		&& memcmp((char *) tuple + sizeof *tuple, (char *) tree->base + sizeof *tuple,
				  IndexTupleSize(tuple) - sizeof *tuple) == 0;
}

void
fb_tree_add(FbTree *tree, IndexTuple tuple, bool is_equal, bool is_single)
{
	Size		bytes = IndexTupleSize(tuple);

	if (!tree->deduplicates || is_single)
	{
		if (tree->row_count > 0)
			flush_rows(tree);
		add_item(tree, tuple, 0);
		return;
	}
	if (is_equal && tree->row_count > 0 && is_same(tree, tuple)
		&& fb_tree_add_row(tree, &tuple->t_tid))
		return;
	flush_rows(tree);
	if (bytes > tree->base_room)
	{
		pfree(tree->base);
		tree->base = palloc(tree->base_room = 2 * bytes);
	}
	memcpy(tree->base, tuple, bytes);
	tree->rows[tree->row_count++] = tuple->t_tid;
}

/* The last page of a level has no high key. */
static void
finish_level(FbTree *tree)
{
	FbLevel    *level = &tree->level;
	ItemId		items = (ItemId) (level->page + SizeOfPageHeaderData);

	memmove(&items[0], &items[1], level->items * sizeof(ItemIdData));
	memset(&items[level->items], 0, sizeof(ItemIdData));
	level->lower -= sizeof(ItemIdData);
	if (level->is_first)
		FbOpaque(level->page)->btpo_flags |= BTP_ROOT;
	else
		keep_link(tree);
	finish_page(tree);
}

static void
write_metapage(FbTree *tree, BlockNumber root, uint32 height)
{
	Buffer		buffer = ReadBuffer(tree->index, BTREE_METAPAGE);

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	START_CRIT_SECTION();
	_bt_initmetapage(BufferGetPage(buffer), root, height, tree->key->allequalimage);
	MarkBufferDirty(buffer);
	if (RelationNeedsWAL(tree->index))
		log_newpage_buffer(buffer, true);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);
	/* Somebody may have looked for the root before. */
	if (tree->index->rd_amcache != NULL)
		pfree(tree->index->rd_amcache);
	tree->index->rd_amcache = NULL;
	CacheInvalidateRelcache(tree->index);
}

void
fb_tree_finish(FbTree *tree)
{
	FbLevel    *level = &tree->level;
	BlockNumber root;

	flush_rows(tree);
	if (level->page == NULL)
	{
		fb_store_finish(&tree->store, false);
		return;
	}
	for (;;)
	{
		bool		is_root = level->is_first;
		IndexTuple *links;
		int			count;

		root = level->block;
		finish_level(tree);
		if (is_root)
			break;
		links = tree->links;
		count = tree->link_count;
		tree->links = palloc(tree->link_room * sizeof(IndexTuple));
		tree->link_count = 0;
		begin_level(tree, level->number + 1);
		for (int at = 0; at < count; at++)
		{
			add_item(tree, links[at], 0);
			pfree(links[at]);
		}
		pfree(links);
	}
	fb_store_finish(&tree->store, false);
	write_metapage(tree, root, level->number);
}
