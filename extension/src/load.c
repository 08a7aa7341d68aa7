/*
 * load.c - one direct COPY, from its options to its last row; or the rows of another table.
 */
#include "load.h"
#include "checks.h"
#include "frames.h"
#include "guard.h"
#include "indexes.h"
#include "layout.h"
#include "pages.h"
#include "rows.h"
#include "source.h"
#include "state.h"
#include "wire.h"
#include "writers.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/objectaddress.h"
#include "commands/copy.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"

typedef struct Load
{
	Relation	rel;
	FbLayout   *layout;
	FbStore		store;
	FbPages		pages;
	FbChecks	checks;
	FbFrames	frames;
	FbRows		rows;
	FbIndexes  *indexes;		/* NULL: none */
	bool		is_partition;	/* what it was, and which indexes it had, as the load began */
	List	   *index_list;
	uint64		row;			/* of a frame of bodies, from 1; 0: not in one */
} Load;

static void
check_privileges(Relation rel)
{
	/* Who writes pages is as powerful as who may truncate, drop and make the table anew. */
	if (!FbOwnsRelation(RelationGetRelid(rel)))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(rel->rd_rel->relkind),
					   RelationGetRelationName(rel));
	/* As COPY does it, so that extensions that watch privileges see it, too. */
	FbCheckInsert(rel);
}

static void
check_table(Relation rel, bool with_indexes)
{
	FbRefusal	refusal;

	if (fb_refuse_table(rel, with_indexes, &refusal))
		ereport(ERROR,
				(errcode(refusal.code),
				 errmsg_internal("%s", refusal.message),
				 errdetail_internal("%s", refusal.detail),
				 errhint("%s", refusal.hint)));
	CheckTableNotInUse(rel, "COPY");
}

/*
 * New in this subtransaction: then nobody else can see it, and it goes when this one fails.
 * Returns the block to begin at.
 */
static BlockNumber
check_storage(Relation rel, const FbOptions *options)
{
	SubTransactionId current = GetCurrentSubTransactionId();
	BlockNumber blocks;

	if (rel->rd_createSubid != current && FbNewStorageSubid(rel) != current)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" was not created or truncated in this subtransaction",
						RelationGetRelationName(rel)),
				 errdetail("Direct loads need storage that no other session can see."),
				 errhint("Create the table in the transaction that loads it, or TRUNCATE it "
						 "there first; or load it by COPY (--method copy).")));
	blocks = RelationGetNumberOfBlocks(rel);
	if (blocks != 0 && blocks != fb_state_blocks(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" contains rows that were not loaded directly",
						RelationGetRelationName(rel)),
				 errdetail("It has %u blocks, of which direct loads of this transaction wrote %u.",
						   blocks, fb_state_blocks(rel)),
				 errhint("Load directly before anything else writes to the table.")));
	if (blocks != 0 && options->range_constraint != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" contains rows not checked against this load's range",
						RelationGetRelationName(rel)),
				 errhint("Set the COPY option \"range_constraint\" on the first load.")));
	return blocks;
}

/* COPY FREEZE's own conditions; that on the storage is fulfilled already. */
static void
check_freeze(void)
{
	InvalidateCatalogSnapshot();
	if (!ThereAreNoPriorRegisteredSnapshots() || !ThereAreNoReadyPortals())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot freeze because of prior transaction activity"),
				 errhint("Close open cursors first, or omit the COPY option \"freeze\".")));
}

static void
check_descriptor(Relation rel, const FbOptions *options)
{
	char	   *hash = fb_descriptor_hash(rel, fb_descriptor_columns(rel));

	if (strcmp(hash, options->descriptor) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rows do not match the current layout of table \"%s\"",
						RelationGetRelationName(rel)),
				 errdetail("Its descriptor's hash is \"%s\", the client's is \"%s\".",
						   hash, options->descriptor),
				 errhint("Call fullbore.descriptor() after the last change to the table.")));
}

static void
add_context(void *argument)
{
	Load	   *load = argument;

	if (load->row > 0)
		errcontext("COPY %s, frame " UINT64_FORMAT ", row " UINT64_FORMAT,
				   RelationGetRelationName(load->rel), load->frames.number, load->row);
	else
		errcontext("COPY %s, frame " UINT64_FORMAT, RelationGetRelationName(load->rel),
				   load->frames.number);
}

static void FB_NORETURN __attribute__((noinline, cold))
refuse_body(Load *load, const FbVerdict *verdict)
{
	const char *column = verdict->column < 0 ? NULL
		: NameStr(TupleDescAttr(RelationGetDescr(load->rel), verdict->column)->attname);

	switch (verdict->problem)
	{
		case FB_IS_NULL:
			ereport(ERROR,
					(errcode(ERRCODE_NOT_NULL_VIOLATION),
					 errmsg("null value in column \"%s\" of relation \"%s\" violates not-null "
							"constraint", column, RelationGetRelationName(load->rel)),
					 errtablecol(load->rel, verdict->column + 1)));
		case FB_OUT_OF_RANGE:
			fb_range_violated(&load->checks, false);
		default:
			ereport(ERROR,
					(errcode(verdict->problem == FB_BAD_VALUE
							 ? ERRCODE_INVALID_BINARY_REPRESENTATION
							 : ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("a row of the direct load is not valid"),
					 column == NULL ? errdetail("The row: %s.", verdict->reason)
					 : errdetail("Column \"%s\": %s.", column, verdict->reason),
					 errhint("This is a bug in the client: load by COPY (--method copy) and "
							 "report it.")));
	}
}

static void FB_NORETURN
bad_count(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("a frame of the direct load is not valid"),
			 errdetail_internal("%s", detail),
			 errhint("This is a bug in the client: load by COPY (--method copy) and report it.")));
}

static void
take_bodies(Load *load, const FbFrame *frame)
{
	const char *at = frame->payload;
	const char *end = at + frame->bytes;
	uint8		plain_header = SizeofHeapTupleHeader + load->layout->data_plain_at;
	uint8		bitmap_header = SizeofHeapTupleHeader + load->layout->data_bitmap_at;

	for (uint32 row = 0; row < frame->rows; row++)
	{
		FbVerdict	verdict;
		HeapTupleHeader tuple;
		uint16		head;
		uint32		length;
		bool		has_bitmap;

		load->row = row + 1;
		if (end - at < (ptrdiff_t) sizeof head)
			bad_count("It ends before its last row.");
		memcpy(&head, at, sizeof head);
		at += sizeof head;
		length = head & 0x7fff;
		has_bitmap = (head & 0x8000) != 0;
		if ((ptrdiff_t) length > end - at)
			bad_count("A row is longer than what is left of it.");
		fb_guard_close(at + length, Min(end - at - length, FB_GUARD_BYTES));
		if (!fb_validate(load->layout, (const uint8_t *) at, length, has_bitmap, &verdict))
			refuse_body(load, &verdict);
		fb_guard_open(at + length, Min(end - at - length, FB_GUARD_BYTES));
		tuple = fb_pages_add(&load->pages, at, length,
							 (has_bitmap ? HEAP_HASNULL : 0)
							 | (verdict.has_varlena ? HEAP_HASVARWIDTH : 0),
							 has_bitmap ? bitmap_header : plain_header);
		if (load->checks.bodies)
			fb_check_body(&load->checks, tuple, SizeofHeapTupleHeader + length);
		at += length;
	}
	load->row = 0;
	if (at != end)
		bad_count("It holds more than its rows.");
}

/* Defaults and types' functions run for these rows, and may read the table. */
static void
take_rows(Load *load, const FbFrame *frame)
{
	bool		overlaps = load->store.overlaps;

	fb_store_settle(&load->store);
	load->store.overlaps = false;
	fb_rows_take(&load->rows, frame);
	load->store.overlaps = overlaps;
}

static void
take_stream(Load *load)
{
	FbFrame		frame;
	ErrorContextCallback context = {error_context_stack, add_context, load};

	error_context_stack = &context;
	while (fb_next_frame(&load->frames, &frame))
	{
		if (frame.kind == 'B')
			take_bodies(load, &frame);
		else
			take_rows(load, &frame);
		CHECK_FOR_INTERRUPTS();
	}
	error_context_stack = context.previous;
}

/* What is done once the table and the source of its rows are known to be right. */
static void
begin(Load *load, List *columns, const FbOptions *options, BlockNumber first_block)
{
	if (options->freeze)
		check_freeze();
	load->is_partition = load->rel->rd_rel->relispartition;
	load->index_list = RelationGetIndexList(load->rel);
	load->layout = fb_make_layout(load->rel);
	fb_checks_begin(&load->checks, load->rel);
	fb_range_begin(&load->checks, options, load->layout);
	fb_prepare_layout(load->layout);
	fb_frames_begin(&load->frames);
	fb_store_begin(&load->store, load->rel, options->io, first_block);
	load->store.overlaps = load->store.overlaps && load->checks.are_plain;
	if (options->indexes)
		load->indexes = fb_indexes_begin(load->rel, first_block);
	fb_pages_begin(&load->pages, &load->store, load->rel, options->freeze, load->indexes);
	fb_rows_begin(&load->rows, load->rel, columns, &load->checks, &load->pages);
}

/* ATTACH PARTITION is not refused to the table's own functions, though it brings bounds and indexes. */
static void
check_same_table(const Load *load)
{
	if (load->rel->rd_rel->relispartition != load->is_partition
		|| !equal(RelationGetIndexList(load->rel), load->index_list))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("table \"%s\" was changed while it was being loaded directly",
						RelationGetRelationName(load->rel)),
				 errdetail("A default or a check of the table changes the table itself."),
				 errhint("Load by COPY (--method copy).")));
}

static uint64
finish(Load *load)
{
	check_same_table(load);
	fb_state_remember(load->rel, fb_store_end_block(&load->store));
	pgstat_count_heap_insert(load->rel, load->pages.rows);
	fb_range_install(&load->checks);
	fb_checks_end(&load->checks);
	if (load->indexes != NULL)
		fb_indexes_end(load->indexes);
	table_close(load->rel, NoLock);
	return load->pages.rows;
}

uint64
fb_load(const CopyStmt *statement, const FbOptions *options)
{
	Load	   *load = palloc0(sizeof(Load));
	Relation	rel = table_openrv(statement->relation, RowExclusiveLock);
	List	   *columns;
	BlockNumber first_block;

	load->rel = rel;
	check_privileges(rel);
	check_table(rel, options->indexes);
	columns = CopyGetAttnums(RelationGetDescr(rel), rel, statement->attlist);
	first_block = check_storage(rel, options);
	check_descriptor(rel, options);
	begin(load, statement->attlist, options, first_block);

	fb_wire_begin(list_length(columns));
	PG_TRY();
	{
		fb_writers_refuse(RelationGetRelid(rel));
		take_stream(load);
		fb_pages_finish(&load->pages);
		fb_store_finish(&load->store, options->freeze);
	}
	PG_CATCH();
	{
		fb_writers_refuse(InvalidOid);
		fb_store_abandon();
		fb_wire_recover();
		PG_RE_THROW();
	}
	PG_END_TRY();
	fb_writers_refuse(InvalidOid);
	return finish(load);
}

uint64
fb_adopt(Oid into, Oid from)
{
	FbOptions	options = {.freeze = true, .io = FB_IO_AUTO};
	Load	   *load = palloc0(sizeof(Load));
	Relation	source;
	BlockNumber first_block;

	fb_writers_refuse_nested("fullbore.adopt()");
	load->rel = table_open(into, RowExclusiveLock);
	check_privileges(load->rel);
	check_table(load->rel, false);
	first_block = check_storage(load->rel, &options);
	source = fb_source_open(from, load->rel);
	begin(load, NIL, &options, first_block);
	PG_TRY();
	{
		fb_writers_refuse(into);
		fb_source_take(source, &load->pages, &load->rows, &load->checks);
		fb_pages_finish(&load->pages);
		fb_store_finish(&load->store, options.freeze);
	}
	PG_CATCH();
	{
		fb_writers_refuse(InvalidOid);
		fb_store_abandon();
		PG_RE_THROW();
	}
	PG_END_TRY();
	fb_writers_refuse(InvalidOid);
	table_close(source, NoLock);
	return finish(load);
}
