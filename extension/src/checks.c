/*
 * checks.c - what a row must hold beyond its types: NOT NULL, CHECK, the bounds of its partition, the
 * load's range.
 *
 * By the executor's own functions, as COPY does it. Bodies come here only where the table has
 * CHECK constraints or is a partition, or the range is of a type that the validator does not compare.
 */
#include "checks.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"

static bool
is_foreign(Oid function, void *nothing)
{
	/* The functions of a partition's key are its own. */
	return function >= FirstNormalObjectId || function == F_SATISFIES_HASH_PARTITION
		|| func_volatile(function) != PROVOLATILE_IMMUTABLE;
}

/* Functions of arrays, records and the like call those of their elements' types. */
static bool
is_foreign_type(Oid type)
{
	return type >= FirstNormalObjectId && get_typtype(type) != TYPTYPE_ENUM;
}

/* What is known to be harmless; there are expressions that hide what they call. */
static bool
find_foreign(Node *node, void *nothing)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Const:
		case T_RelabelType:
		case T_ArrayExpr:
			if (is_foreign_type(exprType(node)))
				return true;
			break;
		case T_FuncExpr:
		case T_OpExpr:
		case T_ScalarArrayOpExpr:
			if (is_foreign_type(exprType(node))
				|| check_functions_in_node(node, is_foreign, nothing))
				return true;
			break;
		case T_List:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, find_foreign, nothing);
}

bool
fb_runs_foreign_code(Node *expression)
{
	return find_foreign(expression, NULL);
}

static bool
are_plain(Relation rel)
{
	TupleConstr *constraints = RelationGetDescr(rel)->constr;
	int			count = constraints == NULL ? 0 : constraints->num_check;

	for (int at = 0; at < count; at++)
		if (fb_runs_foreign_code(stringToNode(constraints->check[at].ccbin)))
			return false;
	return !fb_runs_foreign_code((Node *) RelationGetPartitionQual(rel));
}

/*
 * The bounds of a partition, and of those that it is a part of. Unlike ExecPartitionCheck, which
 * compares with each of the values of a list, this looks a long list's up in a hash table.
 */
static ExprState *
prepare_bounds(FbChecks *checks)
{
	MemoryContext previous = MemoryContextSwitchTo(checks->estate->es_query_cxt);
	List	   *bounds = RelationGetPartitionQual(checks->rel);
	ExprState  *state;

	bounds = (List *) expression_planner((Expr *) copyObject(bounds));
	convert_saop_to_hashed_saop((Node *) bounds);
	state = ExecInitCheck(bounds, NULL);
	MemoryContextSwitchTo(previous);
	return state;
}

void
fb_checks_begin(FbChecks *checks, Relation rel)
{
	TupleConstr *constraints = RelationGetDescr(rel)->constr;

	memset(checks, 0, sizeof *checks);
	checks->rel = rel;
	checks->estate = CreateExecutorState();
	checks->result = makeNode(ResultRelInfo);
	InitResultRelInfo(checks->result, rel, 0, NULL, 0);
	checks->body_slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsHeapTuple);
	checks->row_slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsVirtual);
	/* A CHECK may ask for it. */
	checks->row_slot->tts_tableOid = RelationGetRelid(rel);
	if (rel->rd_rel->relispartition)
		checks->partition = prepare_bounds(checks);
	checks->constraints = constraints != NULL && constraints->num_check > 0;
	checks->bodies = checks->partition != NULL || checks->constraints;
	checks->are_plain = are_plain(rel);
}

/* What the validator does not know of. */
static void
check_ranges(FbChecks *checks, TupleTableSlot *slot)
{
	ExprContext *context = GetPerTupleExprContext(checks->estate);

	context->ecxt_scantuple = slot;
	if (checks->partition != NULL && !ExecCheck(checks->partition, context))
		ExecPartitionCheckEmitError(checks->result, slot, checks->estate);
	if (checks->range != NULL && !ExecCheck(checks->range, context))
		fb_range_violated(checks, false);
}

void
fb_check_row(FbChecks *checks, TupleTableSlot *slot)
{
	if (RelationGetDescr(checks->rel)->constr != NULL)
		ExecConstraints(checks->result, slot, checks->estate);
	check_ranges(checks, slot);
}

void
fb_check_body(FbChecks *checks, HeapTupleHeader tuple, uint32 length)
{
	HeapTupleData data;

	data.t_len = length;
	data.t_self = tuple->t_ctid;
	data.t_tableOid = RelationGetRelid(checks->rel);
	data.t_data = tuple;
	ExecStoreHeapTuple(&data, checks->body_slot, false);
	if (checks->constraints)
		fb_check_row(checks, checks->body_slot);
	else
		check_ranges(checks, checks->body_slot);
	ExecClearTuple(checks->body_slot);
	ResetPerTupleExprContext(checks->estate);
}

void
fb_checks_end(FbChecks *checks)
{
	ExecDropSingleTupleTableSlot(checks->body_slot);
	ExecDropSingleTupleTableSlot(checks->row_slot);
	FreeExecutorState(checks->estate);
}
