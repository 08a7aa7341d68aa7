/*
 * hook.c - teaches COPY the format "fullbore".
 *
 * The hook looks at COPY ... FROM STDIN (FORMAT fullbore) alone and hands everything else on, as
 * it came, to whoever was there before.
 */
#include "compat.h"
#include "filter.h"
#include "load.h"
#include "indexes.h"
#include "state.h"
#include "writers.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_func.h"
#include "tcop/cmdtag.h"
#include "tcop/dest.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

static ProcessUtility_hook_type previous_hook = NULL;

/* The library can be loaded in a database that knows nothing of it, or for a user who may not. */
void
fb_check_may_load(void)
{
	Oid			argument = REGCLASSOID;
	List	   *name = list_make2(makeString("fullbore"), makeString("descriptor"));
	Oid			function = InvalidOid;
	AclResult	may;

	/* No lock was taken yet that would have told us of a REVOKE. */
	AcceptInvalidationMessages();
	if (OidIsValid(get_extension_oid("fullbore", true)))
		function = LookupFuncName(name, 1, &argument, true);
	if (!OidIsValid(function))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"fullbore\" is not installed in this database"),
				 errhint("Ask a superuser to run CREATE EXTENSION fullbore.")));
	may = FbFunctionAclcheck(function);
	if (may != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for direct loads"),
				 errhint("Ask a superuser to grant EXECUTE on fullbore.descriptor(regclass).")));
}

void
fb_check_owner(Oid table)
{
	if (!FbOwnsRelation(table))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(table));
}

static void
check_statement(const CopyStmt *statement, ProcessUtilityContext context)
{
	if (!statement->is_from || statement->filename != NULL || statement->is_program
		|| statement->relation == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("COPY format \"fullbore\" supports only COPY table FROM STDIN")));
	if (statement->whereClause != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("COPY format \"fullbore\" does not support WHERE"),
				 errhint("Filter rows before they are sent.")));
	if (context != PROCESS_UTILITY_TOPLEVEL || whereToSendOutput != DestRemote)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("COPY format \"fullbore\" cannot be used in a function"),
				 errhint("Send it as a top-level statement.")));
	PreventCommandIfReadOnly("COPY FROM");
	PreventCommandIfParallelMode("COPY FROM");
	PreventCommandDuringRecovery("COPY FROM");
}

static void
process_utility(PlannedStmt *planned, const char *query, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *destination,
				QueryCompletion *completion)
{
	if (IsA(planned->utilityStmt, CopyStmt) && fb_is_ours((CopyStmt *) planned->utilityStmt))
	{
		/* The hook may scribble, a cached plan may not be scribbled on. */
		const CopyStmt *statement = copyObject((CopyStmt *) planned->utilityStmt);
		FbOptions	options;
		uint64		rows;

		check_statement(statement, context);
		fb_check_may_load();
		options = fb_read_options(statement);
		rows = fb_load(statement, &options);
		if (completion != NULL)
			SetQueryCompletion(completion, CMDTAG_COPY, rows);
		return;
	}
	if (previous_hook != NULL)
		previous_hook(planned, query, read_only_tree, context, params, environment, destination,
					  completion);
	else
		standard_ProcessUtility(planned, query, read_only_tree, context, params, environment,
								destination, completion);
}

void
_PG_init(void)
{
	previous_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	fb_state_init();
	fb_indexes_init();
	fb_writers_init();
	fb_lookups_init();
}
