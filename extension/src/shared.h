/*
 * shared.h - rows that share a key.
 */
#ifndef FB_SHARED_H
#define FB_SHARED_H

#include "postgres.h"

#include "utils/rel.h"

/* The index holds all rows of the table, but its keys are not unique: it is invalid until fullbore.shared() says
 * otherwise. */
extern void fb_shared_mark(Relation rel, Oid index);

/* Of a table that is truncated, which need not give its indexes other files. */
extern void fb_shared_forget(Oid table);

#endif							/* FB_SHARED_H */
