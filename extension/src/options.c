/*
 * options.c - COPY ... WITH (FORMAT fullbore, ...).
 */
#include "load.h"

#include "commands/defrem.h"

bool
fb_is_ours(const CopyStmt *statement)
{
	ListCell   *cell;

	foreach(cell, statement->options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, "format") == 0 && option->arg != NULL
			&& strcmp(defGetString(option), "fullbore") == 0)
			return true;
	}
	return false;
}

static FbIo
read_io(DefElem *option)
{
	const char *name = defGetString(option);

	if (strcmp(name, "auto") == 0)
		return FB_IO_AUTO;
	if (strcmp(name, "buffered") == 0)
		return FB_IO_BUFFERED;
	if (strcmp(name, "direct") == 0)
		return FB_IO_DIRECT;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for COPY option \"io\": \"%s\"", name),
			 errhint("Valid values are auto, buffered and direct.")));
}

FbOptions
fb_read_options(const CopyStmt *statement)
{
	FbOptions	options = {0};
	List	   *seen = NIL;
	ListCell   *cell;

	foreach(cell, statement->options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);
		const char *name = option->defname;

		if (list_member(seen, makeString(option->defname)))
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 errmsg("COPY option \"%s\" specified more than once", name)));
		seen = lappend(seen, makeString(option->defname));

		if (strcmp(name, "format") == 0)
			continue;
		else if (strcmp(name, "descriptor") == 0)
			options.descriptor = defGetString(option);
		else if (strcmp(name, "freeze") == 0)
			options.freeze = defGetBoolean(option);
		else if (strcmp(name, "indexes") == 0)
			options.indexes = defGetBoolean(option);
		else if (strcmp(name, "io") == 0)
			options.io = read_io(option);
		else if (strcmp(name, "range_column") == 0)
			options.range_column = defGetString(option);
		else if (strcmp(name, "range_from") == 0)
			options.range_from = defGetString(option);
		else if (strcmp(name, "range_to") == 0)
			options.range_to = defGetString(option);
		else if (strcmp(name, "range_constraint") == 0)
			options.range_constraint = defGetString(option);
		else
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 errmsg("COPY format \"fullbore\" has no option \"%s\"", name),
					 errhint("Its options are descriptor, freeze, indexes, io, range_column, "
							 "range_from, range_to and range_constraint.")));
	}

	if (options.descriptor == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("COPY format \"fullbore\" needs the option \"descriptor\""),
				 errdetail("It identifies the layout of the rows."),
				 errhint("Use \"hash\" from fullbore.descriptor(table).")));
	if (options.range_column == NULL
		&& (options.range_from != NULL || options.range_to != NULL
			|| options.range_constraint != NULL))
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("a range needs the COPY option \"range_column\"")));
	return options;
}
