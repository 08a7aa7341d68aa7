/*
 * ask.c - whether filters of a partition deny the rows that a query wants.
 *
 * What a filter denies no snapshot of the execution can see, since bits are set before a row is.
 */
#include "filter.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

Oid
fb_own_family(Oid type)
{
	return lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
}

static bool
is_changing(Node *node, void *context)
{
	if (node == NULL)
		return false;
	/* Computed within the execution, as those of joins are. */
	if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan)
		|| (IsA(node, Param) && ((Param *) node)->paramkind != PARAM_EXTERN))
		return true;
	return expression_tree_walker(node, is_changing, context);
}

bool
fb_is_fixed(Node *expr)
{
	return !is_changing(expr, NULL) && !contain_volatile_functions(expr);
}

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* Whether a filter denies that a column has a value. */
static bool
is_denied(Relation filter, const FbEquality *wanted)
{
	Form_pg_index form = filter->rd_index;
	Oid			own = filter->rd_opcintype[0];

	if (form->indkey.values[0] != wanted->column)
		return false;
	if (wanted->type != own && !(is_integer(wanted->type) && is_integer(own)))
		return false;
	if (OidIsValid(filter->rd_indcollation[0])
		&& filter->rd_indcollation[0] != wanted->collation)
		return false;
	return !fb_filter_may_have(filter, wanted->type, wanted->value);
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
 * all, can still see them. A filter gets a new row in pg_class whenever it is built. One that was
 * dropped, which a standby does not wait for us to end with, has none.
 */
static bool
is_known_to(Oid filter, Snapshot snapshot)
{
	return is_before(RELOID, filter, snapshot) && is_before(INDEXRELID, filter, snapshot);
}

bool
fb_has_none(Relation heap, const FbEquality *wanted, int count, Snapshot snapshot)
{
	List	   *indexes;
	ListCell   *cell;
	bool		is_empty = false;

	if (count == 0 || snapshot == NULL || snapshot->snapshot_type != SNAPSHOT_MVCC)
		return false;
	indexes = RelationGetIndexList(heap);
	foreach(cell, indexes)
	{
		Oid			oid = lfirst_oid(cell);
		Relation	filter;

		/* Who builds it again lets nobody in: then the scan is as fast as without it. */
		if (is_empty || !is_of_others(oid) || !ConditionalLockRelationOid(oid, AccessShareLock))
			continue;
		if (!is_known_to(oid, snapshot))
		{
			UnlockRelationOid(oid, AccessShareLock);
			continue;
		}
		filter = index_open(oid, NoLock);
		if (fb_is_filter(filter) && filter->rd_index->indisvalid
			&& heap_attisnull(filter->rd_indextuple, Anum_pg_index_indpred, NULL))
		{
			for (int n = 0; n < count && !is_empty; n++)
				is_empty = is_denied(filter, &wanted[n]);
		}
		index_close(filter, AccessShareLock);
	}
	list_free(indexes);
	return is_empty;
}
