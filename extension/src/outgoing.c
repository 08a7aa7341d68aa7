/*
 * outgoing.c - fullbore.rows_of(query): what a query gives, many rows to a message.
 *
 * COPY ... TO calls a function for each value and sends each row by itself, which of a copied lineitem was two
 * thirds of all CPU of both servers and the client. Here values of common types are written in place, others by
 * their types' own functions. What comes is binary COPY without its header and its end (PostgreSQL's documentation
 * of COPY, "Binary Format"), in stretches of whole rows.
 *
 * The query is planned and run as its caller's own would be: with the caller's rights, search path and snapshot.
 */
#include "compat.h"
#include "numeric_form.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "port/pg_bswap.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/portal.h"

PG_FUNCTION_INFO_V1(fullbore_rows_of);

/* A stretch ends with the row that reaches either. */
#define STRETCH_BYTES (64 * 1024)
#define STRETCH_ROWS 1024

typedef enum
{
	BY_FUNCTION, ONE_BYTE, TWO_BYTES, FOUR_BYTES, EIGHT_BYTES, SIXTEEN_BYTES, CONTENT, DIGITS
} Form;

typedef struct Column
{
	Oid			type;
	Form		form;
	FmgrInfo	send;
} Column;

typedef struct Outgoing
{
	DestReceiver receiver;		/* first: the server knows no more of it */
	char	   *portal;
	int			count;
	Column	   *columns;
	StringInfoData stretch;		/* a bytea with its header */
	int			rows;			/* in it */
	MemoryContext values;		/* what it takes to write a row's values */
} Outgoing;

static Form
form_of(Oid type)
{
	switch (type)
	{
		case BOOLOID:
			return ONE_BYTE;
		case INT2OID:
			return TWO_BYTES;
		case INT4OID:
		case OIDOID:
		case FLOAT4OID:
		case DATEOID:
			return FOUR_BYTES;
		case INT8OID:
		case FLOAT8OID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return EIGHT_BYTES;
		case UUIDOID:
			return SIXTEEN_BYTES;
		case BYTEAOID:
			return CONTENT;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case JSONOID:
			/* Otherwise their functions convert them. */
			return pg_get_client_encoding() == GetDatabaseEncoding() ? CONTENT : BY_FUNCTION;
		case NUMERICOID:
			return DIGITS;
		default:
			return BY_FUNCTION;
	}
}

/* Makes room for so many bytes, and says where they go. */
static inline char *
extend(StringInfo to, int bytes)
{
	char	   *at;

	if (to->maxlen - to->len <= bytes)
		enlargeStringInfo(to, bytes);
	at = to->data + to->len;
	to->len += bytes;
	return at;
}

static inline char *
put_16(char *at, uint16 value)
{
	value = pg_hton16(value);
	memcpy(at, &value, sizeof value);
	return at + sizeof value;
}

static inline char *
put_32(char *at, uint32 value)
{
	value = pg_hton32(value);
	memcpy(at, &value, sizeof value);
	return at + sizeof value;
}

static inline char *
put_64(char *at, uint64 value)
{
	value = pg_hton64(value);
	memcpy(at, &value, sizeof value);
	return at + sizeof value;
}

/* Begins a value of so many bytes. */
static inline char *
begin_value(StringInfo to, int bytes)
{
	return put_32(extend(to, sizeof(uint32) + bytes), bytes);
}

static inline void
put_content(StringInfo to, const char *data, int bytes)
{
	memcpy(begin_value(to, bytes), data, bytes);
}

static void
put_by_function(StringInfo to, Column *column, Datum value)
{
	bytea	   *sent = SendFunctionCall(&column->send, value);

	put_content(to, VARDATA(sent), VARSIZE(sent) - VARHDRSZ);
}

/* As numeric_send does. */
static void
put_numeric(StringInfo to, Column *column, Datum value)
{
	struct varlena *held = PG_DETOAST_DATUM_PACKED(value);
	FbNumeric	number = fb_read_numeric(VARDATA_ANY(held), VARSIZE_ANY_EXHDR(held));
	char	   *at;

	if (number.special)
	{
		put_by_function(to, column, value);
		return;
	}
	at = begin_value(to, (4 + number.count) * sizeof(uint16));
	at = put_16(at, number.count);
	at = put_16(at, number.weight);
	at = put_16(at, number.is_negative ? FB_NUMERIC_NEGATIVE : 0);
	at = put_16(at, number.scale);
	for (int place = 0; place < number.count; place++)
	{
		uint16		digit;

		memcpy(&digit, number.digits + place * sizeof digit, sizeof digit);
		at = put_16(at, digit);
	}
}

static void
put_value(StringInfo to, Column *column, Datum value)
{
	switch (column->form)
	{
		case ONE_BYTE:
			*begin_value(to, 1) = DatumGetBool(value) ? 1 : 0;
			break;
		case TWO_BYTES:
			put_16(begin_value(to, 2), DatumGetUInt16(value));
			break;
		case FOUR_BYTES:
			put_32(begin_value(to, 4), DatumGetUInt32(value));
			break;
		case EIGHT_BYTES:
			put_64(begin_value(to, 8), DatumGetUInt64(value));
			break;
		case SIXTEEN_BYTES:
			put_content(to, DatumGetPointer(value), 16);
			break;
		case CONTENT:
			{
				struct varlena *held = PG_DETOAST_DATUM_PACKED(value);

				put_content(to, VARDATA_ANY(held), VARSIZE_ANY_EXHDR(held));
				break;
			}
		case DIGITS:
			put_numeric(to, column, value);
			break;
		case BY_FUNCTION:
			put_by_function(to, column, value);
			break;
	}
}

static inline bool
is_full(Outgoing *out)
{
	return out->stretch.len >= STRETCH_BYTES || out->rows >= STRETCH_ROWS;
}

/* Says no once the stretch is full, which has the executor stop after this row. */
static bool
receive(TupleTableSlot *slot, DestReceiver *receiver)
{
	Outgoing   *out = (Outgoing *) receiver;
	MemoryContext caller;

	slot_getallattrs(slot);
	caller = MemoryContextSwitchTo(out->values);
	put_16(extend(&out->stretch, sizeof(uint16)), out->count);
	for (int at = 0; at < out->count; at++)
	{
		if (slot->tts_isnull[at])
			put_32(extend(&out->stretch, sizeof(uint32)), (uint32) -1);
		else
			put_value(&out->stretch, &out->columns[at], slot->tts_values[at]);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextReset(out->values);
	out->rows++;
	return !is_full(out);
}

/*
 * Before the rows of each stretch. The caller can close the portal and open another of its name: values must never
 * be taken for those of another type.
 */
static void
begin_rows(DestReceiver *receiver, int operation, TupleDesc shape)
{
	Outgoing   *out = (Outgoing *) receiver;
	bool		is_same = shape->natts == out->count;

	for (int at = 0; is_same && at < out->count; at++)
		is_same = TupleDescAttr(shape, at)->atttypid == out->columns[at].type;
	if (!is_same)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_CURSOR_STATE),
				errmsg("the cursor \"%s\" of fullbore.rows_of has become another", out->portal));
	/* The client's encoding may have changed, too. */
	for (int at = 0; at < out->count; at++)
		out->columns[at].form = form_of(out->columns[at].type);
}

static void
end_rows(DestReceiver *receiver)
{
}

/* Begins to run a query. */
static Outgoing *
begin(const char *query)
{
	Outgoing   *out = palloc0(sizeof *out);
	MemoryContext own = CurrentMemoryContext;
	Portal		portal;

	out->receiver.receiveSlot = receive;
	out->receiver.rStartup = begin_rows;
	out->receiver.rShutdown = end_rows;
	out->receiver.rDestroy = end_rows;
	out->receiver.mydest = DestNone;
	out->values = AllocSetContextCreate(own, "fullbore values", ALLOCSET_DEFAULT_SIZES);
	SPI_connect();
	/* The portal outlives this connection. */
	portal = SPI_cursor_open_with_args(NULL, query, 0, NULL, NULL, NULL, true,
									   CURSOR_OPT_NO_SCROLL);
	MemoryContextSwitchTo(own);
	out->portal = pstrdup(portal->name);
	out->count = portal->tupDesc->natts;
	out->columns = palloc0(Max(out->count, 1) * sizeof *out->columns);
	for (int at = 0; at < out->count; at++)
	{
		Oid			send;
		bool		is_varlena;

		out->columns[at].type = TupleDescAttr(portal->tupDesc, at)->atttypid;
		getTypeBinaryOutputInfo(out->columns[at].type, &send, &is_varlena);
		fmgr_info(send, &out->columns[at].send);
	}
	SPI_finish();
	MemoryContextSwitchTo(own);
	initStringInfo(&out->stretch);
	return out;
}

/* Gives up what was not read to its end. */
static void
give_up(Datum argument)
{
	Outgoing   *out = (Outgoing *) DatumGetPointer(argument);
	Portal		portal = GetPortalByName(out->portal);

	if (PortalIsValid(portal))
		SPI_cursor_close(portal);
}

/* Fills the next stretch; whether there is one. */
static bool
fill_stretch(Outgoing *out)
{
	Portal		portal = GetPortalByName(out->portal);

	if (!PortalIsValid(portal))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_CURSOR),
				errmsg("the cursor \"%s\" of fullbore.rows_of was closed", out->portal));
	resetStringInfo(&out->stretch);
	extend(&out->stretch, VARHDRSZ);
	out->rows = 0;
	if (!portal->atEnd)
		PortalRunFetch(portal, FETCH_FORWARD, LONG_MAX, &out->receiver);
	if (out->rows == 0)
		return false;
	/* The executor takes a receiver that stops for the end of all rows. */
	if (is_full(out))
		portal->atEnd = false;
	SET_VARSIZE(out->stretch.data, out->stretch.len);
	return true;
}

Datum
fullbore_rows_of(PG_FUNCTION_ARGS)
{
	ExprContext *caller = ((ReturnSetInfo *) fcinfo->resultinfo)->econtext;
	FuncCallContext *calls;
	Outgoing   *out;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext before;

		calls = SRF_FIRSTCALL_INIT();
		before = MemoryContextSwitchTo(calls->multi_call_memory_ctx);
		calls->user_fctx = begin(text_to_cstring(PG_GETARG_TEXT_PP(0)));
		MemoryContextSwitchTo(before);
		RegisterExprContextCallback(caller, give_up, PointerGetDatum(calls->user_fctx));
	}
	calls = SRF_PERCALL_SETUP();
	out = calls->user_fctx;
	if (fill_stretch(out))
		SRF_RETURN_NEXT(calls, PointerGetDatum(out->stretch.data));
	UnregisterExprContextCallback(caller, give_up, PointerGetDatum(out));
	give_up(PointerGetDatum(out));
	SRF_RETURN_DONE(calls);
}
