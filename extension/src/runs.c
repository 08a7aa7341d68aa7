/*
 * runs.c - what does not fit into memory: sorted parts in temporary files, merged in the end.
 *
 * Parts are in the order of the heap, and so are equal keys of different ones.
 */
#include "entries.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* A run's record begins with these. */
typedef struct Record
{
	uint64		words[FB_WORDS_MAX];
	Size		bytes;			/* of the tuple and the rest behind it */
	char		tuple[FLEXIBLE_ARRAY_MEMBER];
} Record;

#define RECORD_HEADER offsetof(Record, tuple)

static Size
record_bytes(const FbSorter *sorter, const char *tuple)
{
	Size		bytes = MAXALIGN(IndexTupleSize((IndexTuple) tuple));

	return sorter->has_rest
		? bytes + MAXALIGN(offsetof(Rest, data) + rest_behind(tuple)->bytes) : bytes;
}

/* Entries of packed keys that are written, and read, at once. */
#define BLOCK_ENTRIES 1024

static void
write_entries(FbSorter *sorter, BufFile *file)
{
	if (sorter->block == NULL)
		sorter->block = palloc((BLOCK_ENTRIES + 2) * FB_DELTAS_ENTRY_MAX);
	for (Size at = 0; at < sorter->count; at += BLOCK_ENTRIES)
	{
		uint32		bytes = fb_deltas_write(ENTRY(sorter, at), Min(sorter->count - at, BLOCK_ENTRIES),
											sorter->words, sorter->block);

		BufFileWrite(file, &bytes, sizeof bytes);
		BufFileWrite(file, sorter->block, bytes);
	}
}

static void
read_entries(FbSorter *sorter, FbRun *run)
{
	uint32		bytes;

	FbReadFile(run->file, &bytes, sizeof bytes);
	if (bytes > BLOCK_ENTRIES * FB_DELTAS_ENTRY_MAX)
		fb_deltas_refuse();
	FbReadFile(run->file, sorter->block, bytes);
	fb_deltas_read(sorter->block, bytes, sorter->words, (uint64 *) run->record, run->have);
}

void
fb_runs_spill(FbSorter *sorter)
{
	MemoryContext previous = MemoryContextSwitchTo(sorter->context);
	ResourceOwner owner = CurrentResourceOwner;
	FbRun	   *run;

	fb_sorter_sort_memory(sorter);
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
		write_entries(sorter, run->file);
	for (Size at = 0; at < sorter->count && !sorter->packed; at++)
	{
		const uint64 *entry = ENTRY(sorter, at);
		const char *tuple = tuple_of(sorter, entry);
		Record		header = {0};

		memcpy(header.words, entry, sorter->words * sizeof(uint64));
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

/* Goes to the next entry of a run; false: there is none. */
static bool
read_entry(FbSorter *sorter, FbRun *run)
{
	if (run->record == NULL)
		run->record = MemoryContextAlloc(sorter->context, BLOCK_ENTRIES * ENTRY_BYTES(sorter));
	else if (++run->at < run->have)
		return true;
	if (run->left == 0)
		return false;
	run->at = 0;
	run->have = Min(run->left, BLOCK_ENTRIES);
	run->left -= run->have;
	read_entries(sorter, run);
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
fb_runs_begin(FbSorter *sorter)
{
	sorter->heap = MemoryContextAlloc(sorter->context, (sorter->run_count + 1) * sizeof(int));
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

bool
fb_runs_next(FbSorter *sorter, FbSorted *next)
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
	next->is_equal = next->is_single = false;
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

void
fb_runs_end(FbSorter *sorter)
{
	for (int part = 0; part < sorter->run_count; part++)
		BufFileClose(sorter->runs[part].file);
	if (sorter->block != NULL)
		pfree(sorter->block);
}
