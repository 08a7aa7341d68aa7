/*
 * load.h - one direct COPY, from its options to its last row; or the rows of another table.
 */
#ifndef FB_LOAD_H
#define FB_LOAD_H

#include "compat.h"
#include "store.h"

#include "nodes/parsenodes.h"

typedef struct FbOptions
{
	char	   *descriptor;		/* the hash that the client laid its rows out by */
	bool		freeze;
	FbIo		io;
	bool		indexes;		/* are filled, once fullbore.finish() is called */
	char	   *range_column;	/* NULL: no range */
	char	   *range_from;		/* NULL: no lower bound */
	char	   *range_to;		/* NULL: no upper bound */
	char	   *range_constraint;
} FbOptions;

/* Is this statement ours? */
extern bool fb_is_ours(const CopyStmt *statement);

extern FbOptions fb_read_options(const CopyStmt *statement);

/* Errors where the user may not load directly in this database. */
extern void fb_check_may_load(void);

/* Before a table is locked: a lock is in the way of others. */
extern void fb_check_owner(Oid table);

/* The rows taken. */
extern uint64 fb_load(const CopyStmt *statement, const FbOptions *options);
extern uint64 fb_adopt(Oid into, Oid from);

#endif							/* FB_LOAD_H */
