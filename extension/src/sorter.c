/*
 * sorter.c - index tuples in the order of their keys, within so much memory.
 *
 * A key's first word or two are sorted as numbers; keys that are longer are compared further only
 * where these are equal. Equal keys keep the order in which their tuples came. What does not
 * fit into memory is sorted in parts, which are written to temporary files and merged in the end; parts, too,
 * are in the order of the heap.
 */
#include "sorter.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* Groups of equal words that are smaller are sorted by comparing. */
#define SMALL_GROUP 64

/* In the arena and in files, behind a tuple whose key has a rest. */
typedef struct Rest
{
	uint32		bytes;
	uint8		data[FLEXIBLE_ARRAY_MEMBER];
} Rest;

/* A run's record begins with these. */
typedef struct Record
{
	uint64		words[FB_WORDS_MAX];
	uint32		bytes;			/* of the tuple and the rest behind it */
	uint32		tuple_bytes;
	char		tuple[FLEXIBLE_ARRAY_MEMBER];
} Record;

#define RECORD_HEADER offsetof(Record, tuple)

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

/* None of two different keys begins the other. */
static int
compare_rests(const Rest *a, const Rest *b, Size from)
{
	Size		bytes = Min(a->bytes, b->bytes);

	return from >= bytes ? 0 : memcmp(a->data + from, b->data + from, bytes - from);
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
	int			order = compare_rests(rest_of(by->sorter, left), rest_of(by->sorter, right),
									  by->from);

	if (order != 0)
		return order;
	/* Where its tuple is, is when it came. */
	return left[by->sorter->words] < right[by->sorter->words] ? -1 : 1;
}

static bool
has_equal_words(const FbSorter *sorter, const uint64 *a, const uint64 *b)
{
	return a[0] == b[0] && (sorter->words == 1 || a[1] == b[1]);
}

static void sort_rests(FbSorter *sorter, uint64 *entries, Size count, Size from);

/* Sorts a group whose keys are equal before a byte of their rests. */
static void
sort_group(FbSorter *sorter, uint64 *entries, Size count, Size from)
{
	uint64		word = entries[0];
	Size		scratch_at = entries - sorter->entries;
	uint64	   *sorted;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (count < SMALL_GROUP)
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
	sorted = fb_radix_sort(entries, sorter->scratch + scratch_at, count, sorter->words);
	if (sorted != entries)
		memcpy(entries, sorted, count * ENTRY_BYTES(sorter));
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

static void
sort_memory(FbSorter *sorter)
{
	uint64	   *sorted;

	if (sorter->in_order || sorter->count < 2)
		return;
	if (sorter->scratch == NULL)
		sorter->scratch = grow(sorter, NULL, sorter->room * ENTRY_BYTES(sorter));
	sorted = fb_radix_sort(sorter->entries, sorter->scratch, sorter->count, sorter->words);
	if (sorted != sorter->entries)
	{
		sorter->scratch = sorter->entries;
		sorter->entries = sorted;
	}
	if (sorter->has_rest)
		sort_rests(sorter, sorter->entries, sorter->count, 0);
}

static Size
record_bytes(const FbSorter *sorter, const char *tuple)
{
	Size		bytes = MAXALIGN(IndexTupleSize((IndexTuple) tuple));

	return sorter->has_rest
		? bytes + MAXALIGN(offsetof(Rest, data) + rest_behind(tuple)->bytes) : bytes;
}

/* Writes what is in memory to a file, sorted. */
static void
spill(FbSorter *sorter)
{
	MemoryContext previous = MemoryContextSwitchTo(sorter->context);
	ResourceOwner owner = CurrentResourceOwner;
	FbRun	   *run;

	sort_memory(sorter);
	if (sorter->run_count == sorter->run_room)
	{
		sorter->run_room = Max(16, 2 * sorter->run_room);
		sorter->runs = sorter->runs == NULL
			? palloc(sorter->run_room * sizeof(FbRun))
			: repalloc(sorter->runs, sorter->run_room * sizeof(FbRun));
	}
	run = &sorter->runs[sorter->run_count++];
	memset(run, 0, sizeof *run);
	/* It outlives the statement. */
	CurrentResourceOwner = CurTransactionResourceOwner;
	run->file = BufFileCreateTemp(false);
	run->left = sorter->count;
	if (sorter->packed)
		BufFileWrite(run->file, sorter->entries, sorter->count * ENTRY_BYTES(sorter));
	for (Size at = 0; at < sorter->count && !sorter->packed; at++)
	{
		const uint64 *entry = ENTRY(sorter, at);
		const char *tuple = tuple_of(sorter, entry);
		Record		header = {0};

		memcpy(header.words, entry, sorter->words * sizeof(uint64));
		header.tuple_bytes = IndexTupleSize((IndexTuple) tuple);
		header.bytes = record_bytes(sorter, tuple);
		BufFileWrite(run->file, &header, RECORD_HEADER);
		BufFileWrite(run->file, unconstify(char *, tuple), header.bytes);
	}
	CurrentResourceOwner = owner;
	sorter->count = 0;
	sorter->used = 0;
	sorter->in_order = true;
	MemoryContextSwitchTo(previous);
	CHECK_FOR_INTERRUPTS();
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

/* As many entries again are needed to sort with. */
static inline void
end_entry(FbSorter *sorter)
{
	sorter->count++;
	if (unlikely(sorter->used + 2 * sorter->count * ENTRY_BYTES(sorter) >= sorter->limit))
		spill(sorter);
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
	if (sorter->in_order && sorter->count > 0)
	{
		const uint64 *before = entry - STRIDE(sorter);

		sorter->in_order = entry[0] != before[0] ? entry[0] > before[0]
			: sorter->words == 1 || entry[1] >= before[1];
	}
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
	if (sorter->in_order && sorter->count > 0)
	{
		const uint64 *before = entry - STRIDE(sorter);

		if (entry[0] != before[0])
			sorter->in_order = entry[0] > before[0];
		else if (sorter->words > 1 && entry[1] != before[1])
			sorter->in_order = entry[1] > before[1];
		else if (sorter->has_rest)
			sorter->in_order = compare_rests(rest_of(sorter, before), rest_of(sorter, entry), 0)
				<= 0;
	}
	end_entry(sorter);
}

/* Entries that are read at once. */
#define READ_ENTRIES 1024

/* Goes to the next entry of a run; false: there is none. */
static bool
read_entry(FbSorter *sorter, FbRun *run)
{
	if (run->record == NULL)
		run->record = MemoryContextAlloc(sorter->context, READ_ENTRIES * ENTRY_BYTES(sorter));
	else if (++run->at < run->have)
		return true;
	if (run->left == 0)
		return false;
	run->at = 0;
	run->have = Min(run->left, READ_ENTRIES);
	run->left -= run->have;
	FbReadFile(run->file, run->record, run->have * ENTRY_BYTES(sorter));
	return true;
}

/* Reads the next record of a run; false: there is none. */
static bool
read_record(FbSorter *sorter, FbRun *run)
{
	Record		header;

	if (sorter->packed)
		return read_entry(sorter, run);
	if (run->left == 0)
		return false;
	run->left--;
	FbReadFile(run->file, &header, RECORD_HEADER);
	if (RECORD_HEADER + header.bytes > run->room)
	{
		run->room = Max(1024, 2 * (RECORD_HEADER + header.bytes));
		if (run->record != NULL)
			pfree(run->record);
		run->record = MemoryContextAlloc(sorter->context, run->room);
	}
	memcpy(run->record, &header, RECORD_HEADER);
	FbReadFile(run->file, run->record + RECORD_HEADER, header.bytes);
	return true;
}

/* The next tuple of a part and its words; NULL where keys are packed. */
static const char *
tuple_at(const FbSorter *sorter, int part, const uint64 **words)
{
	if (sorter->packed)
	{
		const FbRun *run = &sorter->runs[part];

		*words = part < sorter->run_count
			? (const uint64 *) run->record + run->at * STRIDE(sorter)
			: ENTRY(sorter, sorter->next);
		return NULL;
	}
	if (part < sorter->run_count)
	{
		Record	   *record = (Record *) sorter->runs[part].record;

		*words = record->words;
		return record->tuple;
	}
	*words = ENTRY(sorter, sorter->next);
	return tuple_of(sorter, *words);
}

static bool
is_before(const FbSorter *sorter, int a, int b)
{
	const uint64 *left;
	const uint64 *right;
	const char *left_tuple = tuple_at(sorter, a, &left);
	const char *right_tuple = tuple_at(sorter, b, &right);

	for (int word = 0; word < sorter->words; word++)
		if (left[word] != right[word])
			return left[word] < right[word];
	if (sorter->has_rest)
	{
		int			order = compare_rests(rest_behind(left_tuple), rest_behind(right_tuple), 0);

		if (order != 0)
			return order < 0;
	}
	/* Parts are in the order of the heap. */
	return a < b;
}

static void
sift_down(FbSorter *sorter, int at)
{
	int		   *heap = sorter->heap;

	for (;;)
	{
		int			child = 2 * at + 1;
		int			part = heap[at];

		if (child >= sorter->heap_count)
			return;
		if (child + 1 < sorter->heap_count && is_before(sorter, heap[child + 1], heap[child]))
			child++;
		if (!is_before(sorter, heap[child], part))
			return;
		heap[at] = heap[child];
		heap[child] = part;
		at = child;
	}
}

void
fb_sorter_sort(FbSorter *sorter)
{
	MemoryContext previous = MemoryContextSwitchTo(sorter->context);

	sort_memory(sorter);
	if (sorter->scratch != NULL)
		pfree(sorter->scratch);
	sorter->scratch = NULL;
	sorter->next = 0;
	sorter->is_first = true;
	if (sorter->run_count > 0)
	{
		sorter->heap = palloc((sorter->run_count + 1) * sizeof(int));
		for (int part = 0; part < sorter->run_count; part++)
		{
			if (BufFileSeek(sorter->runs[part].file, 0, 0, SEEK_SET) != 0)
				elog(ERROR, "could not rewind a temporary file");
			if (read_record(sorter, &sorter->runs[part]))
				sorter->heap[sorter->heap_count++] = part;
		}
		if (sorter->count > 0)
			sorter->heap[sorter->heap_count++] = sorter->run_count;
		for (int at = sorter->heap_count / 2 - 1; at >= 0; at--)
			sift_down(sorter, at);
	}
	MemoryContextSwitchTo(previous);
}

static inline void
give(FbSorted *next, const FbSorter *sorter, const uint64 *words, const char *tuple)
{
	next->words = words;
	next->tuple = (IndexTuple) unconstify(char *, tuple);
	if (sorter->packed)
		ItemPointerSet(&next->row, words[sorter->words] >> 16, words[sorter->words] & 0xffff);
}

/* From memory alone. */
static bool
next_in_memory(FbSorter *sorter, FbSorted *next)
{
	/* Tuples are read in the order of keys, which is none in memory. */
	enum {AHEAD = 12};
	const uint64 *entry = ENTRY(sorter, sorter->next);
	const uint64 *before = entry - STRIDE(sorter);

	if (sorter->next == sorter->count)
		return false;
	if (!sorter->packed && sorter->next + AHEAD < sorter->count)
		__builtin_prefetch(tuple_of(sorter, entry + AHEAD * STRIDE(sorter)));
	give(next, sorter, entry, sorter->packed ? NULL : tuple_of(sorter, entry));
	next->is_equal = sorter->next > 0 && has_equal_words(sorter, before, entry)
		&& (!sorter->has_rest
			|| compare_rests(rest_of(sorter, before), rest_of(sorter, entry), 0) == 0);
	sorter->next++;
	return true;
}

/* Keeps a key, to compare the next one with. */
static void
keep_key(FbSorter *sorter, const uint64 *words, const char *tuple)
{
	const Rest *rest = sorter->has_rest ? rest_behind(tuple) : NULL;
	Size		bytes = RECORD_HEADER + (rest == NULL ? 0 : offsetof(Rest, data) + rest->bytes);
	Record	   *kept;

	if (bytes > sorter->last_room)
	{
		sorter->last_room = Max(256, 2 * bytes);
		if (sorter->last != NULL)
			pfree(sorter->last);
		sorter->last = MemoryContextAlloc(sorter->context, sorter->last_room);
	}
	kept = (Record *) sorter->last;
	memcpy(kept->words, words, sorter->words * sizeof(uint64));
	if (rest != NULL)
		memcpy(kept->tuple, rest, offsetof(Rest, data) + rest->bytes);
}

static bool
next_of_parts(FbSorter *sorter, FbSorted *next)
{
	const uint64 *words;
	const char *tuple;
	int			part;

	if (sorter->heap_count == 0)
		return false;
	if (!sorter->is_first)
	{
		/* The one that was given last is not needed any more. */
		part = sorter->heap[0];
		tuple = tuple_at(sorter, part, &words);
		keep_key(sorter, words, tuple);
		if (part < sorter->run_count ? !read_record(sorter, &sorter->runs[part])
			: ++sorter->next == sorter->count)
			sorter->heap[0] = sorter->heap[--sorter->heap_count];
		if (sorter->heap_count == 0)
			return false;
		sift_down(sorter, 0);
	}
	tuple = tuple_at(sorter, sorter->heap[0], &words);
	give(next, sorter, words, tuple);
	next->is_equal = false;
	if (!sorter->is_first)
	{
		const Record *kept = (const Record *) sorter->last;

		next->is_equal = has_equal_words(sorter, kept->words, words)
			&& (!sorter->has_rest
				|| compare_rests((const Rest *) kept->tuple, rest_behind(tuple), 0) == 0);
	}
	sorter->is_first = false;
	return true;
}

bool
fb_sorter_next(FbSorter *sorter, FbSorted *next)
{
	return sorter->run_count == 0 ? next_in_memory(sorter, next) : next_of_parts(sorter, next);
}

void
fb_sorter_end(FbSorter *sorter)
{
	for (int part = 0; part < sorter->run_count; part++)
		BufFileClose(sorter->runs[part].file);
	if (sorter->entries != NULL)
		pfree(sorter->entries);
	if (sorter->arena != NULL)
		pfree(sorter->arena);
	memset(sorter, 0, sizeof *sorter);
}
