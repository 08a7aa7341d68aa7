/*
 * writers.h - keeps the functions of a table (defaults, checks) from writing to it while it is loaded.
 */
#ifndef FB_WRITERS_H
#define FB_WRITERS_H

#include "compat.h"

extern void fb_writers_init(void);

/* From now on nothing else may write to this table; InvalidOid ends it. */
extern void fb_writers_refuse(Oid relation);

/* Is this table being loaded? */
extern bool fb_writers_is_loaded(Oid relation);

/* Refuses what can't be done while any table is loaded: its own function calls us. */
extern void fb_writers_refuse_nested(const char *what);

#endif							/* FB_WRITERS_H */
