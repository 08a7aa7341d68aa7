/*
 * wire.c - the COPY subprotocol, server's side.
 *
 * CopyData messages are cut anywhere, so this is a plain stream of bytes to its caller. The bytes
 * go straight into the caller's memory: what the server has buffered already is copied, the rest
 * is received in place, in as large pieces as the kernel has.
 *
 * As in COPY itself, a cancel or a timeout acts between messages. An error can come at any byte,
 * though: then the rest of the message is read and thrown away, or the server would have to close
 * the connection, no longer knowing where a message begins.
 */
#include "compat.h"
#include "wire.h"

/*
 * The server's connection is a pointer to us, its members are never looked at. So the libraries
 * that the server was built with (their headers are often not installed) need not be known.
 */
#undef ENABLE_GSS
#undef ENABLE_SSPI
#undef USE_SSL
#undef USE_OPENSSL

#include "lib/stringinfo.h"
#include "libpq/libpq.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/memutils.h"

static Size message_left;		/* bytes of the CopyData message at hand not read yet */
static bool message_begun;		/* its length is known, its end not reached */
static bool stream_ended;		/* CopyDone was there */

void
fb_wire_begin(int columns)
{
	StringInfoData buf;

	message_left = 0;
	message_begun = false;
	stream_ended = false;

	pq_beginmessage(&buf, 'G');
	pq_sendbyte(&buf, 1);		/* binary */
	pq_sendint16(&buf, columns);
	for (int at = 0; at < columns; at++)
		pq_sendint16(&buf, 1);
	pq_endmessage(&buf);
	pq_flush();
}

static void
connection_lost(void)
{
	/* Nothing to read the rest of. */
	message_begun = false;
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("unexpected EOF on client connection during a direct load")));
}

/* The length word of a message, without the word itself. */
static Size
read_length(int largest)
{
	uint32		length;

	if (pq_getbytes((void *) &length, 4) != 0)
		connection_lost();
	length = pg_ntoh32(length);
	if (length < 4 || length > (uint32) largest)
	{
		/* Where the next message begins can't be known: the server closes the connection. */
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("invalid message length %u during a direct load", length)));
	}
	return length - 4;
}

/* A message that is not data: its text. */
static char *
read_small(void)
{
	Size		length = read_length(PQ_SMALL_MESSAGE_LIMIT);
	char	   *text = palloc(length + 1);

	if (length > 0 && pq_getbytes(text, length) != 0)
		connection_lost();
	text[length] = '\0';
	pq_endmsgread();
	return text;
}

/* Goes to the next message with data in it; false where the stream has ended. */
static bool
next_message(void)
{
	while (!stream_ended)
	{
		int			type;
		char	   *text;

		CHECK_FOR_INTERRUPTS();
		HOLD_CANCEL_INTERRUPTS();
		pq_startmsgread();
		type = pq_getbyte();
		switch (type)
		{
			case EOF:
				connection_lost();
				break;
			case 'd':
				message_left = read_length(PQ_LARGE_MESSAGE_LIMIT);
				message_begun = true;
				if (message_left > 0)
				{
					RESUME_CANCEL_INTERRUPTS();
					return true;
				}
				pq_endmsgread();
				message_begun = false;
				break;
			case 'c':
				pfree(read_small());
				stream_ended = true;
				break;
			case 'f':
				text = read_small();
				RESUME_CANCEL_INTERRUPTS();
				ereport(ERROR,
						(errcode(ERRCODE_QUERY_CANCELED),
						 errmsg("COPY from stdin failed: %s",
								pg_client_to_server(text, strlen(text)))));
				break;
			case 'H':
			case 'S':
				/* Some drivers send them without noticing that they are in a COPY. */
				pfree(read_small());
				break;
			default:
				ereport(ERROR,
						(errcode(ERRCODE_PROTOCOL_VIOLATION),
						 errmsg("unexpected message type 0x%02X during COPY from stdin", type)));
		}
		RESUME_CANCEL_INTERRUPTS();
	}
	return false;
}

/* Bytes of one message, all of them. */
static void
read_message_bytes(char *destination, Size bytes)
{
	while (bytes > 0)
	{
		ssize_t		buffered = FbBufferedBytes();

		if (buffered > 0)
		{
			Size		now = Min((Size) buffered, bytes);

			if (pq_getbytes(destination, now) != 0)
				connection_lost();
			destination += now;
			bytes -= now;
			message_left -= now;
		}
		else
		{
			ssize_t		got;

			errno = 0;
			got = secure_read(MyProcPort, destination, bytes);
			if (got < 0 && errno == EINTR)
				continue;
			if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			{
				/* Somebody left the socket not blocking; this makes it block again. */
				got = pq_getbytes(destination, 1) == 0 ? 1 : 0;
			}
			if (got <= 0)
				connection_lost();
			destination += got;
			bytes -= got;
			message_left -= got;
		}
	}
}

Size
fb_wire_read(void *destination, Size bytes)
{
	Size		done = 0;

	while (done < bytes && (message_begun || next_message()))
	{
		Size		now = Min(bytes - done, message_left);

		HOLD_CANCEL_INTERRUPTS();
		read_message_bytes((char *) destination + done, now);
		if (message_left == 0)
		{
			pq_endmsgread();
			message_begun = false;
		}
		RESUME_CANCEL_INTERRUPTS();
		done += now;
	}
	return done;
}

void
fb_wire_recover(void)
{
	char		waste[8192];

	if (!message_begun || !pq_is_reading_msg())
		return;
	HOLD_CANCEL_INTERRUPTS();
	while (message_left > 0)
	{
		Size		now = Min(message_left, sizeof waste);

		/* Where the client is gone too, the server notices by itself. */
		if (pq_getbytes(waste, now) != 0)
		{
			message_begun = false;
			RESUME_CANCEL_INTERRUPTS();
			return;
		}
		message_left -= now;
	}
	pq_endmsgread();
	message_begun = false;
	RESUME_CANCEL_INTERRUPTS();
}
