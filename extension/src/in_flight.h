/*
 * in_flight.h - one write that is under way while the next pages are built.
 */
#ifndef FB_IN_FLIGHT_H
#define FB_IN_FLIGHT_H

#include "postgres.h"

/* Can there be any in this session? */
extern bool fb_in_flight_possible(void);

/*
 * Begins one, where that is possible and there is none as yet. False: nothing was begun, it has to be made in
 * another way.
 */
extern bool fb_in_flight_begin(int fd, const char *bytes, Size count, off_t offset);

/* Waits for it. The bytes that were written; less than it had: why is known to who writes them again. */
extern Size fb_in_flight_end(void);

/*
 * After an error: what is begun ends before its memory is used again. Where the process ends without this, the
 * kernel keeps the memory, and what is written goes with the file.
 */
extern void fb_in_flight_abandon(void);

#endif							/* FB_IN_FLIGHT_H */
