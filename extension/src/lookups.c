/*
 * lookups.c - lets index scans of a partition end at once where its filter says that there is no
 * row with the key.
 *
 * Plans are what they would be otherwise. Before a scan of an ordered index begins, the filters of
 * the columns that it compares with "=" are asked. That is done once, so the values must be the
 * same for the whole of an execution: parameters of joins are not looked at. What a filter denies
 * no snapshot of this execution can see, since bits are set before a row is.
 */
#include "filter.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

static ExecutorStart_hook_type previous_start = NULL;

/* The server's own functions for the two kinds of scans. */
static ExecProcNodeMtd scan_index = NULL;
static ExecProcNodeMtd scan_index_only = NULL;

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* Whether a key of an ordered index says that a column equals a value, as its type means it. */
static bool
is_equality(Relation index, ScanKey key)
{
	int			column = key->sk_attno - 1;

	if (key->sk_strategy != BTEqualStrategyNumber || key->sk_flags != 0)
		return false;
	/* Families of others may think more values equal than the hash does. */
	return lookup_type_cache(index->rd_opcintype[column], TYPECACHE_BTREE_OPFAMILY)->btree_opf
		== index->rd_opfamily[column];
}

/* Whether a filter of the column denies the value of a key. */
static bool
is_denied(Relation filter, Relation index, ScanKey key)
{
	Oid			type = OidIsValid(key->sk_subtype) ? key->sk_subtype
		: index->rd_opcintype[key->sk_attno - 1];
	Form_pg_index form = filter->rd_index;

	if (!fb_is_filter(filter) || !form->indisvalid)
		return false;
	if (form->indkey.values[0] != index->rd_index->indkey.values[key->sk_attno - 1]
		|| form->indkey.values[0] == 0
		|| !heap_attisnull(filter->rd_indextuple, Anum_pg_index_indpred, NULL))
		return false;
	if (type != filter->rd_opcintype[0]
		&& !(is_integer(type) && is_integer(filter->rd_opcintype[0])))
		return false;
	if (OidIsValid(filter->rd_indcollation[0])
		&& filter->rd_indcollation[0] != key->sk_collation)
		return false;
	return !fb_filter_may_have(filter, type, key->sk_argument);
}

/* Whether an index may be one of ours: it is asked once it is open. */
static bool
is_of_others(Oid index)
{
	HeapTuple	row = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
	bool		is_of_others = false;

	if (HeapTupleIsValid(row))
	{
		is_of_others = ((Form_pg_class) GETSTRUCT(row))->relam >= FirstNormalObjectId;
		ReleaseSysCache(row);
	}
	return is_of_others;
}

static bool
is_before(int cache, Oid index, Snapshot snapshot)
{
	HeapTuple	row = SearchSysCache1(cache, ObjectIdGetDatum(index));
	TransactionId writer;
	bool		is_before;

	if (!HeapTupleIsValid(row))
		return false;
	writer = HeapTupleHeaderGetXmin(row->t_data);
	/* A snapshot does not name its own transaction, which may have built it later. */
	is_before = !TransactionIdIsCurrentTransactionId(writer)
		&& !XidInMVCCSnapshot(writer, snapshot);
	ReleaseSysCache(row);
	return is_before;
}

/*
 * Whether a filter was built before a snapshot was taken. It lacks rows that were dead for all on the
 * primary by then, and versions that were updated in place; an older snapshot, of a standby most of
 * all, can still see them. A filter gets a new row in pg_class whenever it is built.
 */
static bool
is_known_to(Oid filter, Snapshot snapshot)
{
	return snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_MVCC
		&& is_before(RELOID, filter, snapshot) && is_before(INDEXRELID, filter, snapshot);
}

/* Whether the filters of a partition deny one of the values that are asked for. */
static bool
has_none(Relation heap, Relation index, ScanKey keys, int count, Snapshot snapshot)
{
	List	   *indexes;
	ListCell   *cell;
	bool		is_empty = false;

	indexes = RelationGetIndexList(heap);
	foreach(cell, indexes)
	{
		Oid			oid = lfirst_oid(cell);
		Relation	filter;

		/* Who builds it again lets nobody in: then the scan is as fast as without it. */
		if (is_empty || !is_of_others(oid) || !ConditionalLockRelationOid(oid, AccessShareLock))
			continue;
		filter = index_open(oid, NoLock);
		for (int n = 0; n < count && !is_empty && is_known_to(oid, snapshot); n++)
			is_empty = is_equality(index, &keys[n]) && is_denied(filter, index, &keys[n]);
		index_close(filter, AccessShareLock);
	}
	list_free(indexes);
	return is_empty;
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
	Relation	heap = ((ScanState *) state)->ss_currentRelation;
	ExecProcNodeMtd next = is_only ? scan_index_only : scan_index;

	/* As the scan itself begins. */
	if (is_only ? only->ioss_NumRuntimeKeys != 0 && !only->ioss_RuntimeKeysReady
		: scan->iss_NumRuntimeKeys != 0 && !scan->iss_RuntimeKeysReady)
		ExecReScan(state);
	if (is_only ? has_none(heap, only->ioss_RelationDesc, only->ioss_ScanKeys,
						   only->ioss_NumScanKeys, state->state->es_snapshot)
		: has_none(heap, scan->iss_RelationDesc, scan->iss_ScanKeys, scan->iss_NumScanKeys,
				   state->state->es_snapshot))
		next = no_row;
	/* From now on it is called itself. */
	ExecSetExecProcNode(state, next);
	return next(state);
}

/* Whether the values that are computed first are the same however often the scan begins anew. */
static bool
are_fixed(PlanState *state, IndexRuntimeKeyInfo *keys, int count)
{
	/* Parameters that are computed within the execution, such as those of joins. */
	if (count != 0 && !bms_is_empty(state->plan->allParam))
		return false;
	for (int n = 0; n < count; n++)
	{
		if (contain_volatile_functions((Node *) keys[n].key_expr->expr))
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
		|| state->plan->parallel_aware || !are_fixed(state, keys, count))
		return;
	if (*own == NULL)
		*own = state->ExecProcNodeReal;
	if (state->ExecProcNodeReal == *own)
		ExecSetExecProcNode(state, scan_after_filters);
}

static bool
watch_all(PlanState *state, void *context)
{
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
	return planstate_tree_walker(state, watch_all, context);
}

static void
start(QueryDesc *query, int flags)
{
	if (previous_start != NULL)
		previous_start(query, flags);
	else
		standard_ExecutorStart(query, flags);
	/* A scan that is left out would leave no trace for others to conflict with. */
	if (query->planstate != NULL && (flags & EXEC_FLAG_EXPLAIN_ONLY) == 0
		&& !IsolationIsSerializable())
		watch_all(query->planstate, NULL);
}

void
fb_lookups_init(void)
{
	previous_start = ExecutorStart_hook;
	ExecutorStart_hook = start;
}
