/*
 * lookups.c - lets lookups leave out partitions whose filters say that there is no row with the key.
 *
 * Plans are what they would be otherwise. When one is started, scans below its topmost Append are
 * left out (subplans.c). Elsewhere a scan of an ordered index ends at once: before it begins, the
 * filters of the columns that it compares with "=" are asked. That is done once, so the values must be
 * the same for the whole of an execution: parameters of joins are not looked at.
 */
#include "filter.h"

#include "access/nbtree.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"

static ExecutorStart_hook_type previous_start = NULL;

/* The server's own functions for the two kinds of scans. */
static ExecProcNodeMtd scan_index = NULL;
static ExecProcNodeMtd scan_index_only = NULL;

/* Whether filters deny that a scan of an index finds anything. */
static bool
has_none(ScanState *state, Relation index, ScanKey keys, int count)
{
	FbEquality *wanted = palloc(sizeof(FbEquality) * count);
	int			known = 0;
	bool		has_none;

	for (ScanKey key = keys; key < keys + count; key++)
	{
		int			column = key->sk_attno - 1;
		Oid			own = index->rd_opcintype[column];
		AttrNumber	heap_column = index->rd_index->indkey.values[column];

		if (key->sk_flags != 0 || heap_column == 0
			|| key->sk_strategy != BTEqualStrategyNumber
			|| index->rd_opfamily[column] != fb_own_family(own))
			continue;
		wanted[known++] = (FbEquality)
		{
			.column = heap_column,
				.type = OidIsValid(key->sk_subtype) ? key->sk_subtype : own,
				.collation = key->sk_collation,.value = key->sk_argument
		};
	}
	has_none = fb_has_none(state->ss_currentRelation, wanted, known,
						   state->ps.state->es_snapshot);
	pfree(wanted);
	return has_none;
}

static TupleTableSlot *
no_row(PlanState *state)
{
	return NULL;
}

static TupleTableSlot *
scan_after_filters(PlanState *state)
{
	bool		is_only = IsA(state, IndexOnlyScanState);
	IndexScanState *scan = (IndexScanState *) state;
	IndexOnlyScanState *only = (IndexOnlyScanState *) state;
	ExecProcNodeMtd next = is_only ? scan_index_only : scan_index;

	/* As the scan itself begins. */
	if (is_only ? only->ioss_NumRuntimeKeys != 0 && !only->ioss_RuntimeKeysReady
		: scan->iss_NumRuntimeKeys != 0 && !scan->iss_RuntimeKeysReady)
		ExecReScan(state);
	if (is_only
		? has_none(&only->ss, only->ioss_RelationDesc, only->ioss_ScanKeys, only->ioss_NumScanKeys)
		: has_none(&scan->ss, scan->iss_RelationDesc, scan->iss_ScanKeys, scan->iss_NumScanKeys))
		next = no_row;
	/* From now on it is called itself. */
	ExecSetExecProcNode(state, next);
	return next(state);
}

/* Whether the values that are computed first are the same however often the scan begins again. */
static bool
are_fixed(IndexRuntimeKeyInfo *keys, int count)
{
	for (int n = 0; n < count; n++)
	{
		if (!fb_is_fixed((Node *) keys[n].key_expr->expr))
			return false;
	}
	return true;
}

/* Puts the question before a scan, where filters can be. */
static void
watch(PlanState *state, ExecProcNodeMtd *own, Relation index, IndexRuntimeKeyInfo *keys, int count)
{
	Relation	heap = ((ScanState *) state)->ss_currentRelation;

	if (index == NULL || index->rd_rel->relam != BTREE_AM_OID || !heap->rd_rel->relispartition
		|| state->plan->parallel_aware || !are_fixed(keys, count))
		return;
	if (*own == NULL)
		*own = state->ExecProcNodeReal;
	if (state->ExecProcNodeReal == *own)
		ExecSetExecProcNode(state, scan_after_filters);
}

/* Watches all scans, but for those whose filters were asked when others were left out. */
static bool
watch_all(PlanState *state, void *asked)
{
	if (state->plan == asked)
		return false;
	if (IsA(state, IndexScanState))
	{
		IndexScanState *scan = (IndexScanState *) state;

		watch(state, &scan_index, scan->iss_RelationDesc, scan->iss_RuntimeKeys,
			  scan->iss_NumRuntimeKeys);
	}
	else if (IsA(state, IndexOnlyScanState))
	{
		IndexOnlyScanState *scan = (IndexOnlyScanState *) state;

		watch(state, &scan_index_only, scan->ioss_RelationDesc, scan->ioss_RuntimeKeys,
			  scan->ioss_NumRuntimeKeys);
	}
	return planstate_tree_walker(state, watch_all, asked);
}

static void
start(QueryDesc *query, int flags)
{
	/* A scan that is left out would leave no trace for others to conflict with. */
	bool		may_ask = (flags & EXEC_FLAG_EXPLAIN_ONLY) == 0 && !IsolationIsSerializable();
	FbLeftOut	left = {0};
	bool		is_less = may_ask && fb_leave_out(query, &left);

	if (previous_start != NULL)
		previous_start(query, flags);
	else
		standard_ExecutorStart(query, flags);
	if (is_less)
		fb_put_back(query, &left);
	if (may_ask && query->planstate != NULL)
		watch_all(query->planstate, left.whole);
}

void
fb_lookups_init(void)
{
	previous_start = ExecutorStart_hook;
	ExecutorStart_hook = start;
}
