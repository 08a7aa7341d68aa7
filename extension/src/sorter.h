/*
 * sorter.h - index tuples in the order of their keys, within so much memory.
 */
#ifndef FB_SORTER_H
#define FB_SORTER_H

#include "compat.h"
#include "keys.h"

#include "access/itup.h"
#include "storage/buffile.h"

/* A sorted part that is in a file. */
typedef struct FbRun
{
	BufFile    *file;
	uint64		left;			/* tuples not read yet */
	char	   *record;			/* the next one: its words, tuple and rest; or entries */
	Size		room;
	Size		at;				/* of these, the next one, and how many there are */
	Size		have;
} FbRun;

/* What is given back. */
typedef struct FbSorted
{
	IndexTuple	tuple;			/* NULL: keys are packed */
	const uint64 *words;
	ItemPointerData row;		/* of a packed one */
	bool		is_equal;		/* its key is that of the one before */
	bool		is_single;		/* no other has its key, for all that is known */
} FbSorted;

typedef struct FbSorter
{
	MemoryContext context;		/* lives as long as the sorter */
	bool		packed;			/* entries are all there is: words and a row */
	int			words;			/* of a key that are compared as numbers */
	bool		has_rest;		/* keys can be longer */
	Size		limit;			/* bytes that it may take */

	uint64	   *entries;		/* words and place of each, (words + 1) numbers */
	uint64	   *scratch;		/* as many, to sort with */
	Size		count;
	Size		room;
	char	   *arena;			/* tuples, each with the rest of its key */
	Size		used;
	Size		arena_room;
	bool		in_order;		/* so far each key was at least as large as the one before */

	FbRun	   *runs;
	int			run_count;
	int			run_room;
	uint8	   *block;			/* entries as they are in files */

	/* Reading. */
	Size		next;
	bool		next_is_equal;	/* of those in memory */
	int		   *heap;			/* of runs by their next tuples; the one in memory is number run_count */
	int			heap_count;
	char	   *last;			/* the key given last, to compare with */
	Size		last_room;
	bool		is_first;
} FbSorter;

/* Memory that one sorter leaves to the next: a page that is touched first costs more than to sort what is in it. */
typedef struct FbSpare
{
	uint64	   *memory;
	Size		bytes;
} FbSpare;

extern void fb_sorter_begin(FbSorter *sorter, const FbKeys *keys, Size limit);

/* A row with a packed key. */
extern void fb_sorter_put_packed(FbSorter *sorter, const uint64 *words, ItemPointer row);

/* Room for the next tuple, of at most so many bytes. */
extern char *fb_sorter_room(FbSorter *sorter, Size bytes);

/* A tuple of so many bytes is there, MAXALIGNed, and this is its key. Tuples come in the order of the heap. */
extern void fb_sorter_put(FbSorter *sorter, Size bytes, const uint8 *key, Size key_bytes);

/* All are there. The spare memory must live as long as the sorter. */
extern void fb_sorter_sort(FbSorter *sorter, FbSpare *spare);

/* The next one; false: there is none. */
extern bool fb_sorter_next(FbSorter *sorter, FbSorted *next);

/* Gives back its files and what is large of its memory. */
extern void fb_sorter_end(FbSorter *sorter);

/* radix.c: sorts entries by their words, stably; `scratch` has as much room. */
extern void fb_radix_sort(uint64 *entries, uint64 *scratch, Size count, int words);

#endif							/* FB_SORTER_H */
