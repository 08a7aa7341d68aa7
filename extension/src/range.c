/*
 * range.c - RANGE_COLUMN: every row is held to a range, which then becomes a valid CHECK.
 *
 * The constraint's own expression is what rows are tested by, so that it can't say anything that
 * was not tested. For whole numbers, dates and timestamps the validator compares instead: same
 * answer, no tuple taken apart.
 */
#include "checks.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/heap.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* The bound as the validator compares it. */
static int64
whole_bound(Form_pg_attribute attribute, char *literal)
{
	Oid			input;
	Oid			parameter;
	Datum		value;

	getTypeInputInfo(attribute->atttypid, &input, &parameter);
	value = OidInputFunctionCall(input, literal, parameter, -1);
	switch (attribute->atttypid)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
		case DATEOID:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

static bool
is_whole(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID || type == DATEOID
		|| type == TIMEOID || type == TIMESTAMPOID || type == TIMESTAMPTZOID;
}

/* k IS NOT NULL AND k >= 'from'::type AND k < 'to'::type, parsed. */
static Node *
parse_range(Form_pg_attribute attribute, const FbOptions *options)
{
	const char *column = quote_identifier(NameStr(attribute->attname));
	/* Without a typmod, and said so: "character" alone would be character(1). */
	char	   *type = format_type_extended(attribute->atttypid, -1, FORMAT_TYPE_TYPEMOD_GIVEN
											| FORMAT_TYPE_FORCE_QUALIFY);
	/* The validator compares as these operators do, whatever search_path says. */
	const char *from = is_whole(attribute->atttypid) ? "OPERATOR(pg_catalog.>=)" : ">=";
	const char *to = is_whole(attribute->atttypid) ? "OPERATOR(pg_catalog.<)" : "<";
	StringInfoData text;
	RawStmt    *parsed;
	SelectStmt *select;

	initStringInfo(&text);
	appendStringInfo(&text, "%s IS NOT NULL", column);
	if (options->range_from != NULL)
		appendStringInfo(&text, " AND %s %s %s::%s", column, from,
						 quote_literal_cstr(options->range_from), type);
	if (options->range_to != NULL)
		appendStringInfo(&text, " AND %s %s %s::%s", column, to,
						 quote_literal_cstr(options->range_to), type);
	parsed = linitial_node(RawStmt, raw_parser(text.data, RAW_PARSE_PLPGSQL_EXPR));
	select = castNode(SelectStmt, parsed->stmt);
	return linitial_node(ResTarget, select->targetList)->val;
}

/* The range as the constraint will have it: its literals are values from here on. */
static Node *
analyse(Relation rel, Node *raw)
{
	ParseState *parse = make_parsestate(NULL);
	ParseNamespaceItem *item;
	Node	   *expression;

	item = addRangeTableEntryForRelation(parse, rel, AccessShareLock, NULL, false, true);
	addNSItemToQuery(parse, item, true, true, true);
	expression = transformExpr(parse, raw, EXPR_KIND_CHECK_CONSTRAINT);
	expression = coerce_to_boolean(parse, expression, "CHECK");
	assign_expr_collations(parse, expression);
	free_parsestate(parse);
	return expression;
}

static ExprState *
prepare(FbChecks *checks)
{
	MemoryContext previous = MemoryContextSwitchTo(checks->estate->es_query_cxt);
	/* Planning scribbles on it. */
	ExprState  *state = ExecPrepareExpr((Expr *) copyObject(checks->range_expression),
										checks->estate);

	MemoryContextSwitchTo(previous);
	return state;
}

void
fb_range_begin(FbChecks *checks, const FbOptions *options, FbLayout *layout)
{
	AttrNumber	number;
	Form_pg_attribute attribute;

	if (options->range_column == NULL)
		return;
	/* A parent's CHECK is its children's, too, whose rows nobody tested. */
	if (options->range_constraint != NULL
		&& find_inheritance_children(RelationGetRelid(checks->rel), NoLock) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot create a range constraint on table \"%s\" because other tables "
						"inherit from it", RelationGetRelationName(checks->rel)),
				 errhint("Omit the COPY option \"range_constraint\".")));
	number = get_attnum(RelationGetRelid(checks->rel), options->range_column);
	if (number <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of table \"%s\" does not exist", options->range_column,
						RelationGetRelationName(checks->rel)),
				 errhint("Set the COPY option \"range_column\" to one of its columns.")));
	attribute = TupleDescAttr(RelationGetDescr(checks->rel), number - 1);
	checks->range_column = options->range_column;
	checks->range_constraint = options->range_constraint;
	checks->range_expression = analyse(checks->rel, parse_range(attribute, options));
	checks->range = prepare(checks);
	checks->are_plain = checks->are_plain && !fb_runs_foreign_code(checks->range_expression);

	if (!is_whole(attribute->atttypid))
	{
		checks->bodies = true;
		return;
	}
	layout->range_column = number - 1;
	layout->range_has_from = options->range_from != NULL;
	layout->range_has_to = options->range_to != NULL;
	if (layout->range_has_from)
		layout->range_from = whole_bound(attribute, options->range_from);
	if (layout->range_has_to)
		layout->range_to = whole_bound(attribute, options->range_to);
}

void
fb_range_violated(const FbChecks *checks, bool is_null)
{
	ereport(ERROR,
			(errcode(ERRCODE_CHECK_VIOLATION),
			 errmsg("new row for relation \"%s\" is outside the range of this load",
					RelationGetRelationName(checks->rel)),
			 is_null ? errdetail("Column \"%s\" is NULL.", checks->range_column)
			 : errdetail("Column \"%s\" is NULL, or not within the COPY options \"range_from\" "
						 "and \"range_to\".", checks->range_column),
			 checks->range_constraint == NULL ? 0
			 : errtableconstraint(checks->rel, checks->range_constraint)));
}

void
fb_range_install(const FbChecks *checks)
{
	Constraint *constraint;
	Relation	rel;

	if (checks->range_constraint == NULL)
		return;
	constraint = makeNode(Constraint);
	constraint->contype = CONSTR_CHECK;
	constraint->conname = pstrdup(checks->range_constraint);
	constraint->location = -1;
	/*
	 * Valid at once: every row was tested by this very expression. Analysed anew, its literals and
	 * operators could mean something else: functions of the table's own may have changed settings.
	 */
	constraint->cooked_expr = nodeToString(checks->range_expression);
	constraint->initially_valid = true;
#if PG_VERSION_NUM >= 180000
	constraint->is_enforced = true;
#endif

	/* Nobody waits: the table is new in this transaction, which holds this lock already. */
	rel = table_open(RelationGetRelid(checks->rel), AccessExclusiveLock);
	AddRelationNewConstraints(rel, NIL, list_make1(constraint), false, true, false, NULL);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}
