/*
 * sorter.c - index tuples in the order of their keys, within so much memory.
 *
 * A key's first word or two are sorted as numbers; keys that are longer are compared further only
 * where these are equal. Equal keys keep the order in which their tuples came.
 */
#include "entries.h"

#include "miscadmin.h"
#include "utils/memutils.h"

/* Groups of equal words that are smaller are sorted by comparing. */
#define SMALL_GROUP 64

/* So are those that are equal for so many bytes, which are not often worth a pass for every eight. */
#define DEEP_BYTES 256

void
fb_sorter_begin(FbSorter *sorter, const FbKeys *keys, Size limit)
{
	memset(sorter, 0, sizeof *sorter);
	sorter->context = CurrentMemoryContext;
	sorter->packed = keys->packed_words > 0;
	sorter->words = sorter->packed ? keys->packed_words
		: keys->bytes_max > sizeof(uint64) ? 2 : 1;
	sorter->has_rest = !sorter->packed
		&& (keys->bytes_max == 0 || keys->bytes_max > FB_WORDS_MAX * sizeof(uint64));
	sorter->limit = limit;
	sorter->in_order = true;
}

/* Up to eight bytes of a key as a number. */
static inline uint64
word_at(const uint8 *key, Size bytes, Size at)
{
	uint64		word = 0;

	if (at + 8 <= bytes)
		memcpy(&word, key + at, 8);
	else if (at < bytes)
		memcpy(&word, key + at, bytes - at);
	return pg_bswap64(word);
}

/* Large memory is moved, not copied, where the kernel can. */
static void *
grow(FbSorter *sorter, void *memory, Size room)
{
	return memory == NULL ? MemoryContextAllocHuge(sorter->context, room)
		: repalloc_huge(memory, room);
}

typedef struct Comparing
{
	const FbSorter *sorter;
	Size		from;
} Comparing;

static int
compare_entries(const void *a, const void *b, void *argument)
{
	const Comparing *by = argument;
	const uint64 *left = a;
	const uint64 *right = b;
	int			order;

	CHECK_FOR_INTERRUPTS();
	order = compare_rests(rest_of(by->sorter, left), rest_of(by->sorter, right), by->from);
	if (order != 0)
		return order;
	/* Where its tuple is, is when it came; none is where another is. */
	return left[by->sorter->words] < right[by->sorter->words] ? -1 : 1;
}

static void sort_rests(FbSorter *sorter, uint64 *entries, Size count, Size from);

/* Sorts a group whose keys are equal before a byte of their rests. */
static void
sort_group(FbSorter *sorter, uint64 *entries, Size count, Size from)
{
	uint64		word = entries[0];
	Size		scratch_at = entries - sorter->entries;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (count < SMALL_GROUP || from >= DEEP_BYTES)
	{
		Comparing	by = {sorter, from};

		qsort_arg(entries, count, ENTRY_BYTES(sorter), compare_entries, &by);
		return;
	}
	/* The next eight bytes take the place of a word that is the same in all. */
	for (Size at = 0; at < count; at++)
	{
		const Rest *rest = rest_of(sorter, entries + at * STRIDE(sorter));

		entries[at * STRIDE(sorter)] = word_at(rest->data, rest->bytes, from);
	}
	fb_radix_sort(entries, sorter->scratch + scratch_at, count, sorter->words);
	sort_rests(sorter, entries, count, from + 8);
	for (Size at = 0; at < count; at++)
		entries[at * STRIDE(sorter)] = word;
}

/* Entries are sorted by their words: what is left to do in groups of equal ones. */
static void
sort_rests(FbSorter *sorter, uint64 *entries, Size count, Size from)
{
	Size		begin = 0;

	for (Size at = 1; at <= count; at++)
	{
		uint64	   *first = entries + begin * STRIDE(sorter);

		if (at < count && has_equal_words(sorter, first, entries + at * STRIDE(sorter)))
			continue;
		/* Of a group whose first key has ended, all have. */
		if (at - begin > 1 && rest_of(sorter, first)->bytes > from)
			sort_group(sorter, first, at - begin, from);
		begin = at;
	}
}

void
fb_sorter_sort_memory(FbSorter *sorter)
{
	if (sorter->in_order || sorter->count < 2)
		return;
	if (sorter->scratch == NULL)
		sorter->scratch = grow(sorter, NULL, sorter->room * ENTRY_BYTES(sorter));
	fb_radix_sort(sorter->entries, sorter->scratch, sorter->count, sorter->words);
	if (sorter->has_rest)
		sort_rests(sorter, sorter->entries, sorter->count, 0);
}

char *
fb_sorter_room(FbSorter *sorter, Size bytes)
{
	if (sorter->used + bytes > sorter->arena_room)
	{
		/* Not beyond the limit, but for what has to be. */
		Size		room = Min(Max(2 * sorter->arena_room, 64 * 1024), sorter->limit);

		room = Max(room, sorter->used + bytes);
		sorter->arena = grow(sorter, sorter->arena, room);
		sorter->arena_room = room;
	}
	return sorter->arena + sorter->used;
}

static void
append_rest(FbSorter *sorter, const uint8 *key, Size key_bytes)
{
	Size		begin = Min(key_bytes, sorter->words * sizeof(uint64));
	Size		bytes = key_bytes - begin;
	Rest	   *rest = (Rest *) fb_sorter_room(sorter, MAXALIGN(offsetof(Rest, data) + bytes));

	rest->bytes = bytes;
	memcpy(rest->data, key + begin, bytes);
	sorter->used += MAXALIGN(offsetof(Rest, data) + bytes);
}

/* Makes room for another entry. */
static inline uint64 *
next_entry(FbSorter *sorter)
{
	if (unlikely(sorter->count == sorter->room))
	{
		Size		room = Max(2 * sorter->room, 2048);

		sorter->entries = grow(sorter, sorter->entries, room * ENTRY_BYTES(sorter));
		sorter->room = room;
		if (sorter->scratch != NULL)
			pfree(sorter->scratch);
		sorter->scratch = NULL;
	}
	return ENTRY(sorter, sorter->count);
}

/* Whether so many entries take the memory that there is. As many again are needed to sort with. */
static inline bool
is_full(const FbSorter *sorter, Size count, bool in_order)
{
	Size		copies = in_order && sorter->packed ? 1 : 2;

	return sorter->used + copies * count * ENTRY_BYTES(sorter) >= sorter->limit;
}

/* Spills what was in order before the entry that is none of it, for which there is no memory to sort. */
static void
spill_before(FbSorter *sorter)
{
	uint64		entry[FB_WORDS_MAX + 1];

	memcpy(entry, ENTRY(sorter, sorter->count), ENTRY_BYTES(sorter));
	sorter->in_order = true;
	fb_runs_spill(sorter);
	/* Half of it is for sorting from now on. */
	pfree(sorter->entries);
	sorter->entries = NULL;
	sorter->room = 0;
	memcpy(next_entry(sorter), entry, ENTRY_BYTES(sorter));
}

/* An entry is there. */
static inline void
end_entry(FbSorter *sorter)
{
	if (sorter->in_order && sorter->count > 0)
	{
		const uint64 *entry = ENTRY(sorter, sorter->count);
		const uint64 *before = entry - STRIDE(sorter);

		if (entry[0] != before[0])
			sorter->in_order = entry[0] > before[0];
		else if (sorter->words > 1 && entry[1] != before[1])
			sorter->in_order = entry[1] > before[1];
		else if (sorter->has_rest)
			sorter->in_order = compare_rests(rest_of(sorter, before), rest_of(sorter, entry), 0)
				<= 0;
		if (unlikely(!sorter->in_order && sorter->packed && is_full(sorter, sorter->count, false)))
			spill_before(sorter);
	}
	sorter->count++;
	if (unlikely(is_full(sorter, sorter->count, sorter->in_order)))
		fb_runs_spill(sorter);
}

void
fb_sorter_put_packed(FbSorter *sorter, const uint64 *words, ItemPointer row)
{
	uint64	   *entry = next_entry(sorter);

	entry[0] = words[0];
	if (sorter->words > 1)
		entry[1] = words[1];
	entry[sorter->words] = (uint64) ItemPointerGetBlockNumber(row) << 16
		| ItemPointerGetOffsetNumber(row);
	end_entry(sorter);
}

void
fb_sorter_put(FbSorter *sorter, Size bytes, const uint8 *key, Size key_bytes)
{
	uint64	   *entry = next_entry(sorter);

	entry[0] = word_at(key, key_bytes, 0);
	if (sorter->words > 1)
		entry[1] = word_at(key, key_bytes, 8);
	entry[sorter->words] = sorter->used;
	sorter->used += bytes;
	if (sorter->has_rest)
		append_rest(sorter, key, key_bytes);
	end_entry(sorter);
}

void
fb_sorter_sort(FbSorter *sorter, FbSpare *spare)
{
	Size		bytes = sorter->room * ENTRY_BYTES(sorter);

	if (sorter->scratch == NULL && spare->bytes >= bytes)
	{
		sorter->scratch = spare->memory;
		spare->memory = NULL;
		spare->bytes = 0;
	}
	fb_sorter_sort_memory(sorter);
	if (sorter->scratch != NULL && spare->memory == NULL)
	{
		spare->memory = sorter->scratch;
		spare->bytes = bytes;
	}
	else if (sorter->scratch != NULL)
		pfree(sorter->scratch);
	sorter->scratch = NULL;
	sorter->next = 0;
	sorter->next_is_equal = false;
	sorter->is_first = true;
	if (sorter->run_count > 0)
		fb_runs_begin(sorter);
}

/* From memory alone. */
static bool
next_in_memory(FbSorter *sorter, FbSorted *next)
{
	/* Tuples are read in the order of keys, which is none in memory. */
	enum {AHEAD = 12};
	const uint64 *entry = ENTRY(sorter, sorter->next);
	const uint64 *after = entry + STRIDE(sorter);

	if (sorter->next == sorter->count)
		return false;
	if (!sorter->packed && sorter->next + AHEAD < sorter->count)
		__builtin_prefetch(tuple_of(sorter, entry + AHEAD * STRIDE(sorter)));
	give(next, sorter, entry, sorter->packed ? NULL : tuple_of(sorter, entry));
	next->is_equal = sorter->next_is_equal;
	sorter->next_is_equal = ++sorter->next < sorter->count
		&& has_equal_words(sorter, entry, after)
		&& (!sorter->has_rest
			|| compare_rests(rest_of(sorter, entry), rest_of(sorter, after), 0) == 0);
	next->is_single = !next->is_equal && !sorter->next_is_equal;
	return true;
}

bool
fb_sorter_next(FbSorter *sorter, FbSorted *next)
{
	return sorter->run_count == 0 ? next_in_memory(sorter, next) : fb_runs_next(sorter, next);
}

void
fb_sorter_end(FbSorter *sorter)
{
	fb_runs_end(sorter);
	if (sorter->entries != NULL)
		pfree(sorter->entries);
	if (sorter->arena != NULL)
		pfree(sorter->arena);
	memset(sorter, 0, sizeof *sorter);
}
