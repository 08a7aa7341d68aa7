/*
 * visibility.h - the visibility map of frozen pages.
 */
#ifndef FB_VISIBILITY_H
#define FB_VISIBILITY_H

#include "compat.h"

#include "storage/block.h"

/* Marks blocks from first to before end as all visible and all frozen. */
extern void fb_set_all_visible(Relation rel, BlockNumber first, BlockNumber end);

#endif							/* FB_VISIBILITY_H */
