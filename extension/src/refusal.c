/*
 * refusal.c - tables that can't be loaded directly, and why.
 *
 * What is here can be said of a table before its transaction is known. Each refusal names what
 * to do instead, since COPY loads nearly all of these.
 */
#include "layout.h"
#include "keys.h"

#include "access/genam.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_publication.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "utils/lsyscache.h"
#include "utils/relcache.h"

#define USE_COPY "Load it by COPY (--method copy)."

static bool
refuse(FbRefusal *refusal, int code, const char *message, const char *detail, const char *hint)
{
	refusal->code = code;
	refusal->message = message;
	refusal->detail = detail;
	refusal->hint = hint;
	return true;
}

/* Most of them: a feature that COPY has and this has not. */
static bool
refuse_feature(FbRefusal *refusal, Relation rel, const char *detail, const char *hint)
{
	return refuse(refusal, ERRCODE_FEATURE_NOT_SUPPORTED,
				  psprintf("table \"%s\" can't be loaded directly",
						   RelationGetRelationName(rel)),
				  detail, hint);
}

static bool
refuse_kind(Relation rel, FbRefusal *refusal)
{
	if (!FB_LITTLE_ENDIAN)
		return refuse(refusal, ERRCODE_FEATURE_NOT_SUPPORTED,
					  "direct loads need a little-endian server",
					  "Direct loads send rows in little-endian byte order.", USE_COPY);
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		return refuse(refusal, ERRCODE_WRONG_OBJECT_TYPE,
					  psprintf("\"%s\" is not an ordinary table", RelationGetRelationName(rel)),
					  "Only ordinary tables can be loaded directly.",
					  "Name a table, or a partition.");
	if (IsSystemRelation(rel))
		return refuse(refusal, ERRCODE_INSUFFICIENT_PRIVILEGE,
					  psprintf("\"%s\" is a system catalog or a TOAST table",
							   RelationGetRelationName(rel)),
					  "These are never loaded directly.", "Name a table of your own.");
	if (rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		return refuse_feature(refusal, rel,
							  psprintf("Its access method is \"%s\"; pages are built for heap.",
									   get_am_name(rel->rd_rel->relam)),
							  USE_COPY);
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return refuse_feature(refusal, rel, "It is a temporary table.", USE_COPY);
	return false;
}

static bool
refuse_family(Relation rel, FbRefusal *refusal)
{
	if (!rel->rd_rel->relispartition && has_superclass(RelationGetRelid(rel)))
		return refuse_feature(refusal, rel, "It inherits from another table.",
							  "Load a table of its own and let that one inherit.");
	return false;
}

static bool
refuse_indexes(Relation rel, bool with_indexes, FbRefusal *refusal)
{
	ListCell   *cell;

	foreach(cell, RelationGetIndexList(rel))
	{
		Relation	index;
		const char *reason;

		if (!with_indexes)
			return refuse_feature(refusal, rel, "It has an index.",
								  "Create indexes and keys after the load.");
		index = index_open(lfirst_oid(cell), AccessShareLock);
		reason = fb_keys_refuse(index);
		index_close(index, AccessShareLock);
		if (reason != NULL)
			return refuse_feature(refusal, rel,
								  psprintf("Its index \"%s\" can't be filled: %s.",
										   get_rel_name(lfirst_oid(cell)), reason),
								  "Create this index after the load.");
	}
	return false;
}

static bool
refuse_dependents(Relation rel, FbRefusal *refusal)
{
	if (rel->trigdesc != NULL)
		return refuse_feature(refusal, rel, "It has a trigger or a foreign key.",
							  "Create triggers and foreign keys after the load.");
	if (rel->rd_rules != NULL)
		return refuse_feature(refusal, rel, "It has a rule.", "Create rules after the load.");
	if (rel->rd_rel->relrowsecurity)
		return refuse_feature(refusal, rel, "It has row-level security.",
							  "Enable row-level security after the load.");
	return false;
}

static bool
refuse_columns(Relation rel, FbRefusal *refusal)
{
	TupleDesc	descriptor = RelationGetDescr(rel);

	for (int at = 0; at < descriptor->natts; at++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, at);

		if (attribute->attisdropped)
			return refuse_feature(refusal, rel, "It has a dropped column.",
								  "Recreate it: CREATE TABLE ... (LIKE ...).");
		if (attribute->attgenerated != '\0')
			return refuse_feature(refusal, rel,
								  psprintf("Its column \"%s\" is generated.",
										   NameStr(attribute->attname)), USE_COPY);
		if (attribute->atthasmissing)
			return refuse_feature(refusal, rel,
								  psprintf("Its column \"%s\" was added with a default that "
										   "older rows take from the catalog.",
										   NameStr(attribute->attname)),
								  "Recreate it: CREATE TABLE ... (LIKE ... INCLUDING DEFAULTS).");
	}
	return false;
}

/* Those of one table, or of its schema. */
static List *
publications_of(Oid table)
{
	List	   *publications = GetRelationPublications(table);

#if PG_VERSION_NUM >= 150000
	if (publications == NIL)
		publications = GetSchemaPublications(get_rel_namespace(table));
#endif
	return publications;
}

/* A partition is published with the tables that it is a part of. */
static List *
publications_of_family(Relation rel)
{
	List	   *publications = publications_of(RelationGetRelid(rel));
	List	   *ancestors = rel->rd_rel->relispartition
		? get_partition_ancestors(RelationGetRelid(rel)) : NIL;
	ListCell   *cell;

	foreach(cell, ancestors)
	{
		if (publications == NIL)
			publications = publications_of(lfirst_oid(cell));
	}
	return publications != NIL ? publications : GetAllTablesPublications();
}

/* Full page images are not decoded: a subscriber would never see these rows. */
static bool
refuse_decoding(Relation rel, FbRefusal *refusal)
{
	List	   *publications = publications_of_family(rel);
	int			slots;
	int			active;

	if (publications != NIL && !RelationIsPermanent(rel))
		publications = NIL;
	if (publications != NIL)
		return refuse(refusal, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
					  psprintf("table \"%s\" is published, so it can't be loaded directly",
							   RelationGetRelationName(rel)),
					  psprintf("Publication \"%s\" covers it, and full page images are "
							   "not sent to subscribers.",
							   get_publication_name(linitial_oid(publications), false)),
					  USE_COPY);
	if (XLogLogicalInfoActive() && RelationIsPermanent(rel)
		&& ReplicationSlotsCountDBSlots(MyDatabaseId, &slots, &active))
		return refuse(refusal, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
					  psprintf("table \"%s\" can't be loaded directly while changes are decoded",
							   RelationGetRelationName(rel)),
					  psprintf("This database has %d logical replication slots, and full page "
							   "images are not decoded.", slots),
					  USE_COPY);
	return false;
}

bool
fb_refuse_table(Relation rel, bool with_indexes, FbRefusal *refusal)
{
	memset(refusal, 0, sizeof *refusal);
	return refuse_kind(rel, refusal)
		|| refuse_family(rel, refusal)
		|| refuse_columns(rel, refusal)
		|| refuse_indexes(rel, with_indexes, refusal)
		|| refuse_dependents(rel, refusal)
		|| refuse_decoding(rel, refusal);
}
