/*
 * tree.h - the pages of a B-tree, from tuples that come in order.
 */
#ifndef FB_TREE_H
#define FB_TREE_H

#include "compat.h"
#include "store.h"

#include "access/nbtree.h"

/* The level at hand. */
typedef struct FbLevel
{
	uint32		number;			/* 0: leaves */
	Size		full;			/* a page is full when less than this is free */
	char	   *page;			/* NULL: none */
	BlockNumber block;
	uint32		lower;
	uint32		upper;
	int			items;			/* on the page, without its high key */
	Size		last_extra;		/* what truncating would take off the last item */
	bool		is_first;		/* of its level */
	IndexTuple	low;			/* the page's low key */
} FbLevel;

typedef struct FbTree
{
	Relation	rel;			/* of the table */
	Relation	index;
	FbStore		store;
	BTScanInsert key;			/* as the server compares */
	bool		deduplicates;
	FbLevel		level;
	IndexTuple *links;			/* low keys of this level's pages, with their blocks: the next one's items */
	int			link_count;
	int			link_room;

	/* Equal tuples that will be one with a list of rows. */
	IndexTuple	base;
	Size		base_room;
	ItemPointer rows;
	int			row_count;
	Size		rows_bytes_max;
} FbTree;

extern void fb_tree_begin(FbTree *tree, Relation rel, Relation index);

/* `is_equal`: its key is that of the one before; `is_single`: neither that nor the next one's. */
extern void fb_tree_add(FbTree *tree, IndexTuple tuple, bool is_equal, bool is_single);

/* The same tuple as the one before for another row; false: it has to be given whole. */
extern bool fb_tree_add_row(FbTree *tree, ItemPointer row);

/* Writes what is left, and the index begins at its root. */
extern void fb_tree_finish(FbTree *tree);

#endif							/* FB_TREE_H */
