/*
 * guard.h - lets AddressSanitizer see the ends of what lies in larger memory.
 *
 * A frame's payload stands in a buffer that is used again, a body in the middle of a payload, a
 * page in the middle of a run: reading past their ends stays within allocated memory, and the
 * sanitizer has nothing to say. So, in builds with it, and in these alone, the bytes behind are
 * closed off. Memory that was closed is opened again when its context goes, since the server may
 * wipe it then.
 */
#ifndef FB_GUARD_H
#define FB_GUARD_H

#include "postgres.h"

#include "utils/palloc.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>

/* As far behind the end of a body as is closed: all of it would cost too much for each row. */
#define FB_GUARD_BYTES 4096

typedef struct FbGuard
{
	MemoryContextCallback callback;
	const void *memory;
	Size		bytes;
} FbGuard;

static inline void
fb_guard_open(const void *memory, Size bytes)
{
	ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
}

static inline void
fb_guard_close(const void *memory, Size bytes)
{
	ASAN_POISON_MEMORY_REGION(memory, bytes);
}

static inline void
fb_guard_context_ends(void *argument)
{
	FbGuard    *guard = argument;

	fb_guard_open(guard->memory, guard->bytes);
}

/* For memory that will be closed, once it is taken from a context. */
static inline void
fb_guard_begin(MemoryContext context, const void *memory, Size bytes)
{
	FbGuard    *guard = MemoryContextAlloc(context, sizeof(FbGuard));

	guard->callback.func = fb_guard_context_ends;
	guard->callback.arg = guard;
	guard->memory = memory;
	guard->bytes = bytes;
	MemoryContextRegisterResetCallback(context, &guard->callback);
}
#else
#define FB_GUARD_BYTES 0
#define fb_guard_open(memory, bytes) ((void) (memory))
#define fb_guard_close(memory, bytes) ((void) (memory))
#define fb_guard_begin(context, memory, bytes) ((void) (memory))
#endif

#endif							/* FB_GUARD_H */
