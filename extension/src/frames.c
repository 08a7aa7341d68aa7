/*
 * frames.c - the frames of a stream: header, checksum, codec.
 *
 * A header is believed in nothing: memory is taken as data arrives, not as it is announced, and
 * a payload is decoded into exactly as many bytes as were announced, within limits.
 */
#include "frames.h"
#include "guard.h"
#include "wire.h"

#include "port/pg_crc32c.h"
#include "utils/memutils.h"

#ifdef FB_WITH_LZ4
#include <lz4.h>
#endif
#ifdef FB_WITH_ZSTD
#include <zstd.h>
#endif

#define HEADER_BYTES 24
#define MAGIC "FBF1"
#define BODIES_BYTES_MAX (4 * 1024 * 1024)
#define ROWS_BYTES_MAX (1024 * 1024 * 1024 - 1)
#define CODEC_NONE 0
#define CODEC_LZ4 1
#define CODEC_ZSTD 2

/* Taken at once; more only when so much has really come. */
#define FIRST_STEP (1024 * 1024)

/* What an encoder may add to data that it can't make shorter: a 128th and some. */
#define WIRE_BYTES_MAX(raw) ((uint64) (raw) + (raw) / 128 + 1024)

typedef struct Header
{
	char		magic[4];
	char		kind;
	uint8		codec;
	uint16		zero;
	uint32		rows;
	uint32		raw_bytes;
	uint32		wire_bytes;
	uint32		crc;
} Header;

StaticAssertDecl(sizeof(Header) == HEADER_BYTES, "the header has no padding");

void
fb_frames_begin(FbFrames *frames)
{
	memset(frames, 0, sizeof *frames);
	frames->context = CurrentMemoryContext;
}

static void FB_NORETURN
bad_frame(const FbFrames *frames, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("frame " UINT64_FORMAT " of the direct load is not valid", frames->number),
			 errdetail_internal("%s", detail),
			 errhint("This is a bug in the client, or the data was corrupted in transit: load "
					 "by COPY (--method copy) and report it.")));
}

static void
make_room(const FbFrames *frames, FbBuffer *buffer, Size bytes)
{
	Size		room = Max(buffer->room, FIRST_STEP);

	if (buffer->room >= bytes)
		return;
	while (room < bytes)
		room *= 2;
	room = Min(room, MaxAllocSize);
	if (buffer->data == NULL)
		buffer->data = MemoryContextAlloc(frames->context, room);
	else
		buffer->data = repalloc(buffer->data, room);
	buffer->room = room;
	fb_guard_begin(frames->context, buffer->data, room);
}

/* What is behind a payload is nobody's. */
static void
close_behind(const FbBuffer *buffer, Size bytes)
{
	if (buffer->data != NULL)
		fb_guard_close(buffer->data + bytes, buffer->room - bytes);
}

static void
open_all(const FbBuffer *buffer)
{
	if (buffer->data != NULL)
		fb_guard_open(buffer->data, buffer->room);
}

static void
check_header(const FbFrames *frames, const Header *header)
{
	uint32		limit = header->kind == 'B' ? BODIES_BYTES_MAX : ROWS_BYTES_MAX;

	if (memcmp(header->magic, MAGIC, sizeof header->magic) != 0)
		bad_frame(frames, "It does not begin with FBF1.");
	if (header->kind != 'B' && header->kind != 'C' && header->kind != 'T')
		bad_frame(frames, psprintf("Its kind is 0x%02x, neither B, C nor T.",
								   (unsigned char) header->kind));
	if (header->zero != 0)
		bad_frame(frames, "Bytes that must be zero are not.");
	if (header->raw_bytes > limit)
		bad_frame(frames, psprintf("Its payload would be %u bytes, the limit is %u.",
								   header->raw_bytes, limit));
	if (header->codec == CODEC_NONE ? header->wire_bytes != header->raw_bytes
		: header->wire_bytes > Min(WIRE_BYTES_MAX(header->raw_bytes), MaxAllocSize))
		bad_frame(frames, psprintf("Its payload of %u bytes cannot be sent as %u bytes.",
								   header->raw_bytes, header->wire_bytes));
	/* A row has two bytes at least, its length; of text, its line feed. */
	if (header->rows > header->raw_bytes / (header->kind == 'T' ? 1 : 2))
		bad_frame(frames, psprintf("It cannot contain %u rows in %u bytes.",
								   header->rows, header->raw_bytes));
}

static void
read_payload(FbFrames *frames, const Header *header)
{
	Size		done = 0;
	pg_crc32c	crc;

	while (done < header->wire_bytes)
	{
		Size		step = Min(header->wire_bytes - done, Max(done, FIRST_STEP));

		make_room(frames, &frames->wire, done + step);
		if (fb_wire_read(frames->wire.data + done, step) != step)
			bad_frame(frames, "The stream ended inside its payload.");
		done += step;
	}
	INIT_CRC32C(crc);
	if (done > 0)
		COMP_CRC32C(crc, frames->wire.data, done);
	FIN_CRC32C(crc);
	if (!EQ_CRC32C(crc, header->crc))
		bad_frame(frames, psprintf("Its CRC-32C is %08x, its header says %08x.",
								   crc, header->crc));
}

/* The decoded bytes, or -1. */
static int64
decode(const Header *header, const char *wire, char *raw)
{
	switch (header->codec)
	{
#ifdef FB_WITH_LZ4
		case CODEC_LZ4:
			return LZ4_decompress_safe(wire, raw, (int) header->wire_bytes,
									   (int) header->raw_bytes);
#endif
#ifdef FB_WITH_ZSTD
		case CODEC_ZSTD:
			{
				size_t		got = ZSTD_decompress(raw, header->raw_bytes, wire,
												  header->wire_bytes);

				return ZSTD_isError(got) ? -1 : (int64) got;
			}
#endif
		default:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("this server does not support codec %u", header->codec),
					 errhint("\"codecs\" of fullbore.descriptor() lists the supported codecs.")));
	}
}

bool
fb_next_frame(FbFrames *frames, FbFrame *frame)
{
	Header		header;
	Size		got = fb_wire_read(&header, sizeof header);

	if (got == 0)
		return false;
	frames->number++;
	open_all(&frames->wire);
	open_all(&frames->raw);
	if (got != sizeof header)
		bad_frame(frames, "The stream ended inside its header.");
	check_header(frames, &header);
	read_payload(frames, &header);
	close_behind(&frames->wire, header.wire_bytes);

	frame->kind = header.kind;
	frame->rows = header.rows;
	frame->bytes = header.raw_bytes;
	frame->payload = frames->wire.data;
	if (header.codec != CODEC_NONE)
	{
		make_room(frames, &frames->raw, header.raw_bytes);
		close_behind(&frames->raw, header.raw_bytes);
		if (decode(&header, frames->wire.data, frames->raw.data) != (int64) header.raw_bytes)
			bad_frame(frames, "Its payload cannot be decoded to the announced length.");
		frame->payload = frames->raw.data;
	}
	return true;
}
