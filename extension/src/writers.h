/*
 * writers.h - keeps the functions of a table (defaults, checks) from writing to it while it is loaded.
 */
#ifndef FB_WRITERS_H
#define FB_WRITERS_H

#include "compat.h"

extern void fb_writers_init(void);

/* From now on nothing else may write to this table; InvalidOid ends it. */
extern void fb_writers_refuse(Oid relation);

#endif							/* FB_WRITERS_H */
