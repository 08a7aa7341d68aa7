/*
 * descriptor.c - fullbore.descriptor(regclass): what a client has to know to lay out rows.
 */
#include "layout.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(fullbore_descriptor);

static void
append_string(StringInfo out, const char *key, const char *value)
{
	appendStringInfo(out, "\"%s\": ", key);
	if (value == NULL)
		appendStringInfoString(out, "null");
	else
		escape_json(out, value);
}

static const char *
storage_name(char storage)
{
	switch (storage)
	{
		case TYPSTORAGE_PLAIN:
			return "plain";
		case TYPSTORAGE_EXTERNAL:
			return "external";
		case TYPSTORAGE_EXTENDED:
			return "extended";
		default:
			return "main";
	}
}

static void
append_column(StringInfo out, Form_pg_attribute attribute)
{
	const char *form = fb_form_name(attribute);

	appendStringInfo(out, "{\"number\": %d, ", attribute->attnum);
	append_string(out, "name", NameStr(attribute->attname));
	appendStringInfoString(out, ", ");
	append_string(out, "type", form != NULL && strcmp(form, "enum") != 0
				  ? form : format_type_be_qualified(attribute->atttypid));
	appendStringInfo(out, ", \"type_oid\": %u, \"modifier\": %d, \"length\": %d, \"align\": %d, ",
					 attribute->atttypid, attribute->atttypmod, attribute->attlen,
					 fb_align_bytes(attribute->attalign));
	append_string(out, "storage", storage_name(attribute->attstorage));
	appendStringInfo(out, ", \"not_null\": %s, ", attribute->attnotnull ? "true" : "false");
	append_string(out, "form", form);
	if (form != NULL && strcmp(form, "enum") == 0)
	{
		int			count;
		FbLabel    *labels = fb_enum_labels(attribute->atttypid, &count);

		appendStringInfoString(out, ", \"labels\": [");
		for (int at = 0; at < count; at++)
		{
			appendStringInfoString(out, at == 0 ? "[" : ", [");
			escape_json(out, labels[at].name);
			appendStringInfo(out, ", %u]", labels[at].oid);
		}
		appendStringInfoChar(out, ']');
	}
	appendStringInfoChar(out, '}');
}

char *
fb_descriptor_columns(Relation rel)
{
	TupleDesc	descriptor = RelationGetDescr(rel);
	StringInfoData out;
	const char *separator = "";

	initStringInfo(&out);
	appendStringInfoChar(&out, '[');
	for (int at = 0; at < descriptor->natts; at++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, at);

		if (attribute->attisdropped)
			continue;
		appendStringInfoString(&out, separator);
		append_column(&out, attribute);
		separator = ", ";
	}
	appendStringInfoChar(&out, ']');
	return out.data;
}

/* The table's identity is not in it: tables of one shape have one hash. */
char *
fb_descriptor_hash(Relation rel, const char *columns)
{
	StringInfoData shape;
	uint64		hash;

	initStringInfo(&shape);
	appendStringInfo(&shape, "%d %s %d %d %d %d %u ", FB_PROTOCOL, FB_VERSION,
					 PG_VERSION_NUM / 10000, GetDatabaseEncoding(), BLCKSZ, MAXIMUM_ALIGNOF,
					 fb_body_bytes_max(rel));
	appendStringInfoString(&shape, columns);
	hash = hash_bytes_extended((const unsigned char *) shape.data, shape.len, 0);
	return psprintf("%08x%08x", (uint32) (hash >> 32), (uint32) hash);
}

static void
append_refusal(StringInfo out, const FbRefusal *refusal)
{
	appendStringInfoChar(out, '{');
	append_string(out, "code", unpack_sql_state(refusal->code));
	appendStringInfoString(out, ", ");
	append_string(out, "message", refusal->message);
	appendStringInfoString(out, ", ");
	append_string(out, "detail", refusal->detail);
	appendStringInfoString(out, ", ");
	append_string(out, "hint", refusal->hint);
	appendStringInfoChar(out, '}');
}

/* Of the server that runs, which can be a minor version newer than the one we were built for. */
static int
server_version(void)
{
	return atoi(GetConfigOption("server_version_num", false, false));
}

/* Would its pages be logged, were its storage new? */
static bool
would_need_wal(Relation rel)
{
	return RelationIsPermanent(rel) && XLogIsNeeded();
}

Datum
fullbore_descriptor(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	char	   *columns = fb_descriptor_columns(rel);
	FbRefusal	refusal;
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfo(&out, "{\"protocol\": %d, \"extension\": \"%s\", \"server\": %d, "
					 "\"relation\": %u, ",
					 FB_PROTOCOL, FB_VERSION, server_version(), RelationGetRelid(rel));
	append_string(&out, "encoding", GetDatabaseEncodingName());
	appendStringInfo(&out, ", \"block_bytes\": %d, \"maxalign\": %d, \"little_endian\": %s, "
					 "\"body_bytes_max\": %u, \"needs_wal\": %s, \"codecs\": [\"none\"%s%s], "
					 "\"columns\": %s, \"refusal\": ",
					 BLCKSZ, MAXIMUM_ALIGNOF, FB_LITTLE_ENDIAN ? "true" : "false",
					 fb_body_bytes_max(rel), would_need_wal(rel) ? "true" : "false",
					 FB_LZ4_NAME, FB_ZSTD_NAME, columns);
	if (fb_refuse_table(rel, true, &refusal))
		append_refusal(&out, &refusal);
	else
		appendStringInfoString(&out, "null");
	appendStringInfoString(&out, ", ");
	append_string(&out, "hash", fb_descriptor_hash(rel, columns));
	appendStringInfoChar(&out, '}');

	relation_close(rel, AccessShareLock);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}
