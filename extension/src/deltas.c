/*
 * deltas.c - sorted entries of packed keys, written as what each adds to the one before.
 *
 * Keys that are sorted lie close together, and the rows of keys that came in order follow each other:
 * half of an entry's bytes, and more, need not be written. An entry is a control of four bits for each of
 * its numbers, how many bytes it takes, and these bytes, low ones first.
 */
#include "entries.h"

#include "port/pg_bitutils.h"

#define CONTROL_BYTES(words) (words)

StaticAssertDecl(FB_DELTAS_ENTRY_MAX == CONTROL_BYTES(FB_WORDS_MAX) + (FB_WORDS_MAX + 1) * 8,
				 "every number of an entry may take eight bytes");

/* Small numbers of either sign as small ones. */
static inline uint64
fold(uint64 difference)
{
	return difference << 1 ^ (uint64) ((int64) difference >> 63);
}

static inline uint64
unfold(uint64 folded)
{
	return folded >> 1 ^ -(folded & 1);
}

static inline uint8 *
write_number(uint8 *at, uint64 number, int which, uint32 *control)
{
	int			bytes = number == 0 ? 0 : pg_leftmost_one_pos64(number) / 8 + 1;

#ifdef WORDS_BIGENDIAN
	number = pg_bswap64(number);
#endif
	memcpy(at, &number, 8);
	*control |= bytes << 4 * which;
	return at + bytes;
}

void
fb_deltas_refuse(void)
{
	elog(ERROR, "a temporary file does not contain what was written");
}

static inline const uint8 *
read_number(const uint8 *at, uint64 *number, int which, uint32 control)
{
	int			bytes = control >> 4 * which & 15;

	memcpy(number, at, 8);
#ifdef WORDS_BIGENDIAN
	*number = pg_bswap64(*number);
#endif
	if (unlikely(bytes > 8))
		fb_deltas_refuse();
	*number = bytes == 0 ? 0 : *number & (~UINT64CONST(0) >> (64 - 8 * bytes));
	return at + bytes;
}

/* Only the first word never becomes smaller. */
Size
fb_deltas_write(const uint64 *entries, Size count, int words, uint8 *to)
{
	uint64		before[FB_WORDS_MAX + 1] = {0};
	uint8	   *at = to;

	for (Size entry = 0; entry < count; entry++, entries += words + 1)
	{
		uint8	   *begin = at;
		uint32		control = 0;

		at += CONTROL_BYTES(words);
		for (int which = 0; which <= words; which++)
		{
			uint64		added = entries[which] - before[which];

			at = write_number(at, which == 0 ? added : fold(added), which, &control);
		}
		begin[0] = control;
		if (words > 1)
			begin[1] = control >> 8;
		memcpy(before, entries, (words + 1) * sizeof(uint64));
	}
	return at - to;
}

void
fb_deltas_read(const uint8 *from, Size bytes, int words, uint64 *entries, Size count)
{
	uint64		before[FB_WORDS_MAX + 1] = {0};
	const uint8 *at = from;

	for (Size entry = 0; entry < count; entry++, entries += words + 1)
	{
		uint32		control;

		if (unlikely(at >= from + bytes))
			fb_deltas_refuse();
		control = at[0] | (words > 1 ? (uint32) at[1] << 8 : 0);
		at += CONTROL_BYTES(words);
		for (int which = 0; which <= words; which++)
		{
			uint64		added;

			at = read_number(at, &added, which, control);
			before[which] += which == 0 ? added : unfold(added);
		}
		memcpy(entries, before, (words + 1) * sizeof(uint64));
	}
	if (at != from + bytes)
		fb_deltas_refuse();
}
