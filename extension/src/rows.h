/*
 * rows.h - rows out of band: values in COPY's binary or text form.
 */
#ifndef FB_ROWS_H
#define FB_ROWS_H

#include "compat.h"
#include "checks.h"
#include "frames.h"
#include "pages.h"

typedef struct FbRows
{
	Relation	rel;
	List	   *columns;		/* names, as in the COPY; NIL: all */
	FbChecks   *checks;
	FbPages    *pages;
	MemoryContext frame_context;	/* lives as long as a frame */
	uint64		lines;			/* of T frames so far */
} FbRows;

extern void fb_rows_begin(FbRows *rows, Relation rel, List *columns, FbChecks *checks,
						  FbPages *pages);

extern void fb_rows_take(FbRows *rows, const FbFrame *frame);

/* One of another table, with columns as the descriptor says. */
extern void fb_rows_add(FbRows *rows, HeapTuple tuple, TupleDesc descriptor);

#endif							/* FB_ROWS_H */
