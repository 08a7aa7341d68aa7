/*
 * rows.c - rows out of band: values in COPY's binary or text form.
 *
 * A frame's payload is read by the server's own COPY reader, with the types' own functions, long
 * values go through the server's own toaster; only the page is ours, by the one page builder.
 *
 * A line of text whose values are refused is skipped and told. Each is read in a subtransaction
 * of its own for that: every version of the server has those. Without writes, one costs a
 * microsecond or two.
 */
#include "rows.h"

#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "commands/copy.h"
#include "commands/copyfrom_internal.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#define SKIPPED_HINT "fullbore: row skipped"

/* COPY's binary form begins with these, which frames leave out. */
static const char binary_header[] = "PGCOPY\n\377\r\n\0" "\0\0\0\0" "\0\0\0\0";

#define BINARY_HEADER_BYTES 19

/* The reader takes its data by a callback without an argument. */
static struct
{
	const char *header;
	Size		header_left;
	const char *data;
	Size		data_left;
} source;

static int
read_source(void *destination, int least, int most)
{
	char	   *to = destination;
	Size		from_header = Min(source.header_left, (Size) most);
	Size		from_data = Min(source.data_left, (Size) most - from_header);

	if (from_header > 0)
		memcpy(to, source.header, from_header);
	if (from_data > 0)
		memcpy(to + from_header, source.data, from_data);
	source.header += from_header;
	source.header_left -= from_header;
	source.data += from_data;
	source.data_left -= from_data;
	return (int) (from_header + from_data);
}

void
fb_rows_begin(FbRows *rows, Relation rel, List *columns, FbChecks *checks, FbPages *pages)
{
	rows->rel = rel;
	rows->columns = columns;
	rows->checks = checks;
	rows->pages = pages;
	rows->frame_context = AllocSetContextCreate(CurrentMemoryContext, "fullbore rows",
												ALLOCSET_DEFAULT_SIZES);
	rows->lines = 0;
}

/* Values to a tuple, and that through the toaster where needed. */
static void
store_row(FbRows *rows, TupleTableSlot *slot)
{
	HeapTuple	tuple;
	int			options = HEAP_INSERT_SKIP_FSM | HEAP_INSERT_NO_LOGICAL;

	fb_check_row(rows->checks, slot);
	tuple = heap_form_tuple(RelationGetDescr(rows->rel), slot->tts_values, slot->tts_isnull);
	if (HeapTupleHasExternal(tuple) || tuple->t_len > TOAST_TUPLE_THRESHOLD)
	{
		if (rows->pages->frozen)
			options |= HEAP_INSERT_FROZEN;
		tuple = heap_toast_insert_or_update(rows->rel, tuple, NULL, options);
	}
	if (MAXALIGN(tuple->t_len) > MaxHeapTupleSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too big: size %zu, maximum size %zu",
						(Size) MAXALIGN(tuple->t_len), (Size) MaxHeapTupleSize)));
	fb_pages_add(rows->pages, (char *) tuple->t_data + SizeofHeapTupleHeader,
				 tuple->t_len - SizeofHeapTupleHeader,
				 tuple->t_data->t_infomask & FB_DATA_INFOMASK, tuple->t_data->t_hoff);
}

/* Tells of a line that was refused, with the reader's own context alone. */
static void
tell_skipped(CopyFromState reader, const ErrorData *error)
{
	ErrorContextCallback context = {NULL, CopyFromErrorCallback, reader};
	ErrorContextCallback *others = error_context_stack;

	error_context_stack = &context;
	ereport(NOTICE,
			(errcode(error->sqlerrcode),
			 errmsg_internal("%s", error->message),
			 error->detail == NULL ? 0 : errdetail_internal("%s", error->detail),
			 errhint(SKIPPED_HINT)));
	error_context_stack = others;
}

/* Is it the line's own fault? Anything else ends the load. */
static bool
is_refusal(CopyFromState reader, const ErrorData *error)
{
	int			class = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	/* Without a whole line at hand, the next one can't be found either. */
	if (!reader->line_buf_valid)
		return false;
	return error->elevel == ERROR
		&& (class == ERRCODE_TO_CATEGORY(ERRCODE_DATA_EXCEPTION)
			|| class == ERRCODE_TO_CATEGORY(ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION)
			|| error->sqlerrcode == ERRCODE_FEATURE_NOT_SUPPORTED
			|| error->sqlerrcode == ERRCODE_PROGRAM_LIMIT_EXCEEDED
			|| error->sqlerrcode == ERRCODE_SYNTAX_ERROR
			|| error->sqlerrcode == ERRCODE_UNDEFINED_OBJECT
			|| error->sqlerrcode == ERRCODE_UNDEFINED_TABLE
			|| error->sqlerrcode == ERRCODE_UNDEFINED_FUNCTION);
}

typedef enum Outcome
{
	ROW_READ,
	ROW_SKIPPED,
	ROWS_ENDED
} Outcome;

static Outcome
read_line(CopyFromState reader, ExprContext *context, TupleTableSlot *slot)
{
	MemoryContext memory = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile Outcome outcome = ROW_READ;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(memory);
	PG_TRY();
	{
		if (!NextCopyFrom(reader, context, slot->tts_values, slot->tts_isnull))
			outcome = ROWS_ENDED;
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(memory);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(memory);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(memory);
		CurrentResourceOwner = owner;
		/* Only now: an error may not leave our subtransaction to the client. */
		if (!is_refusal(reader, error))
			ReThrowError(error);
		tell_skipped(reader, error);
		/* The next line begins without a column. */
		reader->cur_attname = NULL;
		reader->cur_attval = NULL;
		outcome = ROW_SKIPPED;
	}
	PG_END_TRY();
	return outcome;
}

static void
check_count(const FbFrame *frame, uint64 count)
{
	if (count != frame->rows || source.data_left > 0)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("a frame of the direct load announces %u rows but contains another number",
						frame->rows),
				 errdetail("The reader found " UINT64_FORMAT " rows and left %zu bytes unread.",
						   count, source.data_left)));
}

static void
read_frame(FbRows *rows, const FbFrame *frame)
{
	bool		text = frame->kind == 'T';
	DefElem    *format = makeDefElem("format", (Node *) makeString(text ? "text" : "binary"), -1);
	EState	   *estate = rows->checks->estate;
	ExprContext *context = GetPerTupleExprContext(estate);
	TupleTableSlot *slot = rows->checks->row_slot;
	ErrorContextCallback error_context;
	CopyFromState reader;
	MemoryContext memory;
	uint64		count = 0;

	source.header = binary_header;
	source.header_left = text ? 0 : BINARY_HEADER_BYTES;
	source.data = frame->payload;
	source.data_left = frame->bytes;
	reader = BeginCopyFrom(NULL, rows->rel, NULL, NULL, false, read_source, rows->columns,
						   list_make1(format));
	if (text)
		reader->cur_lineno = rows->lines;

	error_context.callback = CopyFromErrorCallback;
	error_context.arg = reader;
	error_context.previous = error_context_stack;
	error_context_stack = &error_context;

	memory = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));
	for (;;)
	{
		Outcome		outcome;

		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(estate);
		ExecClearTuple(slot);
		if (text)
			outcome = read_line(reader, context, slot);
		else
			outcome = NextCopyFrom(reader, context, slot->tts_values, slot->tts_isnull)
				? ROW_READ : ROWS_ENDED;
		if (outcome == ROWS_ENDED)
			break;
		count++;
		if (outcome == ROW_SKIPPED)
			continue;
		ExecStoreVirtualTuple(slot);
		store_row(rows, slot);
	}
	ExecClearTuple(slot);
	MemoryContextSwitchTo(memory);
	error_context_stack = error_context.previous;
	check_count(frame, count);
	rows->lines += text ? count : 0;
	EndCopyFrom(reader);
}

void
fb_rows_take(FbRows *rows, const FbFrame *frame)
{
	MemoryContext previous = MemoryContextSwitchTo(rows->frame_context);

	read_frame(rows, frame);
	MemoryContextSwitchTo(previous);
	MemoryContextReset(rows->frame_context);
}

void
fb_rows_add(FbRows *rows, HeapTuple tuple, TupleDesc descriptor)
{
	EState	   *estate = rows->checks->estate;
	TupleTableSlot *slot = rows->checks->row_slot;
	MemoryContext previous = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));

	ExecClearTuple(slot);
	heap_deform_tuple(tuple, descriptor, slot->tts_values, slot->tts_isnull);
	ExecStoreVirtualTuple(slot);
	store_row(rows, slot);
	ExecClearTuple(slot);
	MemoryContextSwitchTo(previous);
	ResetPerTupleExprContext(estate);
}
