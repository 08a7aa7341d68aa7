/*
 * validate.c - walks a body column by column.
 *
 * What is refused here could otherwise make the server read past the end of a tuple, or hold a
 * value that no input function would have let in. So the rule is: only what heap_fill_tuple would
 * write for valid values, bit for bit.
 */
#include "validate.h"
#include "validate_fast.h"

#define NULL_BITMAP_AT 0

/* Limits of the server's date and timestamp types (datatype/timestamp.h). */
#define DATE_MIN (-2451545)
#define DATE_END (INT64_C(2147483494) - 2451545)
#define TIME_MAX INT64_C(86400000000)
#define TIMESTAMP_MIN INT64_C(-211813488000000000)
#define TIMESTAMP_END INT64_C(9223371331200000000)

/* Of the forms below FB_TEXT. */
static const uint8_t fixed_lengths[] = {0, 1, 2, 4, 8, 16, 4, 8, 8, 4};

static bool
is_label(const FbColumn *column, uint32_t label)
{
	uint32_t	low = 0;
	uint32_t	high = column->label_count;

	while (low < high)
	{
		uint32_t	middle = low + (high - low) / 2;

		if (column->labels[middle] == label)
			return true;
		if (column->labels[middle] < label)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* Keeps the failing paths out of the loop's code. */
static bool __attribute__((noinline, cold))
refuse(FbVerdict *verdict, FbProblem problem, int column, const char *reason)
{
	verdict->problem = problem;
	verdict->column = column;
	verdict->reason = reason;
	return false;
}

/* Is the value of the range column inside? */
static bool
in_range(const FbLayout *layout, int64_t value)
{
	return (!layout->range_has_from || value >= layout->range_from)
		&& (!layout->range_has_to || value < layout->range_to);
}

/* Up to seven bytes of zeros. */
static inline bool
is_padding(const uint8_t *data, uint32_t at, uint32_t end)
{
	if (end >= 8)
	{
		/* The eight bytes before the end, of which the last ones count. */
		return (fb_load_64(data + end - 8) & ~(UINT64_MAX >> (8 * (end - at)))) == 0;
	}
	for (; at < end; at++)
		if (data[at] != 0)
			return false;
	return true;
}

static inline bool __attribute__((always_inline))
walk(const FbLayout *layout, const uint8_t *body, uint32_t length, bool has_bitmap,
	 FbVerdict *verdict)
{
	const FbColumn *column = layout->columns;
	int			column_count = layout->column_count;
	uint32_t	data_at = has_bitmap ? layout->data_bitmap_at : layout->data_plain_at;
	const uint8_t *data = body + data_at;
	uint32_t	size = length - data_at;
	uint32_t	at = 0;
	bool		has_varlena = false;
	int			number = 0;

	if (!has_bitmap && size >= layout->free_bytes)
	{
		number = layout->free_columns;
		at = layout->free_bytes;
	}
	for (column += number; number < column_count; number++, column++)
	{
		const uint8_t *value;
		uint32_t	value_length;
		const char *reason = NULL;
		int64_t		whole = 0;

		if (has_bitmap && !(body[NULL_BITMAP_AT + (number >> 3)] & (1 << (number & 7))))
		{
			if (column->not_null)
				return refuse(verdict, FB_IS_NULL, number, "a NULL in a column that is NOT NULL");
			if (number == layout->range_column)
				return refuse(verdict, FB_OUT_OF_RANGE, number, "a NULL in the range column");
			/* A domain may forbid NULL, which only its input function knows. */
			if (column->form == FB_NO_FORM)
				return refuse(verdict, FB_BAD_LAYOUT, number,
							  "a type whose rows have to travel out of band");
			continue;
		}

		if (column->form >= FB_TEXT)
		{
			/* One byte at least has to be there before a header is looked at. */
			if (at >= size)
				return refuse(verdict, FB_BAD_LAYOUT, number, "the body ends before this value");
			has_varlena = true;
			if (data[at] & 1)
			{
				/* A short header: one byte, which counts itself; 1 marks a TOAST pointer. */
				uint32_t	total = data[at] >> 1;

				if (total == 0)
					return refuse(verdict, FB_BAD_LAYOUT, number,
								  "a pointer to a value stored elsewhere");
				if (column->plain)
					return refuse(verdict, FB_BAD_LAYOUT, number,
								  "a short header in a column whose storage is plain");
				if (total > size - at)
					return refuse(verdict, FB_BAD_LAYOUT, number,
								  "the value is longer than the rest of the body");
				value = data + at + 1;
				value_length = total - 1;
				at += total;
			}
			else
			{
				uint32_t	aligned = (at + column->align - 1) & ~((uint32_t) column->align - 1);
				uint32_t	header;

				if (aligned > size || size - aligned < 4)
					return refuse(verdict, FB_BAD_LAYOUT, number,
								  "the body ends before this value's header");
				if (!is_padding(data, at, aligned))
					return refuse(verdict, FB_BAD_LAYOUT, number, "padding is not zero");
				at = aligned;
				header = fb_load_32(data + at);
				if (header & 3)
					return refuse(verdict, FB_BAD_LAYOUT, number,
								  "a compressed value, or a short header after padding");
				header >>= 2;
				if (header < 4)
					return refuse(verdict, FB_BAD_LAYOUT, number,
								  "a header that counts less than itself");
				if (header > size - at)
					return refuse(verdict, FB_BAD_LAYOUT, number,
								  "the value is longer than the rest of the body");
				if (header - 4 + 1 <= 127 && !column->plain)
					return refuse(verdict, FB_BAD_LAYOUT, number,
								  "a long header where a short one would do");
				value = data + at + 4;
				value_length = header - 4;
				at += header;
			}
			switch (column->form)
			{
				case FB_NUMERIC:
					if (!fb_is_fine_numeric(column, value, value_length,
											(uint32_t) (data + size - value)))
						reason = fb_validate_numeric(column, value, value_length);
					break;
				case FB_BYTEA:
					break;
				default:
					if (!fb_is_fine_text(column, value, value_length))
						reason = fb_validate_text(layout, column, value, value_length);
					break;
			}
			if (reason != NULL)
				return refuse(verdict, FB_BAD_VALUE, number, reason);
			continue;
		}

		/* A fixed length: aligned, padding zero, wholly inside. */
		{
			uint32_t	aligned = (at + column->align - 1) & ~((uint32_t) column->align - 1);

			value_length = fixed_lengths[column->form];
			if (aligned > size || size - aligned < value_length)
				return refuse(verdict, FB_BAD_LAYOUT, number, "the body ends before this value");
			if (!is_padding(data, at, aligned))
				return refuse(verdict, FB_BAD_LAYOUT, number, "padding is not zero");
			value = data + aligned;
			at = aligned + value_length;
		}
		switch (column->form)
		{
			case FB_BOOL:
				if (*value > 1)
					reason = "neither 0 nor 1";
				break;
			case FB_ANY_2:
				whole = (int16_t) fb_load_16(value);
				break;
			case FB_ANY_4:
				whole = (int32_t) fb_load_32(value);
				break;
			case FB_ANY_8:
				whole = (int64_t) fb_load_64(value);
				break;
			case FB_ANY_16:
				break;
			case FB_DATE:
				whole = (int32_t) fb_load_32(value);
				if ((whole < DATE_MIN || whole >= DATE_END)
					&& whole != INT32_MIN && whole != INT32_MAX)
					reason = "a date out of range";
				break;
			case FB_TIME:
				whole = (int64_t) fb_load_64(value);
				if (whole < 0 || whole > TIME_MAX)
					reason = "a time out of range";
				else if (column->unit > 1 && whole % column->unit != 0)
					reason = "a time of more digits than its column's precision";
				break;
			case FB_TIMESTAMP:
				whole = (int64_t) fb_load_64(value);
				if (whole == INT64_MIN || whole == INT64_MAX)
					break;
				if (whole < TIMESTAMP_MIN || whole >= TIMESTAMP_END)
					reason = "a timestamp out of range";
				else if (column->unit > 1 && whole % column->unit != 0)
					reason = "a timestamp of more digits than its column's precision";
				break;
			case FB_ENUM:
				if (!is_label(column, fb_load_32(value)))
					reason = "no label of the column's enum type";
				break;
			default:
				return refuse(verdict, FB_BAD_LAYOUT, number,
							  "a type whose rows have to travel out of band");
		}
		if (reason != NULL)
			return refuse(verdict, FB_BAD_VALUE, number, reason);
		if (number == layout->range_column && !in_range(layout, whole))
			return refuse(verdict, FB_OUT_OF_RANGE, number, "outside of the range");
	}

	if (at != size)
		return refuse(verdict, FB_BAD_LAYOUT, -1, "the body is longer than its values");
	verdict->has_varlena = has_varlena;
	return true;
}

void
fb_prepare_column(FbColumn *column)
{
	column->plain_least = 1;
	column->plain_most = 0;
	column->short_header = 0;
	column->weight_safe = -1000;
	if (column->form == FB_TEXT || column->form == FB_VARCHAR || column->form == FB_BPCHAR)
	{
		column->plain_least = 0;
		column->plain_most = UINT32_MAX;
		if (column->limited)
			column->plain_most = (uint32_t) column->limit;
		if (column->limited && column->form == FB_BPCHAR)
			column->plain_least = (uint32_t) column->limit;
	}
	if (column->form == FB_NUMERIC && column->limited && column->scale >= 0
		&& column->scale <= 63)
	{
		column->short_header = (uint16_t) (0x8000 | column->scale << 7);
		/* 4 * (weight + 1) digits at most before the point. */
		column->weight_safe = (column->precision - column->scale + 400) / 4 - 100 - 1;
	}
}

void
fb_prepare_layout(FbLayout *layout)
{
	layout->free_columns = 0;
	layout->free_bytes = 0;
	for (int number = 0; number < layout->column_count; number++)
	{
		const FbColumn *column = &layout->columns[number];

		if (column->form < FB_ANY_2 || column->form > FB_ANY_16
			|| layout->free_bytes % column->align != 0 || number == layout->range_column)
			return;
		layout->free_columns = number + 1;
		layout->free_bytes += fixed_lengths[column->form];
	}
}

/* The bitmap itself: a NULL in it, and nothing set behind its last column. */
static bool
check_bitmap(const FbLayout *layout, const uint8_t *body, FbVerdict *verdict)
{
	uint32_t	columns = (uint32_t) layout->column_count;
	uint32_t	whole = columns / 8;
	uint32_t	at;
	bool		has_null = false;

	for (at = 0; at < whole; at++)
		has_null |= body[at] != 0xff;
	if (columns % 8 != 0)
	{
		uint8_t		used = (uint8_t) ((1 << (columns % 8)) - 1);

		if (body[at] & ~used)
			return refuse(verdict, FB_BAD_LAYOUT, -1,
						  "the null bitmap has bits set behind its last column");
		has_null |= body[at] != used;
		at++;
	}
	for (; at < layout->data_bitmap_at; at++)
		if (body[at] != 0)
			return refuse(verdict, FB_BAD_LAYOUT, -1, "padding after the null bitmap is not zero");
	if (!has_null)
		return refuse(verdict, FB_BAD_LAYOUT, -1, "a null bitmap without a NULL");
	return true;
}

bool
fb_validate(const FbLayout *layout, const uint8_t *body, uint32_t length, bool has_bitmap,
			FbVerdict *verdict)
{
	if (length > layout->body_bytes_max)
		return refuse(verdict, FB_BAD_LAYOUT, -1,
					  "longer than body_bytes_max of the descriptor: it has to travel out of band");
	if (has_bitmap)
	{
		if (length < layout->data_bitmap_at)
			return refuse(verdict, FB_BAD_LAYOUT, -1, "shorter than its null bitmap");
		return check_bitmap(layout, body, verdict) && walk(layout, body, length, true, verdict);
	}
	if (length < layout->data_plain_at)
		return refuse(verdict, FB_BAD_LAYOUT, -1, "shorter than its header's padding");
	for (uint32_t at = 0; at < layout->data_plain_at; at++)
		if (body[at] != 0)
			return refuse(verdict, FB_BAD_LAYOUT, -1, "padding after the header is not zero");
	return walk(layout, body, length, false, verdict);
}
