/*
 * layout.h - a table's layout, for the client to lay rows out by and for us to check them by.
 */
#ifndef FB_LAYOUT_H
#define FB_LAYOUT_H

#include "compat.h"
#include "validate.h"

/* A refusal of a table; NULL code: none. Strings live in the current memory context. */
typedef struct FbRefusal
{
	int			code;			/* SQLSTATE as ereport has it; 0: none */
	const char *message;
	const char *detail;
	const char *hint;
} FbRefusal;

#define FB_PROTOCOL 1
#define FB_VERSION "0.3.0"

/* Why this table can't be loaded directly, whatever the transaction; with its indexes, or if it has none. */
extern bool fb_refuse_table(Relation rel, bool with_indexes, FbRefusal *refusal);

/* The layout, compiled for the validator; in the current memory context. */
extern FbLayout *fb_make_layout(Relation rel);

/* The descriptor's name of a form; NULL for FB_NO_FORM. */
extern const char *fb_form_name(Form_pg_attribute attribute);

/* Of an enum type: its labels in their order, and how many. */
typedef struct FbLabel
{
	Oid			oid;
	const char *name;
} FbLabel;

extern FbLabel *fb_enum_labels(Oid type, int *count);

/* The longest body stored without the toaster. */
extern uint32 fb_body_bytes_max(Relation rel);

/* The part of the descriptor that shapes bodies and their checks, and its hash. */
extern char *fb_descriptor_columns(Relation rel);
extern char *fb_descriptor_hash(Relation rel, const char *columns);

#endif							/* FB_LAYOUT_H */
