/*
 * source.c - rows that another table of the server has: fullbore.adopt(target, source).
 *
 * Tasks of an engine stage rows in tables of their own, and a new table takes them all. Tables of
 * one layout hold the same tuples, so that these are copied as they are, into pages of our own. No
 * type's function runs, unless a value is stored outside of its row.
 */
#include "source.h"
#include "layout.h"
#include "load.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_am.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(fullbore_adopt);

#define USE_INSERT "Use INSERT ... SELECT."

static void
check_kind(Relation source, Relation rel)
{
	if (RelationGetRelid(source) != RelationGetRelid(rel)
		&& source->rd_rel->relkind == RELKIND_RELATION
		&& source->rd_rel->relam == HEAP_TABLE_AM_OID
		&& !source->rd_rel->relrowsecurity
		&& !RELATION_IS_OTHER_TEMP(source))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("rows of \"%s\" can't be adopted", RelationGetRelationName(source)),
			 errdetail("Only rows of another ordinary table without row-level security can."),
			 errhint(USE_INSERT)));
}

Relation
fb_source_open(Oid oid, Relation rel)
{
	Relation	source = table_open(oid, AccessShareLock);
	AclResult	may = pg_class_aclcheck(oid, GetUserId(), ACL_SELECT);

	if (may != ACLCHECK_OK)
		aclcheck_error(may, get_relkind_objtype(source->rd_rel->relkind),
					   RelationGetRelationName(source));
	check_kind(source, rel);
	/* The target has no dropped columns, and so with as many columns the source has none. */
	if (RelationGetNumberOfAttributes(source) != RelationGetNumberOfAttributes(rel)
		|| strcmp(fb_descriptor_hash(source, fb_descriptor_columns(source)),
				  fb_descriptor_hash(rel, fb_descriptor_columns(rel))) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rows of \"%s\" can't be adopted by \"%s\"",
						RelationGetRelationName(source), RelationGetRelationName(rel)),
				 errdetail("The tables have different layouts."),
				 errhint(USE_INSERT)));
	return source;
}

void
fb_source_take(Relation source, FbPages *pages, FbRows *rows, FbChecks *checks)
{
	TupleDesc	descriptor = RelationGetDescr(source);
	/* A NOT NULL may be one that older rows do not keep. */
	bool		has_not_null = descriptor->constr != NULL && descriptor->constr->has_not_null;
	TableScanDesc scan = table_beginscan(source, GetActiveSnapshot(), 0, NULL);
	HeapTuple	tuple;

	if (has_not_null)
		checks->constraints = true;
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		HeapTupleHeader header = tuple->t_data;
		HeapTupleHeader stored;

		CHECK_FOR_INTERRUPTS();
		/* A column that was added later is not in older tuples. */
		if (HeapTupleHasExternal(tuple) || HeapTupleHeaderGetNatts(header) != descriptor->natts)
		{
			fb_rows_add(rows, tuple, descriptor);
			continue;
		}
		stored = fb_pages_add(pages, (char *) header + SizeofHeapTupleHeader,
							  tuple->t_len - SizeofHeapTupleHeader,
							  header->t_infomask & FB_DATA_INFOMASK, header->t_hoff);
		if (checks->bodies || (has_not_null && HeapTupleHasNulls(tuple)))
			fb_check_body(checks, stored, tuple->t_len);
	}
	table_endscan(scan);
}

Datum
fullbore_adopt(PG_FUNCTION_ARGS)
{
	fb_check_may_load();
	PG_RETURN_INT64(fb_adopt(PG_GETARG_OID(0), PG_GETARG_OID(1)));
}
