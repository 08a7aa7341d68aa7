/*
 * fuzz_validate.c - the validator alone under libFuzzer (make -C extension/fuzz run).
 *
 * The first bytes choose the columns, the rest is one body. What is checked beside memory: the
 * fast paths never say yes where the slow ones say no, and a body that is taken can be walked
 * the way the server's heap_deform_tuple walks it, ending exactly at its end.
 */
#include "../src/validate.h"
#include "../src/validate_fast.h"

#include <stdio.h>
#include <stdlib.h>

#define COLUMNS_MAX 24

static const uint32_t labels[] = {16385, 16387, 0x80000001};
static const uint8_t lengths[] = {0, 1, 2, 4, 8, 16, 4, 8, 8, 4};
static const uint8_t aligns[] = {1, 1, 2, 4, 8, 1, 4, 8, 8, 4, 4, 4, 4, 4, 4, 4};

static int
characters(void *argument, const char *text, int bytes)
{
	(void) argument;
	for (int at = 0; at < bytes; at++)
		if (text[at] == 0)
			return -1;
	return bytes;
}

static FbColumn
column_of(uint8_t choice, uint8_t modifier)
{
	FbColumn	column = {0};

	column.form = choice % 16;
	column.align = aligns[column.form];
	column.not_null = (choice & 0x10) != 0;
	column.plain = (choice & 0x20) != 0;
	column.limited = (choice & 0x40) != 0;
	column.limit = modifier % 64;
	column.precision = modifier % 40 + 1;
	column.scale = modifier / 40 - 1;
	column.unit = column.limited ? 1000 : 1;
	column.labels = labels;
	column.label_count = sizeof labels / sizeof labels[0];
	fb_prepare_column(&column);
	return column;
}

static void
demand(bool holds, const char *what)
{
	if (!holds)
	{
		fprintf(stderr, "broken: %s\n", what);
		abort();
	}
}

/* As heap_deform_tuple() does, trusting every length. */
static void
deform(const FbLayout *layout, const uint8_t *body, uint32_t length, bool has_bitmap)
{
	uint32_t	data_at = has_bitmap ? layout->data_bitmap_at : layout->data_plain_at;
	const uint8_t *data = body + data_at;
	uint32_t	size = length - data_at;
	uint32_t	at = 0;

	for (int number = 0; number < layout->column_count; number++)
	{
		const FbColumn *column = &layout->columns[number];
		const uint8_t *value;
		uint32_t	bytes;
		bool		varlena = column->form >= FB_TEXT;

		if (has_bitmap && !(body[number / 8] & (1 << number % 8)))
			continue;
		if (!varlena || data[at] == 0)
			at = (at + column->align - 1) & ~((uint32_t) column->align - 1);
		demand(at < size, "a value begins behind the end");
		if (!varlena)
		{
			at += lengths[column->form];
			demand(at <= size, "a value ends behind the end");
			continue;
		}
		if (data[at] & 1)
		{
			bytes = (data[at] >> 1) - 1;
			value = data + at + 1;
			at += bytes + 1;
		}
		else
		{
			bytes = (fb_load_32(data + at) >> 2) - 4;
			value = data + at + 4;
			at += bytes + 4;
		}
		demand(at <= size, "a value ends behind the end");
		if (column->form == FB_NUMERIC)
			demand(fb_validate_numeric(column, value, bytes) == NULL, "fast and slow numeric");
		else if (column->form != FB_BYTEA)
			demand(fb_validate_text(layout, column, value, bytes) == NULL, "fast and slow text");
	}
	demand(at == size, "the values end before the body");
}

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FbColumn	columns[COLUMNS_MAX];
	FbLayout	layout = {0};
	FbVerdict	verdict = {0};
	uint8_t		flags;
	uint8_t    *body;
	size_t		used;

	if (size < 2)
		return 0;
	flags = data[0];
	layout.column_count = data[1] % (COLUMNS_MAX + 1);
	used = 2 + 2 * (size_t) layout.column_count;
	if (size < used || size - used > 0x7fff)
		return 0;
	for (int number = 0; number < layout.column_count; number++)
		columns[number] = column_of(data[2 + 2 * number], data[3 + 2 * number]);
	layout.columns = columns;
	layout.body_bytes_max = 8137;
	layout.data_plain_at = 1;
	layout.data_bitmap_at = (23 + (layout.column_count + 7) / 8 + 7) / 8 * 8 - 23;
	layout.encoding = flags % 3;
	layout.characters = characters;
	layout.range_column = layout.column_count == 0 ? -1 : (flags >> 2) % layout.column_count;
	layout.range_has_from = flags >> 6 & 1;
	layout.range_from = -1000;

	fb_prepare_layout(&layout);

	/* A block of its own, so that the first byte behind it is noticed. */
	body = malloc(size - used);
	memcpy(body, data + used, size - used);
	if (fb_validate(&layout, body, size - used, flags >> 7, &verdict))
		deform(&layout, body, size - used, flags >> 7);
	else
		demand(verdict.problem != FB_FINE && verdict.reason != NULL, "a refusal without a reason");
	free(body);
	return 0;
}
