/*
 * direct_file.h - writing past the page cache.
 */
#ifndef FB_DIRECT_FILE_H
#define FB_DIRECT_FILE_H

#include "store.h"

/* NULL where the store's io, the table or the file system ask for the page cache. */
extern struct FbDirectFile *fb_direct_file_begin(FbStore *store);

/* Writes the store's run and says how many pages; false: the page cache has to do the rest. */
extern bool fb_direct_file_write(struct FbDirectFile *file, FbStore *store, int *written);

extern void fb_direct_file_end(struct FbDirectFile *file);

#endif							/* FB_DIRECT_FILE_H */
