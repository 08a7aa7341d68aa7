/*
 * subplans.c - leaves out of a plan, before it begins, the scans that filters deny.
 *
 * A scan that ends at once still has to be begun, which takes as long as a lookup that finds nothing.
 * So where an Append is all there is to a plan, but for what sorts, limits or sums up its rows, the
 * query gets a copy of that upper part with fewer scans. The plan itself may be kept for other
 * values, and stays as it is.
 */
#include "compat.h"
#include "filter.h"

#include "access/parallel.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* More conditions of one scan than these are not looked at. */
#define CONDITIONS_MAX 8

typedef struct Computed
{
	Node	   *expr;
	Datum		value;
	bool		is_null;
} Computed;

typedef struct Leaving
{
	QueryDesc  *query;
	ExprContext *context;
	/* Values of expressions: scans of one Append ask for the same. */
	Computed	computed[CONDITIONS_MAX];
	int			count;
} Leaving;

/*
 * A value that a condition compares with, false where it is not known yet. Functions that are not
 * immutable are left to the execution, which may never come to them; the others the planner would
 * have computed as early, had it known the parameters.
 */
static bool
compute(Leaving *leaving, Node *expr, Datum *value)
{
	Computed   *known = leaving->computed;
	Computed   *end = leaving->computed + leaving->count;

	while (known < end && !equal(known->expr, expr))
		known++;
	if (known == leaving->computed + CONDITIONS_MAX)
		return false;
	if (known == end)
	{
		if (contain_var_clause(expr) || contain_mutable_functions(expr) || !fb_is_fixed(expr))
			return false;
		known->expr = expr;
		known->value = ExecEvalExpr(ExecInitExprWithParams((Expr *) expr,
														   leaving->query->params),
									leaving->context, &known->is_null);
		leaving->count++;
	}
	*value = known->value;
	return !known->is_null;
}

/* The conditions that a scan of a table has by its index; without one, all. */
static List *
conditions_of(Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_SeqScan:
			return plan->qual;
		case T_IndexScan:
			return ((IndexScan *) plan)->indexqualorig;
		case T_IndexOnlyScan:
			return ((IndexOnlyScan *) plan)->indexqual;
		case T_BitmapHeapScan:
			return ((BitmapHeapScan *) plan)->bitmapqualorig;
		default:
			return NIL;
	}
}

/* The number of a column of a scan's table, 0 for anything else. */
static AttrNumber
column_of(Scan *scan, Node *operand)
{
	Var		   *column;

	if (IsA(operand, RelabelType))
		operand = (Node *) ((RelabelType *) operand)->arg;
	if (IsA(operand, Var) && ((Var *) operand)->varno == INDEX_VAR)
	{
		TargetEntry *entry = get_tle_by_resno(((IndexOnlyScan *) scan)->indextlist,
											  ((Var *) operand)->varattno);

		operand = entry == NULL ? operand : (Node *) entry->expr;
	}
	if (!IsA(operand, Var))
		return 0;
	column = (Var *) operand;
	return (Index) column->varno == scan->scanrelid ? Max(column->varattno, 0) : 0;
}

/* What a condition wants of a column; false where it is not told by "=" and a value. */
static bool
is_wanted(Leaving *leaving, Scan *scan, Node *condition, FbEquality *wanted)
{
	OpExpr	   *comparison = (OpExpr *) condition;
	Oid			left;

	if (!IsA(condition, OpExpr) || list_length(comparison->args) != 2)
		return false;
	wanted->column = column_of(scan, linitial(comparison->args));
	if (wanted->column == 0)
		return false;
	op_input_types(comparison->opno, &left, &wanted->type);
	wanted->collation = comparison->inputcollid;
	return get_op_opfamily_strategy(comparison->opno, fb_own_family(left)) == BTEqualStrategyNumber
		&& compute(leaving, lsecond(comparison->args), &wanted->value);
}

/* Whether filters deny that a scan finds anything. */
static bool
is_denied(Leaving *leaving, Plan *plan)
{
	FbEquality	wanted[CONDITIONS_MAX];
	int			count = 0;
	ListCell   *cell;
	Relation	heap;
	bool		is_denied;

	foreach(cell, conditions_of(plan))
	{
		if (count < CONDITIONS_MAX
			&& is_wanted(leaving, (Scan *) plan, lfirst(cell), &wanted[count]))
			count++;
	}
	if (count == 0)
		return false;
	/* It is locked since it was planned. */
	heap = table_open(rt_fetch(((Scan *) plan)->scanrelid,
							   leaving->query->plannedstmt->rtable)->relid, NoLock);
	is_denied = heap->rd_rel->relispartition
		&& fb_has_none(heap, wanted, count, leaving->query->snapshot);
	table_close(heap, NoLock);
	return is_denied;
}

/* Those of an Append's plans that may find a row, at least one. */
static List *
remaining(Leaving *leaving, List *plans)
{
	List	   *kept = NIL;
	ListCell   *cell;

	foreach(cell, plans)
	{
		if (!is_denied(leaving, lfirst(cell)))
			kept = lappend(kept, lfirst(cell));
	}
	return kept != NIL ? kept : list_make1(linitial(plans));
}

/* Where an Append of either kind has its plans; NULL in others, and where these are chosen later. */
static List **
plans_of(Plan *plan)
{
	if (IsA(plan, Append) && !FbIsPruned((Append *) plan))
		return &((Append *) plan)->appendplans;
	if (IsA(plan, MergeAppend) && !FbIsPruned((MergeAppend *) plan))
		return &((MergeAppend *) plan)->mergeplans;
	return NULL;
}

/* The size of a node that an Append can be below of, or of the Append. */
static Size
size_of(Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_Limit:
			return sizeof(Limit);
		case T_Sort:
			return sizeof(Sort);
		case T_Agg:
			return sizeof(Agg);
		case T_Append:
			return sizeof(Append);
		default:
			return sizeof(MergeAppend);
	}
}

/* The same statement, where the Append has these plans instead. */
static PlannedStmt *
with_plans(PlannedStmt *whole, Plan *append, List *plans)
{
	PlannedStmt *statement = memcpy(palloc(sizeof(PlannedStmt)), whole, sizeof(PlannedStmt));
	Plan	  **place = &statement->planTree;

	for (bool is_last = false; !is_last; place = &(*place)->lefttree)
	{
		is_last = *place == append;
		*place = memcpy(palloc(size_of(*place)), *place, size_of(*place));
		if (is_last)
			*plans_of(*place) = plans;
	}
	return statement;
}

bool
fb_leave_out(QueryDesc *query, FbLeftOut *left)
{
	Leaving		leaving = {.query = query};
	Plan	   *append = query->plannedstmt->planTree;
	List	  **plans;
	List	   *kept;
	bool		is_less;
	MemoryContext memory;
	MemoryContext before;

	/* Workers would be given the whole plan. */
	if (query->operation != CMD_SELECT || query->plannedstmt->parallelModeNeeded
		|| IsParallelWorker())
		return false;
	while (IsA(append, Limit) || IsA(append, Sort) || IsA(append, Agg))
		append = append->lefttree;
	plans = plans_of(append);
	if (plans == NULL)
		return false;
	memory = AllocSetContextCreate(CurrentMemoryContext, "fullbore lookup",
								   ALLOCSET_SMALL_SIZES);
	before = MemoryContextSwitchTo(memory);
	leaving.context = CreateStandaloneExprContext();
	leaving.context->ecxt_param_list_info = query->params;
	kept = remaining(&leaving, *plans);
	is_less = list_length(kept) < list_length(*plans);
	if (is_less)
	{
		*left = (FbLeftOut) {query->plannedstmt, append, memory};
		query->plannedstmt = with_plans(query->plannedstmt, append, kept);
	}
	MemoryContextSwitchTo(before);
	if (!is_less)
		MemoryContextDelete(memory);
	return is_less;
}

void
fb_put_back(QueryDesc *query, const FbLeftOut *left)
{
	PlanState  *state = query->planstate;

	while (nodeTag(state->plan) != nodeTag(left->whole))
		state = outerPlanState(state);
	state->plan = left->whole;
	query->plannedstmt = left->statement;
	MemoryContextSetParent(left->memory, query->estate->es_query_cxt);
}
