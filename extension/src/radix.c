/*
 * radix.c - sorts entries by their leading words, from the last byte to the first.
 *
 * Each pass is stable, so entries of equal words stay in the order in which they came, which is that of
 * the heap. A byte that is the same in all entries takes no pass.
 */
#include "sorter.h"

#define DIGITS 256

static inline uint64 * __attribute__((always_inline))
sort_by(uint64 *entries, uint64 *scratch, Size count, const int words)
{
	const int	stride = words + 1;
	Size	   *counts = palloc0((Size) words * 8 * DIGITS * sizeof(Size));

	for (Size at = 0; at < count; at++)
		for (int word = 0; word < words; word++)
		{
			uint64		value = entries[at * stride + word];
			Size	   *of_word = counts + (Size) word * 8 * DIGITS;

			for (int byte = 0; byte < 8; byte++)
				of_word[byte * DIGITS + ((value >> (8 * byte)) & 0xff)]++;
		}
	for (int word = words - 1; word >= 0; word--)
		for (int byte = 0; byte < 8; byte++)
		{
			Size	   *places = counts + ((Size) word * 8 + byte) * DIGITS;
			int			shift = 8 * byte;
			Size		sum = 0;
			uint64	   *from = entries;

			if (places[(entries[word] >> shift) & 0xff] == count)
				continue;
			for (int digit = 0; digit < DIGITS; digit++)
			{
				Size		here = places[digit];

				places[digit] = sum;
				sum += here;
			}
			for (Size at = 0; at < count; at++, from += stride)
			{
				uint64	   *to = scratch + places[(from[word] >> shift) & 0xff]++ * stride;

				for (int part = 0; part < stride; part++)
					to[part] = from[part];
			}
			from = entries;
			entries = scratch;
			scratch = from;
		}
	pfree(counts);
	return entries;
}

uint64 *
fb_radix_sort(uint64 *entries, uint64 *scratch, Size count, int words)
{
	if (count < 2)
		return entries;
	return words == 1 ? sort_by(entries, scratch, count, 1) : sort_by(entries, scratch, count, 2);
}
