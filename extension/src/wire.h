/*
 * wire.h - the COPY subprotocol, server's side.
 */
#ifndef FB_WIRE_H
#define FB_WIRE_H

#include "postgres.h"

/* Tells the client to send, and expects its data from now on. */
extern void fb_wire_begin(int columns);

/* Reads so many bytes of the stream; fewer only where it ends. */
extern Size fb_wire_read(void *destination, Size bytes);

/* After an error: reads the rest of a message that was begun, so that the connection stays usable. */
extern void fb_wire_recover(void);

#endif							/* FB_WIRE_H */
