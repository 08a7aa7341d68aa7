/*
 * entries.h - what the rooms of the sorter know of an entry.
 */
#ifndef FB_ENTRIES_H
#define FB_ENTRIES_H

#include "sorter.h"

/* In the arena and in files, behind a tuple whose key has a rest. */
typedef struct Rest
{
	uint32		bytes;
	uint8		data[FLEXIBLE_ARRAY_MEMBER];
} Rest;

#define STRIDE(sorter) ((sorter)->words + 1)
#define ENTRY(sorter, at) ((sorter)->entries + (at) * STRIDE(sorter))
#define ENTRY_BYTES(sorter) (STRIDE(sorter) * sizeof(uint64))

static inline char *
tuple_of(const FbSorter *sorter, const uint64 *entry)
{
	return sorter->arena + entry[sorter->words];
}

static inline Rest *
rest_behind(const char *tuple)
{
	return (Rest *) (tuple + MAXALIGN(IndexTupleSize((IndexTuple) tuple)));
}

static inline Rest *
rest_of(const FbSorter *sorter, const uint64 *entry)
{
	return rest_behind(tuple_of(sorter, entry));
}

/* None of two different keys begins the other. */
static inline int
compare_rests(const Rest *a, const Rest *b, Size from)
{
	Size		bytes = Min(a->bytes, b->bytes);

	return from >= bytes ? 0 : memcmp(a->data + from, b->data + from, bytes - from);
}

static inline bool
has_equal_words(const FbSorter *sorter, const uint64 *a, const uint64 *b)
{
	return a[0] == b[0] && (sorter->words == 1 || a[1] == b[1]);
}

/* What is given back of an entry. */
static inline void
give(FbSorted *next, const FbSorter *sorter, const uint64 *words, const char *tuple)
{
	next->words = words;
	next->tuple = (IndexTuple) unconstify(char *, tuple);
	if (sorter->packed)
		ItemPointerSet(&next->row, words[sorter->words] >> 16, words[sorter->words] & 0xffff);
}

/* sorter.c: sorts what is in memory. */
extern void fb_sorter_sort_memory(FbSorter *sorter);

/* deltas.c: sorted entries of packed keys in fewer bytes, each of at most so many; to read, room for two more. */
#define FB_DELTAS_ENTRY_MAX (FB_WORDS_MAX + (FB_WORDS_MAX + 1) * 8)
extern void FB_NORETURN fb_deltas_refuse(void);
extern Size fb_deltas_write(const uint64 *entries, Size count, int words, uint8 *to);
extern void fb_deltas_read(const uint8 *from, Size bytes, int words, uint64 *entries, Size count);

/* runs.c: writes what is in memory to a file, sorted. */
extern void fb_runs_spill(FbSorter *sorter);

/* Merges the files and what is left in memory, sorted. */
extern void fb_runs_begin(FbSorter *sorter);
extern bool fb_runs_next(FbSorter *sorter, FbSorted *next);

extern void fb_runs_end(FbSorter *sorter);

#endif							/* FB_ENTRIES_H */
