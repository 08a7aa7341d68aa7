/*
 * direct_file.c - writing past the page cache.
 *
 * Storage that nobody has read gains nothing from the page cache, and copying into it is half of
 * what a buffered load costs. So whole runs of pages are written by one aligned O_DIRECT write
 * each, on a descriptor of our own. What the storage manager must know stays with it:
 *
 * - The first page of each segment is written by smgrextend(), which makes the file and notes
 *   that it is there. A segment is filled before the next one is begun.
 * - Syncing is its affair too; fsync works on the file, whoever wrote it.
 * - The descriptor belongs to the (sub)transaction and is closed by its end, also by an abort.
 *
 * Where the store overlaps, one run is on its way while the next one is built: the session's
 * processor and the disk then wait for each other no more. Such a write must lie within the file,
 * which is made longer before. Until it has landed nobody may read these blocks: who does would find
 * them torn, or keep them in the buffers as empty pages.
 */
#include "direct_file.h"
#include "guard.h"
#include "in_flight.h"

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
	bool		is_proved;		/* a write has passed the page cache by */
	Size		bytes;			/* of the write under way; 0: there is none */
	const char *pages;
	off_t		offset;
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

static void
close_segment(FbDirectFile *file)
{
	if (file->fd >= 0)
		CloseTransientFile(file->fd);
	file->fd = -1;
}

/* False where the file system knows no such thing. */
static bool
open_segment(FbDirectFile *file, Relation rel, BlockNumber segment)
{
	char		base[MAXPGPATH];

	if (file->fd >= 0 && file->segment == segment)
		return true;
	close_segment(file);
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

void
fb_direct_file_land(FbDirectFile *file)
{
	const char *pages = file->pages;
	Size		bytes = file->bytes;
	Size		written;

	if (bytes == 0)
		return;
	file->bytes = 0;
	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_EXTEND);
	written = fb_in_flight_end() / ALIGNMENT * ALIGNMENT;
	pgstat_report_wait_end();
	if (written == bytes)
		return;
	/* What was left out is written again, which tells why it was. */
	fb_guard_open(pages, bytes);
	if (!write_all(file, pages + written, bytes - written, file->offset + written))
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not extend file \"%s\": %m", file->path)));
	fb_guard_close(pages, bytes);
}

/* Sends the store's run on its way; false: it has to be waited for. */
static bool
take_off(FbDirectFile *file, const FbStore *store)
{
	BlockNumber end = store->run_block + store->run_used;
	BlockNumber segment = store->run_block / RELSEG_SIZE;
	Size		bytes = (Size) store->run_used * BLCKSZ;
	off_t		offset = (off_t) (store->run_block % RELSEG_SIZE) * BLCKSZ;

	if (!store->overlaps || !file->is_proved || offset == 0 || (end - 1) / RELSEG_SIZE != segment
		|| !open_segment(file, store->rel, segment)
		|| !fb_in_flight_possible()
		|| ftruncate(file->fd, offset + bytes) != 0
		|| !fb_in_flight_begin(file->fd, store->run, bytes, offset))
		return false;
	file->bytes = bytes;
	file->pages = store->run;
	file->offset = offset;
	return true;
}

void
fb_direct_file_end(FbDirectFile *file)
{
	fb_direct_file_land(file);
	close_segment(file);
}

bool
fb_direct_file_write(FbDirectFile *file, FbStore *store, int *written)
{
	BlockNumber block = store->run_block;
	const char *page = store->run;
	int			left = store->run_used;

	*written = 0;
	fb_direct_file_land(file);
	if (take_off(file, store))
	{
		*written = left;
		return true;
	}
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
			file->is_proved = true;
		}
		block += count;
		page += (Size) count * BLCKSZ;
		left -= count;
		*written += count;
	}
	return true;
}
