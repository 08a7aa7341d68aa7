/*
 * keys.h - what an index wants of a row: its tuple, and a key that sorts as bytes.
 */
#ifndef FB_KEYS_H
#define FB_KEYS_H

#include "compat.h"

#include "access/htup_details.h"
#include "access/itup.h"

/* How a column's values become bytes that sort as they do. */
typedef enum FbKeyForm
{
	FB_KEY_NONE = 0,			/* not sorted by: an INCLUDE column */
	FB_KEY_BOOL,
	FB_KEY_INT2,
	FB_KEY_INT4,				/* and date */
	FB_KEY_INT8,				/* and time, timestamps */
	FB_KEY_OID,
	FB_KEY_UUID,
	FB_KEY_FLOAT4,
	FB_KEY_FLOAT8,
	FB_KEY_TEXT,				/* from here on with a varlena header */
	FB_KEY_BPCHAR,
	FB_KEY_BYTEA,
	FB_KEY_NUMERIC
} FbKeyForm;

/* A column of a table, up to the last one that an index wants. */
typedef struct FbField
{
	int16		length;
	uint8		align;
	int32		fixed_at;		/* where it is in a row without NULLs; -1: not known beforehand */
} FbField;

/* The columns that the indexes of a table want. */
typedef struct FbFields
{
	int			count;
	int			fixed;			/* of these, leading ones at fixed places */
	uint32		fixed_end;
	FbField    *fields;
	const char **values;		/* of the row at hand; NULL: a NULL */
} FbFields;

typedef struct FbKeyColumn
{
	int			attribute;		/* of the table, from 0 */
	FbKeyForm	form;
	int16		length;
	uint8		align;
	bool		nullable;
	bool		nulls_first;
	bool		descending;
	uint8		bits;			/* of a packed value, and ... */
	uint8		bit_at;			/* ... where it begins; a bit that tells NULLs stands before it */
	uint16		fixed_at;		/* where it is in a tuple without NULLs */
} FbKeyColumn;

/* A key that is packed has so many words at most. */
#define FB_WORDS_MAX 2

typedef struct FbKeys
{
	Relation	index;
	int			count;			/* of its columns */
	int			key_count;		/* of these, those it is sorted by */
	FbKeyColumn *columns;
	int			packed_words;	/* of a key that holds all of its tuple; 0: keys are bytes */
	bool		packs_nulls;	/* a column of such a key can be NULL */
	uint32		bytes_max;		/* of a key as bytes; 0: without a bound */
	MemoryContext scratch;		/* of values that are not stored as an index stores them */
	uint8	   *normal;			/* the key at hand */
	Size		normal_bytes;
	Size		normal_room;
} FbKeys;

/* The bytes of a value of this form in a key; 0: they differ. */
extern uint8 fb_normal_bytes(FbKeyForm form);

/* Sees whether keys can be packed, and how. */
extern void fb_keys_begin_packing(FbKeys *keys);

/* Why an index can't be filled from rows as they pass; NULL: it can. */
extern const char *fb_keys_refuse(Relation index);

extern void fb_keys_begin(FbKeys *keys, Relation rel, Relation index);

extern void fb_fields_begin(FbFields *fields, Relation rel, int count);

/* Finds the values of a row. */
extern void fb_fields_find(FbFields *fields, HeapTupleHeader tuple);

/* The most that an index tuple made in place can take. */
#define FB_PLAIN_TUPLE_MAX (BLCKSZ / 2)

/*
 * The index tuple of the row whose values were found, in `room` of FB_PLAIN_TUPLE_MAX bytes, or NULL
 * where it has to be formed by the server; then fb_keys_form() does that.
 */
extern Size fb_keys_form_plain(const FbKeys *keys, const FbFields *fields, char *room);
extern IndexTuple fb_keys_form(const FbKeys *keys, const FbFields *fields);

/*
 * A key as numbers that compare as it does, where keys are packed; and the tuple that was packed so, in `room` of
 * FB_PACKED_TUPLE_MAX bytes, but for its row.
 */
extern void fb_keys_pack(const FbKeys *keys, const FbFields *fields, uint64 *words);
extern IndexTuple fb_keys_unpack(const FbKeys *keys, const uint64 *words, char *room);

/* Sixteen bytes of values, what aligns them, and what tells NULLs. */
#define FB_PACKED_TUPLE_MAX 64

/* Its key, in keys->normal: of two keys the smaller one has the smaller bytes, and none begins another. */
extern void fb_keys_normalise(FbKeys *keys, const FbFields *fields);

/* Has a key, the first `key_count` columns, with a NULL in it? */
extern bool fb_keys_is_null(IndexTuple tuple, int key_count);

#endif							/* FB_KEYS_H */
