/*
 * direct_file.c - writing past the page cache.
 *
 * Storage that nobody has read gains nothing from the page cache, and copying into it is half of
 * what a buffered load costs. So whole runs of pages are written by one aligned O_DIRECT pwrite
 * each, on a descriptor of our own. What the storage manager must know stays with it:
 *
 * - The first page of each segment is written by smgrextend(), which makes the file and notes
 *   that it is there. A segment is filled before the next one is begun.
 * - Syncing is its affair too; fsync works on the file, whoever wrote it.
 * - The descriptor belongs to the (sub)transaction and is closed by its end, also by an abort;
 *   nothing is ever in flight, each write has ended when it returns.
 */
#include "direct_file.h"

#include "common/file_perm.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "utils/wait_event.h"

/* What Linux and its file systems ask of addresses, offsets and lengths, at most. */
#define ALIGNMENT 4096

typedef struct FbDirectFile
{
	int			fd;				/* -1: none is open */
	BlockNumber segment;		/* of the open one */
	char		path[MAXPGPATH];
} FbDirectFile;

FbDirectFile *
fb_direct_file_begin(FbStore *store)
{
	FbDirectFile *file;

	if (store->io == FB_IO_BUFFERED || PG_O_DIRECT == 0 || BLCKSZ % ALIGNMENT != 0)
		return NULL;
	file = palloc0(sizeof(FbDirectFile));
	file->fd = -1;
	return file;
}

void
fb_direct_file_end(FbDirectFile *file)
{
	if (file != NULL && file->fd >= 0)
		CloseTransientFile(file->fd);
	if (file != NULL)
		file->fd = -1;
}

/* False where the file system knows no such thing. */
static bool
open_segment(FbDirectFile *file, Relation rel, BlockNumber segment)
{
	char		base[MAXPGPATH];

	if (file->fd >= 0 && file->segment == segment)
		return true;
	fb_direct_file_end(file);
	FbRelationPath(rel, base);
	if (segment == 0)
		strlcpy(file->path, base, MAXPGPATH);
	else
		snprintf(file->path, MAXPGPATH, "%s.%u", base, segment);
	file->fd = OpenTransientFile(file->path, O_RDWR | PG_BINARY | PG_O_DIRECT);
	file->segment = segment;
	if (file->fd < 0 && errno != EINVAL)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\" for direct writing: %m", file->path),
				 errhint("Use the COPY option IO 'buffered'.")));
	return file->fd >= 0;
}

/* False where the very first write is refused as a kind: the file system can't do it. */
static bool
write_all(FbDirectFile *file, const char *pages, Size bytes, off_t offset)
{
	Size		done = 0;

	while (done < bytes)
	{
		ssize_t		written;

		errno = 0;
		pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_EXTEND);
		written = pg_pwrite(file->fd, pages + done, bytes - done, offset + done);
		pgstat_report_wait_end();
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0 && errno == EINVAL && done == 0)
			return false;
		if (written <= 0 || written % ALIGNMENT != 0)
		{
			/* Short without a reason is a full disk, as the server itself takes it. */
			if (written >= 0 || errno == 0)
				errno = ENOSPC;
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not extend file \"%s\": %m", file->path),
					 errhint("Check free disk space.")));
		}
		done += written;
	}
	return true;
}

bool
fb_direct_file_write(FbDirectFile *file, FbStore *store, int *written)
{
	BlockNumber block = store->run_block;
	const char *page = store->run;
	int			left = store->run_used;

	*written = 0;
	while (left > 0)
	{
		int			count;

		if (block % RELSEG_SIZE == 0)
		{
			smgrextend(FbSmgr(store->rel), MAIN_FORKNUM, block, FbPageForWrite(page), true);
			count = 1;
		}
		else
		{
			count = Min((BlockNumber) left, RELSEG_SIZE - block % RELSEG_SIZE);
			if (!open_segment(file, store->rel, block / RELSEG_SIZE)
				|| !write_all(file, page, (Size) count * BLCKSZ,
							  (off_t) (block % RELSEG_SIZE) * BLCKSZ))
				return false;
		}
		block += count;
		page += (Size) count * BLCKSZ;
		left -= count;
		*written += count;
	}
	return true;
}
