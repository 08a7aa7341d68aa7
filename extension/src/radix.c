/*
 * radix.c - sorts entries by their leading words, from the first digit to the last.
 *
 * Entries are parted by the first bits in which they differ, and each part is sorted alone: soon it fits the
 * caches, and random keys need but two or three passes, whatever their length. Each pass is stable, and so is what
 * sorts the small parts, so entries of equal words stay in the order in which they came, which is that of the heap.
 */
#include "sorter.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"

/* So many places to write to at a time at most: each is in a page of its own. */
#define BITS_MAX 10
/* Parts of less than this are sorted by insertion. */
#define FEW 24

typedef void (*SortPart) (uint64 *from, uint64 *other, Size count, bool into_other);

static inline bool
is_less(const uint64 *left, const uint64 *right, const int words)
{
	if (words == 1 || left[0] != right[0])
		return left[0] < right[0];
	return left[1] < right[1];
}

static inline void
insert(uint64 *entries, Size count, const int words)
{
	const int	stride = words + 1;

	for (Size at = 1; at < count; at++)
	{
		uint64	   *place = entries + at * stride;
		uint64		entry[3];

		if (!is_less(place, place - stride, words))
			continue;
		memcpy(entry, place, stride * sizeof(uint64));
		do
		{
			memcpy(place, place - stride, stride * sizeof(uint64));
			place -= stride;
		} while (place > entries && is_less(entry, place - stride, words));
		memcpy(place, entry, stride * sizeof(uint64));
	}
}

/* Sorts entries, and leaves them where they are or in other memory of the same size. */
static inline void __attribute__((always_inline))
sort_part(uint64 *from, uint64 *other, Size count, bool into_other, const int words, SortPart self)
{
	const int	stride = words + 1;
	uint64		differing[2] = {0, 0};
	Size		few_places[256];
	Size	   *places = few_places;
	int			word = 0;
	int			high;
	int			shift;
	int			bits;
	uint64		mask;
	Size		sum = 0;

	if (count < FEW)
	{
		insert(from, count, words);
		if (into_other)
			memcpy(other, from, count * stride * sizeof(uint64));
		return;
	}
	for (Size at = 1; at < count; at++)
		for (int number = 0; number < words; number++)
			differing[number] |= from[at * stride + number] ^ from[number];
	if (differing[0] == 0)
		word = words - 1;
	if (differing[word] == 0)
	{
		if (into_other)
			memcpy(other, from, count * stride * sizeof(uint64));
		return;
	}
	high = pg_leftmost_one_pos64(differing[word]) + 1;
	/* So that parts of random keys are small enough to be sorted by insertion, if they can be. */
	bits = Min(BITS_MAX, pg_leftmost_one_pos64(count) - 2);
	bits = Min(bits, high - pg_rightmost_one_pos64(differing[word]));
	shift = high - bits;
	mask = (UINT64CONST(1) << bits) - 1;
	if (bits > 8)
	{
		check_stack_depth();
		CHECK_FOR_INTERRUPTS();
		places = palloc((mask + 1) * sizeof(Size));
	}
	memset(places, 0, (mask + 1) * sizeof(Size));
	for (Size at = 0; at < count; at++)
		places[from[at * stride + word] >> shift & mask]++;
	for (uint64 digit = 0; digit <= mask; digit++)
	{
		Size		here = places[digit];

		places[digit] = sum;
		sum += here;
	}
	for (Size at = 0; at < count; at++)
	{
		const uint64 *entry = from + at * stride;
		uint64	   *to = other + places[entry[word] >> shift & mask]++ * stride;

		for (int part = 0; part < stride; part++)
			to[part] = entry[part];
	}
	/* Each place is where its part ends by now. */
	for (uint64 digit = 0; digit <= mask; digit++)
	{
		Size		begin = digit == 0 ? 0 : places[digit - 1];

		if (places[digit] > begin)
			self(other + begin * stride, from + begin * stride, places[digit] - begin, !into_other);
	}
	if (places != few_places)
		pfree(places);
}

static void
sort_1(uint64 *from, uint64 *other, Size count, bool into_other)
{
	sort_part(from, other, count, into_other, 1, sort_1);
}

static void
sort_2(uint64 *from, uint64 *other, Size count, bool into_other)
{
	sort_part(from, other, count, into_other, 2, sort_2);
}

void
fb_radix_sort(uint64 *entries, uint64 *scratch, Size count, int words)
{
	if (words == 1)
		sort_1(entries, scratch, count, false);
	else
		sort_2(entries, scratch, count, false);
}
