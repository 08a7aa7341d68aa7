/*
 * compat.h - what differs between PostgreSQL 14 and 18, all in one place.
 *
 * The rest of the sources is written for the newest names; older servers are mapped to them here.
 */
#ifndef FB_COMPAT_H
#define FB_COMPAT_H

#include "postgres.h"

#include "access/heapam.h"
#include "access/sysattr.h"
#include "catalog/pg_proc.h"
#include "common/relpath.h"
#include "executor/executor.h"
#include "parser/parse_relation.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#include "utils/acl.h"
#include "utils/rel.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#if PG_VERSION_NUM < 140000 || PG_VERSION_NUM >= 190000
#error "fullbore is written for PostgreSQL 14 to 18"
#endif

/* 18 renamed its own word for it. */
#define FB_NORETURN __attribute__((noreturn))

/* 16 renamed the file of a relation from node to locator. */
#if PG_VERSION_NUM >= 160000
typedef RelFileLocator FbLocator;
#define FbRelationLocator(rel) ((rel)->rd_locator)
#define FbLocatorEquals(a, b) RelFileLocatorEquals(a, b)
#define FbSmgrLocator(smgr) (&(smgr)->smgr_rlocator.locator)
#define FbNewStorageSubid(rel) ((rel)->rd_newRelfilelocatorSubid)
#else
typedef RelFileNode FbLocator;
#define FbRelationLocator(rel) ((rel)->rd_node)
#define FbLocatorEquals(a, b) RelFileNodeEquals(a, b)
#define FbSmgrLocator(smgr) (&(smgr)->smgr_rnode.node)
#define FbNewStorageSubid(rel) ((rel)->rd_newRelfilenodeSubid)
#endif

/* 15 (and later releases of 14) made a function of it. */
#if PG_VERSION_NUM >= 150000
#define FbSmgr(rel) RelationGetSmgr(rel)
#else
static inline SMgrRelation
FbSmgr(Relation rel)
{
	RelationOpenSmgr(rel);
	return rel->rd_smgr;
}
#endif

/* 17 takes several blocks at a time. */
static inline void
FbPrefetch(Relation rel, BlockNumber first, int count)
{
#if PG_VERSION_NUM >= 170000
	if ((io_direct_flags & IO_DIRECT_DATA) == 0)
		smgrprefetch(FbSmgr(rel), MAIN_FORKNUM, first, count);
#else
	for (int at = 0; at < count; at++)
		PrefetchBuffer(rel, MAIN_FORKNUM, first + at);
#endif
}

/* 16 checks privileges on any object by one function. */
#if PG_VERSION_NUM >= 160000
#define FbOwnsRelation(relid) object_ownercheck(RelationRelationId, relid, GetUserId())
#define FbFunctionAclcheck(oid) object_aclcheck(ProcedureRelationId, oid, GetUserId(), ACL_EXECUTE)
#else
#define FbOwnsRelation(relid) pg_class_ownercheck(relid, GetUserId())
#define FbFunctionAclcheck(oid) pg_proc_aclcheck(oid, GetUserId(), ACL_EXECUTE)
#endif

/* 16 counts what is written by who writes it, 18 its bytes as well. */
static inline void
FbCountExtended(int blocks)
{
#if PG_VERSION_NUM >= 180000
	pgstat_count_io_op(IOOBJECT_RELATION, IOCONTEXT_BULKWRITE, IOOP_EXTEND, blocks,
					   (uint64) blocks * BLCKSZ);
#elif PG_VERSION_NUM >= 160000
	pgstat_count_io_op_n(IOOBJECT_RELATION, IOCONTEXT_BULKWRITE, IOOP_EXTEND, blocks);
#endif
}

/* What a statement wants of a relation, by relid and requiredPerms. */
#if PG_VERSION_NUM >= 160000
typedef RTEPermissionInfo FbWanted;
#else
typedef RangeTblEntry FbWanted;
#endif

/* May the user insert into all columns? 16 took privileges out of the range table. */
static inline void
FbCheckInsert(Relation rel)
{
	ParseState *parse = make_parsestate(NULL);
	ParseNamespaceItem *item = addRangeTableEntryForRelation(parse, rel, RowExclusiveLock, NULL,
															 false, false);
	Bitmapset  *columns = NULL;

	for (int number = 1; number <= RelationGetNumberOfAttributes(rel); number++)
		columns = bms_add_member(columns, number - FirstLowInvalidHeapAttributeNumber);
#if PG_VERSION_NUM >= 160000
	item->p_perminfo->requiredPerms = ACL_INSERT;
	item->p_perminfo->insertedCols = columns;
	ExecCheckPermissions(parse->p_rtable, list_make1(item->p_perminfo), true);
#else
	item->p_rte->requiredPerms = ACL_INSERT;
	item->p_rte->insertedCols = columns;
	ExecCheckRTPerms(parse->p_rtable, true);
#endif
	free_parsestate(parse);
}

/* While it is set, a checkpoint that has taken its redo point waits for us before it writes. */
static inline void
FbDelayCheckpoint(bool delay)
{
#if PG_VERSION_NUM >= 150000
	if (delay)
		MyProc->delayChkptFlags |= DELAY_CHKPT_START;
	else
		MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
#else
	MyProc->delayChkpt = delay;
#endif
}

/* The path of a relation's first segment; 18 gives it by value. */
static inline void
FbRelationPath(Relation rel, char *path)
{
#if PG_VERSION_NUM >= 180000
	strlcpy(path, relpathperm(FbRelationLocator(rel), MAIN_FORKNUM).str, MAXPGPATH);
#else
	char	   *made = relpathperm(FbRelationLocator(rel), MAIN_FORKNUM);

	strlcpy(path, made, MAXPGPATH);
	pfree(made);
#endif
}

/* How much of the client's data the server has read already but not handed on; for wire.c. */
#if PG_VERSION_NUM >= 170000
#define FbBufferedBytes() pq_buffer_remaining_data()
#else
/* Only whether, not how much: one byte at a time. */
#define FbBufferedBytes() (pq_buffer_has_data() ? 1 : 0)
#endif

/* 14 and 15 take pages that are not const. */
#if PG_VERSION_NUM >= 160000
#define FbPageForWrite(page) ((const void *) (page))
#else
#define FbPageForWrite(page) ((char *) (page))
#endif

/* Whether an Append's plans are chosen at run time: 18 keeps what it needs for that elsewhere. */
#if PG_VERSION_NUM >= 180000
#define FbIsPruned(append) ((append)->part_prune_index >= 0)
#else
#define FbIsPruned(append) ((append)->part_prune_info != NULL)
#endif

/* 17 can leave the fsync to the next checkpoint. */
#if PG_VERSION_NUM >= 170000
#define FB_HAVE_REGISTERSYNC 1
#endif

/* 16 errors by itself where a file ends too early. */
#if PG_VERSION_NUM >= 160000
#define FbReadFile(file, to, bytes) BufFileReadExact(file, to, bytes)
#else
#define FbReadFile(file, to, bytes) \
	do { \
		if (BufFileRead(file, to, bytes) != (bytes)) \
			elog(ERROR, "a temporary file ended too early"); \
	} while (0)
#endif

/* 15 named it; 18 made the other one a number of its own. */
#if PG_VERSION_NUM >= 150000
#define FbOpaque(page) BTPageGetOpaque(page)
#else
#define FbOpaque(page) ((BTPageOpaque) PageGetSpecialPointer(page))
#endif
#if PG_VERSION_NUM >= 180000
#define FbMaxItemSize(page) BTMaxItemSize
#else
#define FbMaxItemSize(page) BTMaxItemSize(page)
#endif

/* 15 lets NULLs be equal. */
#if PG_VERSION_NUM >= 150000
#define FbNullsAreDistinct(index) (!(index)->rd_index->indnullsnotdistinct)
#else
#define FbNullsAreDistinct(index) true
#endif

/* 18 says it of a locale, not of a collation. */
#if PG_VERSION_NUM >= 180000
#define FbCollateIsC(collation) (pg_newlocale_from_collation(collation)->collate_is_c)
#else
#define FbCollateIsC(collation) lc_collate_is_c(collation)
#endif

/* 18 has foreign keys that are not enforced, and some that compare periods; 15 tells more of each. */
#if PG_VERSION_NUM >= 180000
#define FbIsPlainReference(form) ((form)->conenforced && !(form)->conperiod)
#else
#define FbIsPlainReference(form) true
#endif
#if PG_VERSION_NUM >= 150000
#define FbReadReference(tuple, count, columns, others, equals) \
	DeconstructFkConstraintRow(tuple, count, columns, others, equals, NULL, NULL, NULL, NULL)
#else
#define FbReadReference(tuple, count, columns, others, equals) \
	DeconstructFkConstraintRow(tuple, count, columns, others, equals, NULL, NULL)
#endif

/* What a type's alignment asks for, in bytes. */
static inline uint8
fb_align_bytes(char align)
{
	return align == TYPALIGN_CHAR ? 1
		: align == TYPALIGN_SHORT ? ALIGNOF_SHORT
		: align == TYPALIGN_INT ? ALIGNOF_INT : ALIGNOF_DOUBLE;
}

#ifdef WORDS_BIGENDIAN
#define FB_LITTLE_ENDIAN false
#else
#define FB_LITTLE_ENDIAN true
#endif

/* As further members of a JSON list. */
#ifdef FB_WITH_LZ4
#define FB_LZ4_NAME ", \"lz4\""
#else
#define FB_LZ4_NAME ""
#endif
#ifdef FB_WITH_ZSTD
#define FB_ZSTD_NAME ", \"zstd\""
#else
#define FB_ZSTD_NAME ""
#endif


#endif							/* FB_COMPAT_H */
