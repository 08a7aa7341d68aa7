/*
 * filter.h - the index access method "fullbore_filter", and what reads it.
 */
#ifndef FB_FILTER_H
#define FB_FILTER_H

#include "postgres.h"

#include "access/skey.h"
#include "utils/rel.h"

/* Is the index one of ours? */
extern bool fb_is_filter(Relation index);

/* May a row with this value be there? The value is of the type that the index is declared for. */
extern bool fb_filter_may_have(Relation index, Oid type, Datum value);

/* Lets lookups by keys leave out partitions whose filters say that they don't have them. */
extern void fb_lookups_init(void);

#endif							/* FB_FILTER_H */
