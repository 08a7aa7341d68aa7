/*
 * state.h - what this transaction has written directly so far.
 */
#ifndef FB_STATE_H
#define FB_STATE_H

#include "compat.h"

extern void fb_state_init(void);

/* How many blocks of this storage are ours; 0: none. */
extern BlockNumber fb_state_blocks(Relation rel);

extern void fb_state_remember(Relation rel, BlockNumber blocks);

#endif							/* FB_STATE_H */
