/*
 * direct_file.c - writing past the page cache.
 */
#include "direct_file.h"

struct FbDirectFile *
fb_direct_file_begin(FbStore *store)
{
	return NULL;
}

bool
fb_direct_file_write(struct FbDirectFile *file, FbStore *store)
{
	return false;
}

void
fb_direct_file_end(struct FbDirectFile *file)
{
}
