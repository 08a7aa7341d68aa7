/*
 * validate.h - is a body exactly what the server itself would have laid out?
 *
 * Plain C without the server's headers, so that the fuzzer, valgrind and the server run the very
 * same code. A table's layout is compiled once into an array of columns; a body is then walked
 * by one switch per column. Nothing is allocated, nothing outside of the body is read.
 */
#ifndef FB_VALIDATE_H
#define FB_VALIDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a column's bytes are checked. The first ones have a fixed length. */
typedef enum FbForm
{
	FB_NO_FORM = 0,				/* not on the whitelist: no body can hold it */
	FB_BOOL,
	FB_ANY_2,					/* int2: any bits */
	FB_ANY_4,					/* int4, float4, oid: any bits */
	FB_ANY_8,					/* int8, float8: any bits */
	FB_ANY_16,					/* uuid: any bits */
	FB_DATE,
	FB_TIME,
	FB_TIMESTAMP,
	FB_ENUM,
	FB_TEXT,					/* from here on with a varlena header */
	FB_VARCHAR,
	FB_BPCHAR,
	FB_BYTEA,
	FB_JSON,
	FB_NUMERIC
} FbForm;

typedef struct FbColumn
{
	uint8_t		form;			/* FbForm */
	uint8_t		align;			/* 1, 2, 4 or 8 */
	bool		plain;			/* storage is plain: no short varlena header */
	bool		not_null;
	bool		limited;		/* the type's modifier is set: limit or precision and scale count */
	int32_t		limit;			/* varchar, bpchar: characters */
	int32_t		precision;		/* numeric */
	int32_t		scale;			/* numeric; can be negative from PostgreSQL 15 on */
	int64_t		unit;			/* time, timestamp: values are multiples of so many microseconds */

	/* For the common cases, filled by fb_prepare_column(). */
	uint32_t	plain_least;	/* text: bytes of plain ASCII that are surely fine, from ... */
	uint32_t	plain_most;		/* ... to */
	uint16_t	short_header;	/* numeric: a short header of the column's scale */
	int32_t		weight_safe;	/* numeric: the largest weight that any first digit fits */

	const uint32_t *labels;		/* enum: object ids of its labels, ascending */
	uint32_t	label_count;
} FbColumn;

/* How text is checked. */
typedef enum FbEncoding
{
	FB_UTF8,
	FB_SINGLE_BYTE,				/* every byte but NUL is a character */
	FB_OTHER_ENCODING			/* ask characters() */
} FbEncoding;

typedef struct FbLayout
{
	int			column_count;
	FbColumn   *columns;
	uint32_t	body_bytes_max;
	uint32_t	data_plain_at;	/* where values begin without a bitmap */
	uint32_t	data_bitmap_at; /* and with one */
	FbEncoding	encoding;

	/*
	 * Leading columns of any bits at fixed places without padding, and their bytes: without a
	 * bitmap there is nothing to check in them. Filled by fb_prepare_layout().
	 */
	int			free_columns;
	uint32_t	free_bytes;

	/* The number of characters, or -1 when they are not valid. */
	int			(*characters) (void *argument, const char *text, int bytes);
	void	   *argument;

	/* A column of whole numbers, dates or timestamps whose values must lie in a range. */
	int			range_column;	/* -1: none */
	bool		range_has_from;
	bool		range_has_to;
	int64_t		range_from;		/* inclusive */
	int64_t		range_to;		/* exclusive */
} FbLayout;

typedef enum FbProblem
{
	FB_FINE = 0,
	FB_BAD_LAYOUT,				/* not laid out as the server does */
	FB_BAD_VALUE,				/* laid out well, but no value of the type */
	FB_IS_NULL,					/* in a column that is NOT NULL */
	FB_OUT_OF_RANGE				/* of the range column */
} FbProblem;

typedef struct FbVerdict
{
	FbProblem	problem;
	int			column;			/* from 0; -1: the row as a whole */
	const char *reason;			/* why, a static English sentence */
	bool		has_varlena;	/* of a fine body: a value with a varlena header is there */
} FbVerdict;

/* To be called when all other members of a column, and then of the layout, are filled. */
extern void fb_prepare_column(FbColumn *column);
extern void fb_prepare_layout(FbLayout *layout);

/*
 * Checks one body. True: it is fine. On false the verdict says what is wrong.
 */
extern bool fb_validate(const FbLayout *layout, const uint8_t *body, uint32_t length,
						bool has_bitmap, FbVerdict *verdict);

/* The parts, by type; each NULL when fine, otherwise the reason. */
extern const char *fb_validate_numeric(const FbColumn *column, const uint8_t *value,
									   uint32_t length);
extern const char *fb_validate_json(const uint8_t *value, uint32_t length);
extern const char *fb_validate_text(const FbLayout *layout, const FbColumn *column,
									const uint8_t *value, uint32_t length);

#endif							/* FB_VALIDATE_H */
