/*
 * indexes.h - the indexes of a table that is loaded directly.
 */
#ifndef FB_INDEXES_H
#define FB_INDEXES_H

#include "compat.h"

#include "access/htup_details.h"

typedef struct FbIndexes FbIndexes;

extern void fb_indexes_init(void);

/*
 * For a COPY into this table: indexes must be new and empty, and their keys are gathered from rows until
 * fullbore.finish() builds them. Continues with what earlier COPYs of the transaction gathered. NULL: the table
 * has no index.
 */
extern FbIndexes *fb_indexes_begin(Relation rel, BlockNumber blocks);

/* The table was emptied. */
extern void fb_indexes_forget(Oid table);

/* A row was stored. */
extern void fb_indexes_take(FbIndexes *indexes, HeapTupleHeader tuple);

/* The COPY is over. */
extern void fb_indexes_end(FbIndexes *indexes);

#endif							/* FB_INDEXES_H */
