/*
 * checks.h - what a row must hold beyond its types: NOT NULL, CHECK, the bounds of its partition, the
 * load's range.
 */
#ifndef FB_CHECKS_H
#define FB_CHECKS_H

#include "compat.h"
#include "load.h"
#include "validate.h"

#include "nodes/execnodes.h"

typedef struct FbChecks
{
	Relation	rel;
	EState	   *estate;
	ResultRelInfo *result;
	TupleTableSlot *body_slot;	/* for bodies, a tuple on its page */
	TupleTableSlot *row_slot;	/* for rows that came out of band, values */
	ExprState  *partition;		/* its bounds; NULL: it is none */
	bool		constraints;	/* bodies are held to NOT NULL and CHECK here */
	bool		bodies;			/* bodies need more than the validator's checks */
	bool		are_plain;		/* all of this is computed from the row alone */
	ExprState  *range;			/* NULL: none */
	const char *range_column;
	const char *range_constraint;	/* NULL: not to be installed */
	Node	   *range_expression;	/* for the constraint: analysed, not planned */
} FbChecks;

extern void fb_checks_begin(FbChecks *checks, Relation rel);

/* The range: into the validator where it can do it, as an expression for all other rows. */
extern void fb_range_begin(FbChecks *checks, const FbOptions *options, FbLayout *layout);

/* May it run anything that is not PostgreSQL's own, or depends on more than what it is given? */
extern bool fb_runs_foreign_code(Node *expression);

/* Errors where a row does not pass. */
extern void fb_check_body(FbChecks *checks, HeapTupleHeader tuple, uint32 length);
extern void fb_check_row(FbChecks *checks, TupleTableSlot *slot);

extern void FB_NORETURN fb_range_violated(const FbChecks *checks, bool is_null);

/* All rows have passed: makes the range a CHECK constraint of the table. */
extern void fb_range_install(const FbChecks *checks);

extern void fb_checks_end(FbChecks *checks);

#endif							/* FB_CHECKS_H */
