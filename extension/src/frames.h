/*
 * frames.h - the frames of a stream: header, checksum, codec.
 */
#ifndef FB_FRAMES_H
#define FB_FRAMES_H

#include "compat.h"

typedef struct FbFrame
{
	char		kind;			/* 'B', 'C' or 'T' */
	uint32		rows;
	uint32		bytes;
	const char *payload;		/* decoded; valid until the next frame is read */
} FbFrame;

typedef struct FbBuffer
{
	char	   *data;
	Size		room;
} FbBuffer;

typedef struct FbFrames
{
	MemoryContext context;
	uint64		number;			/* of the frame at hand, from 1 */
	FbBuffer	wire;			/* as it came */
	FbBuffer	raw;			/* decoded */
} FbFrames;

extern void fb_frames_begin(FbFrames *frames);

/* False where the stream has ended, on a frame's end. */
extern bool fb_next_frame(FbFrames *frames, FbFrame *frame);

#endif							/* FB_FRAMES_H */
