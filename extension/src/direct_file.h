/*
 * direct_file.h - writing past the page cache.
 */
#ifndef FB_DIRECT_FILE_H
#define FB_DIRECT_FILE_H

#include "store.h"

/* NULL where the store's io, the table or the file system ask for the page cache. */
extern struct FbDirectFile *fb_direct_file_begin(FbStore *store);

/*
 * Writes the store's run and says how many pages; false: the page cache has to do the rest. Where the
 * store overlaps, the run's memory is read until the next call of any of these.
 */
extern bool fb_direct_file_write(struct FbDirectFile *file, FbStore *store, int *written);

/* Waits for what is on its way. */
extern void fb_direct_file_land(struct FbDirectFile *file);

/* All is written, and nothing more will be. */
extern void fb_direct_file_end(struct FbDirectFile *file);

#endif							/* FB_DIRECT_FILE_H */
