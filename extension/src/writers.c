/*
 * writers.c - keeps the functions of a table (defaults, checks) from writing to it while it is loaded.
 *
 * Pages of a load pass the buffer manager by, which is right as long as nobody else writes to the
 * table. Other sessions can't, it is new in this transaction; but code of the table's owner runs for
 * each row in this very session. What it would insert, update or delete is refused here, by the
 * executor's look at privileges: of a statement on a partitioned table, it is asked of that table
 * alone, whatever partitions it writes to. That nothing came in another way is seen by the length of
 * the file (store.c).
 */
#include "writers.h"

#include "catalog/partition.h"
#include "executor/executor.h"
#include "nodes/parsenodes.h"
#include "utils/lsyscache.h"

#define FB_WRITES (ACL_INSERT | ACL_UPDATE | ACL_DELETE)

static ExecutorCheckPerms_hook_type previous_hook = NULL;
static Oid	loaded = InvalidOid;
static List *its_ancestors = NIL;	/* in the memory of the COPY */

static bool
writes_to_it(List *wanted)
{
	ListCell   *cell;

	foreach(cell, wanted)
	{
		FbWanted   *one = (FbWanted *) lfirst(cell);

		if ((one->requiredPerms & FB_WRITES) != 0
			&& (one->relid == loaded || list_member_oid(its_ancestors, one->relid)))
			return true;
	}
	return false;
}

static void
refuse(List *wanted)
{
	if (OidIsValid(loaded) && writes_to_it(wanted))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("table \"%s\" cannot be written to while it is being loaded directly",
						get_rel_name(loaded)),
				 errdetail("A default or a check of the table writes to the table itself."),
				 errhint("Load by COPY (--method copy).")));
}

#if PG_VERSION_NUM >= 160000
static bool
check_permissions(List *range_table, List *wanted, bool errors)
{
	refuse(wanted);
	return previous_hook == NULL || previous_hook(range_table, wanted, errors);
}
#else
static bool
check_permissions(List *range_table, bool errors)
{
	refuse(range_table);
	return previous_hook == NULL || previous_hook(range_table, errors);
}
#endif

void
fb_writers_init(void)
{
	previous_hook = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = check_permissions;
}

bool
fb_writers_is_loaded(Oid relation)
{
	return OidIsValid(loaded) && relation == loaded;
}

void
fb_writers_refuse_nested(const char *what)
{
	if (OidIsValid(loaded))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("%s cannot be called while table \"%s\" is being loaded directly", what,
						get_rel_name(loaded)),
				 errdetail("A default or a check of the table calls it."),
				 errhint("Load by COPY (--method copy).")));
}

void
fb_writers_refuse(Oid relation)
{
	loaded = relation;
	its_ancestors = OidIsValid(relation) && get_rel_relispartition(relation)
		? get_partition_ancestors(relation) : NIL;
}
