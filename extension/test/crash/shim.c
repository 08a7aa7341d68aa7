/*
 * shim.c - stops a server's process at an exact moment, or lets a call of its fail.
 *
 * Preloaded into the server by the tests (LD_PRELOAD). While a file "rule" is in the folder that
 * FB_SHIM names, each write, sync, truncation or removal of a file is held against it:
 *
 *     PID OPERATION PATH SKIP ACTION
 *
 * PID is the process, 0 any. OPERATION is write (one that is only begun among them), sync or cut (which
 * removes a file, or makes it no longer). PATH has to be a part of the file's
 * name; SKIP as many matching calls are let pass. ACTION is what becomes of the next one:
 *
 *     before   the process stops, then makes the call
 *     after    it makes the call, then stops
 *     half     it writes half of the bytes, then stops
 *     EIO, ENOSPC   the call fails, and so do all that follow
 *     late     a write that was begun is said to have failed in the end; others are let pass
 *
 * A process that stops writes its number to the file "hit" first.
 *
 * Where FB_SHIM_LOG is set, the file "log" tells of all that was written to relation files and when
 * they were synced: "w OFFSET BYTES PATH" after a write (when it is begun, too), "s PATH" before a sync.
 *
 * Where FB_SHIM_NO_SYNC is set, a sync is a moment only and does nothing: what is killed loses
 * nothing that the kernel has.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

typedef enum Action
{
	PASS,
	BEFORE,
	AFTER,
	HALF,
	FAIL_IO,
	FAIL_SPACE,
	LATE
} Action;

/* One rule is counted from its first match on; another rule's text begins anew. */
static char last_rule[512];
static int	matched;

static Action
action_named(const char *name)
{
	static const char *const names[] = {"", "before", "after", "half", "EIO", "ENOSPC", "late"};

	for (int at = 1; at <= LATE; at++)
		if (strcmp(name, names[at]) == 0)
			return (Action) at;
	return PASS;
}

static Action
decide(const char *operation, const char *path)
{
	const char *folder = getenv("FB_SHIM");
	char		name[PATH_MAX];
	char		rule[512] = "";
	char		wanted[16];
	char		part[256];
	char		action[16];
	int			pid;
	int			skip;
	int			file;
	ssize_t		got;
	int			kept_errno = errno;

	if (folder == NULL)
		return PASS;
	snprintf(name, sizeof name, "%s/rule", folder);
	file = open(name, O_RDONLY | O_CLOEXEC);
	if (file < 0)
	{
		errno = kept_errno;
		return PASS;
	}
	got = read(file, rule, sizeof rule - 1);
	close(file);
	errno = kept_errno;
	if (got <= 0 || sscanf(rule, "%d %15s %255s %d %15s", &pid, wanted, part, &skip, action) != 5)
		return PASS;
	if ((pid != 0 && pid != getpid()) || strcmp(wanted, operation) != 0
		|| strstr(path, part) == NULL)
		return PASS;
	if (strcmp(rule, last_rule) != 0)
	{
		strcpy(last_rule, rule);
		matched = 0;
	}
	return matched++ < skip ? PASS : action_named(action);
}

static Action
decide_for(const char *operation, int fd)
{
	char		link[64];
	char		path[PATH_MAX];
	ssize_t		length;

	if (getenv("FB_SHIM") == NULL)
		return PASS;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof path - 1);
	if (length < 0)
		return PASS;
	path[length] = '\0';
	return decide(operation, path);
}

static void
stop_here(void)
{
	int			kept_errno = errno;
	char		name[PATH_MAX];
	FILE	   *file;

	snprintf(name, sizeof name, "%s/hit", getenv("FB_SHIM"));
	file = fopen(name, "w");
	if (file != NULL)
	{
		fprintf(file, "%d\n", (int) getpid());
		fclose(file);
	}
	raise(SIGSTOP);
	errno = kept_errno;
}

/* Lines are short enough to be appended whole. */
static void
tell(char what, int fd, long long at, long long bytes)
{
	int			kept_errno = errno;
	char		link[64];
	char		path[PATH_MAX];
	char		line[PATH_MAX + 64];
	ssize_t		length;
	int			file;

	if (getenv("FB_SHIM_LOG") == NULL)
		return;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof path - 1);
	if (length < 0)
		return;
	path[length] = '\0';
	if (strstr(path, "/base/") == NULL)
		return;
	if (what == 'w')
		length = snprintf(line, sizeof line, "w %lld %lld %s\n", at, bytes, path);
	else
		length = snprintf(line, sizeof line, "s %s\n", path);
	snprintf(path, sizeof path, "%s/log", getenv("FB_SHIM"));
	file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (file >= 0)
	{
		if (write(file, line, length) != length)
			abort();
		close(file);
	}
	errno = kept_errno;
}

/* The real call's answer, told of. */
static ssize_t
told(int fd, long long at, ssize_t result)
{
	if (result > 0)
		tell('w', fd, at, result);
	return result;
}

static int
no_sync(void)
{
	return getenv("FB_SHIM_NO_SYNC") != NULL;
}

/* The C library's own function of that name. */
#define REAL(type, name) \
	static type real; \
	if (real == NULL) \
		real = (type) dlsym(RTLD_NEXT, name)

#define AROUND(decision, call) \
	do { \
		Action		action = (decision); \
		ssize_t		result; \
		if (action == FAIL_IO || action == FAIL_SPACE) \
		{ \
			errno = action == FAIL_IO ? EIO : ENOSPC; \
			return -1; \
		} \
		if (action == BEFORE) \
			stop_here(); \
		result = (call); \
		if (action == AFTER || action == HALF) \
			stop_here(); \
		return result; \
	} while (0)

/* Half of the bytes, in whole blocks, as direct writing asks for. */
static size_t
part_of(Action action, size_t bytes)
{
	size_t		half = bytes / 2 / 4096 * 4096;

	return action == HALF && half > 0 ? half : bytes;
}

typedef ssize_t (*write_at) (int, const void *, size_t, off_t);
typedef ssize_t (*write_many) (int, const struct iovec *, int, off_t);
typedef long (*any_call) (long, ...);
typedef int (*on_file) (int);
typedef int (*on_path) (const char *);
typedef int (*cut_path) (const char *, off_t);
typedef int (*cut_file) (int, off_t);

ssize_t
pwrite(int fd, const void *bytes, size_t count, off_t at)
{
	REAL(write_at, "pwrite");
	Action		found = decide_for("write", fd);

	AROUND(found, told(fd, at, real(fd, bytes, part_of(found, count), at)));
}

ssize_t
pwrite64(int fd, const void *bytes, size_t count, off_t at)
{
	return pwrite(fd, bytes, count, at);
}

ssize_t
pwritev(int fd, const struct iovec *vectors, int count, off_t at)
{
	REAL(write_many, "pwritev");
	AROUND(decide_for("write", fd), told(fd, at, real(fd, vectors, count, at)));
}

ssize_t
pwritev64(int fd, const struct iovec *vectors, int count, off_t at)
{
	return pwritev(fd, vectors, count, at);
}

/* The write that is on its way: of one process there is one. */
static struct iocb under_way;
static int	fails_late;

static void
tell_request(const struct iocb *request)
{
	tell('w', request->aio_fildes, request->aio_offset, request->aio_nbytes);
}

static long
begin(any_call real, long context, struct iocb **requests)
{
	long		begun = real(SYS_io_submit, context, 1L, requests);

	under_way = *requests[0];
	if (begun == 1)
		tell_request(&under_way);
	return begun;
}

static long
submit(any_call real, long context, struct iocb **requests)
{
	struct iocb *request = requests[0];
	Action		found = decide_for("write", request->aio_fildes);

	request->aio_nbytes = part_of(found, request->aio_nbytes);
	fails_late = found == LATE;
	AROUND(found, begin(real, context, requests));
}

/* A sync covers what had ended before it: the write is told of once more. */
static long
get_event(any_call real, long context, struct io_event *event)
{
	long		ended = real(SYS_io_getevents, context, 1L, 1L, event, NULL);

	if (ended == 1)
		tell_request(&under_way);
	if (ended == 1 && fails_late)
		event->res = -EIO;
	return ended;
}

long
syscall(long number, ...)
{
	REAL(any_call, "syscall");
	long		given[6];
	va_list		list;

	va_start(list, number);
	for (int at = 0; at < 6; at++)
		given[at] = va_arg(list, long);
	va_end(list);
	if (number == SYS_io_submit)
		return submit(real, given[0], (struct iocb **) given[2]);
	if (number == SYS_io_getevents)
		return get_event(real, given[0], (struct io_event *) given[3]);
	return real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

int
fsync(int fd)
{
	REAL(on_file, "fsync");
	tell('s', fd, 0, 0);
	AROUND(decide_for("sync", fd), no_sync() ? 0 : real(fd));
}

int
fdatasync(int fd)
{
	REAL(on_file, "fdatasync");
	tell('s', fd, 0, 0);
	AROUND(decide_for("sync", fd), no_sync() ? 0 : real(fd));
}

int
unlink(const char *path)
{
	REAL(on_path, "unlink");
	AROUND(decide("cut", path), real(path));
}

int
truncate(const char *path, off_t length)
{
	REAL(cut_path, "truncate");
	AROUND(decide("cut", path), real(path, length));
}

int
truncate64(const char *path, off_t length)
{
	return truncate(path, length);
}

int
ftruncate(int fd, off_t length)
{
	REAL(cut_file, "ftruncate");
	struct stat before;

	if (fstat(fd, &before) == 0 && length > before.st_size)
		return real(fd, length);
	AROUND(decide_for("cut", fd), real(fd, length));
}

int
ftruncate64(int fd, off_t length)
{
	return ftruncate(fd, length);
}
