/*
 * in_flight.c - one write that is under way while the next pages are built.
 *
 * By Linux's asynchronous calls, which need neither a library nor a thread, and which containers
 * allow where they forbid io_uring. They hold for O_DIRECT alone, and only within a file: a write
 * that makes it longer is waited for by the kernel (iomap), so that whoever asks makes it longer first.
 *
 * The context is the session's. It is never given back: the kernel does that when the process ends,
 * and waits for what is under way then.
 */
#include "in_flight.h"

#ifdef __linux__

#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

static aio_context_t context = 0;
static bool is_refused = false;	/* by this server's system */
static bool is_under_way = false;
static struct iocb request;

bool
fb_in_flight_possible(void)
{
	if (context == 0 && !is_refused)
		is_refused = syscall(SYS_io_setup, 1L, &context) != 0;
	return !is_refused;
}

bool
fb_in_flight_begin(int fd, const char *bytes, Size count, off_t offset)
{
	struct iocb *requests[1] = {&request};

	Assert(context != 0 && !is_under_way);
	memset(&request, 0, sizeof request);
	request.aio_lio_opcode = IOCB_CMD_PWRITE;
	request.aio_fildes = fd;
	request.aio_buf = (uintptr_t) bytes;
	request.aio_nbytes = count;
	request.aio_offset = offset;
	is_under_way = syscall(SYS_io_submit, context, 1L, requests) == 1;
	return is_under_way;
}

Size
fb_in_flight_end(void)
{
	struct io_event event;
	long		ended;

	if (!is_under_way)
		return 0;
	do
		ended = syscall(SYS_io_getevents, context, 1L, 1L, &event, NULL);
	while (ended < 0 && errno == EINTR);
	/* Nothing can be known of memory that the kernel may still read. */
	if (ended != 1)
		elog(FATAL, "could not wait for a write: %m");
	is_under_way = false;
	return event.res > 0 ? (Size) event.res : 0;
}

#else

bool
fb_in_flight_possible(void)
{
	return false;
}

bool
fb_in_flight_begin(int fd, const char *bytes, Size count, off_t offset)
{
	return false;
}

Size
fb_in_flight_end(void)
{
	return 0;
}

#endif

void
fb_in_flight_abandon(void)
{
	(void) fb_in_flight_end();
}
