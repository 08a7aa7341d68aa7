/*
 * filter.h - the index access method "fullbore_filter", and what asks it.
 */
#ifndef FB_FILTER_H
#define FB_FILTER_H

#include "postgres.h"

#include "executor/execdesc.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/* Is the index one of ours? */
extern bool fb_is_filter(Relation index);

/* May a row with this value be there? The value is of the type that the index is declared for. */
extern bool fb_filter_may_have(Relation index, Oid type, Datum value);

/* What rows must have: a column equals a value of a type, as the column's own order means it. */
typedef struct FbEquality
{
	AttrNumber	column;
	Oid			type;
	Oid			collation;
	Datum		value;
} FbEquality;

/* The family that a type is ordered by: those of others may think more values equal than a hash does. */
extern Oid fb_own_family(Oid type);

/* Whether filters of a table deny that a snapshot sees a row for which all of these hold. */
extern bool fb_has_none(Relation heap, const FbEquality *wanted, int count, Snapshot snapshot);

/* Whether an expression has the same value for the whole of an execution. */
extern bool fb_is_fixed(Node *expr);

/* What a query had before scans were left out. */
typedef struct FbLeftOut
{
	PlannedStmt *statement;
	/* The Append. */
	Plan	   *whole;
	/* Of what it has instead. */
	MemoryContext memory;
} FbLeftOut;

/* Gives a query a plan without the scans that filters deny, before it starts; false where none is. */
extern bool fb_leave_out(QueryDesc *query, FbLeftOut *left);

/* Once it has started: others see the plan as it was, and EXPLAIN how many scans there were. */
extern void fb_put_back(QueryDesc *query, const FbLeftOut *left);

/* Lets lookups by keys leave out partitions whose filters say that they don't have them. */
extern void fb_lookups_init(void);

#endif							/* FB_FILTER_H */
