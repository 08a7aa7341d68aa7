/*
 * source.h - rows that another table of the server has.
 */
#ifndef FB_SOURCE_H
#define FB_SOURCE_H

#include "compat.h"
#include "checks.h"
#include "pages.h"
#include "rows.h"

/* Refuses a table whose rows the user may not read, or that are laid out otherwise than rel's. */
extern Relation fb_source_open(Oid source, Relation rel);

/* All rows of it that this command sees. */
extern void fb_source_take(Relation source, FbPages *pages, FbRows *rows, FbChecks *checks);

#endif							/* FB_SOURCE_H */
