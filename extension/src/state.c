/*
 * state.c - what this transaction has written directly so far.
 *
 * A table is loaded when it is empty, or when all it holds came from earlier direct loads of the
 * same transaction. So for each storage we remember how many blocks it had when we left it. Were
 * a row put behind these by anyone else, there would be more of them. A TRUNCATE of storage that is
 * new happens in place, and others may then fill just as many blocks: so it is forgotten before.
 *
 * Subtransactions need nothing, but that a TRUNCATE which is rolled back has been forgotten of: the table is loaded
 * no further then. A direct load asks for storage that is new in the very
 * subtransaction, so what is remembered goes with it: when that is rolled back, the storage is
 * removed and its number not given again in this transaction; and a storage without blocks is
 * taken whatever is remembered of it.
 */
#include "state.h"
#include "indexes.h"
#include "shared.h"
#include "writers.h"

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

typedef struct FbWritten
{
	FbLocator	locator;
	Oid			table;
	BlockNumber blocks;
	struct FbWritten *next;
} FbWritten;

static FbWritten *written = NULL;	/* in TopTransactionContext */

static void
transaction_ends(XactEvent event, void *argument)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			written = NULL;
			break;
		default:
			break;
	}
}

static object_access_hook_type previous_hook = NULL;

static void
object_accessed(ObjectAccessType access, Oid class, Oid object, int sub, void *argument)
{
	if (previous_hook != NULL)
		previous_hook(access, class, object, sub, argument);
	if (access != OAT_TRUNCATE || class != RelationRelationId)
		return;
	/* We are called before the server itself looks whether the table is in use. */
	if (fb_writers_is_loaded(object))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot TRUNCATE \"%s\" because it is being loaded directly",
						get_rel_name(object))));
	for (FbWritten *at = written; at != NULL; at = at->next)
		if (at->table == object)
			at->blocks = 0;
	fb_indexes_forget(object);
	fb_shared_forget(object);
}

void
fb_state_init(void)
{
	RegisterXactCallback(transaction_ends, NULL);
	previous_hook = object_access_hook;
	object_access_hook = object_accessed;
}

static FbWritten *
find(Relation rel)
{
	for (FbWritten *at = written; at != NULL; at = at->next)
		if (FbLocatorEquals(at->locator, FbRelationLocator(rel)))
			return at;
	return NULL;
}

BlockNumber
fb_state_blocks(Relation rel)
{
	FbWritten  *found = find(rel);

	return found == NULL ? 0 : found->blocks;
}

void
fb_state_remember(Relation rel, BlockNumber blocks)
{
	FbWritten  *found = find(rel);

	if (found == NULL)
	{
		found = MemoryContextAlloc(TopTransactionContext, sizeof(FbWritten));
		found->locator = FbRelationLocator(rel);
		found->table = RelationGetRelid(rel);
		found->next = written;
		written = found;
	}
	found->blocks = blocks;
}
