//! From the command line to a job.

use fullbore::check::check;
use fullbore::destinations;
use fullbore::job_file::job_file;
use fullbore_load::job::{Check, Job, LookupJob, Select, TableJob};
use fullbore_read::error::{Error, Result};

use super::args::LoadArgs;

/// The job that the command line, or its job file, describes. What is said of the run on the
/// command line holds for a job file too.
pub fn job_of(args: &LoadArgs) -> Result<Job> {
    let table = table_job(args)?;
    let of_a_table = TableJob { sources: Vec::new(), ..table.clone() };
    let describes_table = of_a_table != TableJob::default() || args.publish.is_some();
    let mut job = job_file(&args.sources, &args.settings, describes_table)?
        .unwrap_or_else(|| Job { tables: vec![table], ..Job::default() });
    job.to = args.to.clone().or_else(destinations::of_environment).or(job.to);
    job.streams = args.streams.unwrap_or(job.streams);
    job.parsers = args.parsers.unwrap_or(job.parsers);
    job.piece_size = args.piece_size.or(job.piece_size);
    job.max_rate = args.max_rate.or(job.max_rate);
    if !args.endpoint.is_empty() {
        job.endpoints = args.endpoint.clone();
    }
    job.endpoint_policy = args.endpoint_policy.unwrap_or(job.endpoint_policy);
    job.polite |= args.polite;
    job.placement = args.placement.unwrap_or(job.placement);
    job.congestion = args.congestion.clone().or(job.congestion);
    job.send_buffer = args.send_buffer.or(job.send_buffer);
    job.message_size = args.message_size.or(job.message_size);
    job.sort_memory = args.sort_memory.or(job.sort_memory);
    job.sort_dir = args.sort_dir.clone().or(job.sort_dir);
    job.method = args.method.unwrap_or(job.method);
    job.compress = args.compress.unwrap_or(job.compress);
    job.direct_io = args.direct_io.unwrap_or(job.direct_io);
    job.max_rejects = args.max_rejects.unwrap_or(job.max_rejects);
    job.max_field_bytes = args.max_field_bytes.or(job.max_field_bytes);
    job.allow_publication |= args.allow_publication;
    job.skip_logical_decoding |= args.skip_logical_decoding;
    job.statistics = args.statistics.unwrap_or(job.statistics);
    job.no_ledger |= args.no_ledger;
    job.ledger_schema = args.ledger_schema.clone().or(job.ledger_schema);
    job.verify = args.verify.unwrap_or(job.verify);
    job.retry_for = args.retry_for.or(job.retry_for);
    job.part = args.part.or(job.part);
    job.on = args.on.clone().or(job.on);
    for (name, directory) in &args.host {
        job.hosts.entry(name.clone()).or_default().0.push(directory.clone());
    }
    job.if_loaded = args.if_loaded.or(job.if_loaded);
    job.pause_when = args.pause_when.or(job.pause_when);
    job.lock_timeout = args.lock_timeout.or(job.lock_timeout);
    job.replace_anyway |= args.replace_anyway;
    job.lock_writers |= args.lock_writers;
    for written in &args.store {
        job.store
            .set(written)
            .map_err(|wrong| Error::usage_with_hint(wrong, "--store endpoint=URL, for example"))?;
    }
    if !args.tablespaces.is_empty() {
        job.tablespaces = args.tablespaces.clone();
    }
    check(&job)?;
    Ok(job)
}

fn table_job(args: &LoadArgs) -> Result<TableJob> {
    Ok(TableJob {
        name: args.table.clone(),
        sources: args.sources.clone(),
        format: args.format,
        delimiter: args.delimiter.clone(),
        quote: args.quote.clone(),
        escape: args.escape.clone(),
        quotes: args.quotes,
        null: args.null.clone(),
        header: args.header,
        line_end: args.line_end,
        ragged: args.ragged,
        comment: args.comment.clone(),
        skip_lines: args.skip_lines,
        skip_footer: args.skip_footer,
        widths: args.widths.clone(),
        encoding: args.encoding.clone(),
        columns: args.columns.clone(),
        order_by: args.order_by.clone(),
        publish: args.publish.unwrap_or_default(),
        keep_old: args.keep_old,
        atomic: args.atomic,
        key: args.key.clone(),
        on_conflict: args.on_conflict.clone(),
        query: args.query.clone(),
        delete_missing: args.delete_missing,
        create: args.create,
        schema_file: args.schema.clone(),
        types: args.types.clone(),
        partition_by: args.partition_by.clone(),
        partition_bounds: args.partition_bounds.clone(),
        scan_keys: args.scan_keys,
        scan_quotes: args.scan_quotes,
        as_text: args.as_text,
        fresh: false,
        since: None,
        lineage: args.lineage.clone(),
        select: Select::of_options(&args.select)?,
        field_types: args.field_types.clone(),
        r#where: args.filter.clone(),
        control: args.control.clone(),
        lookups: args.lookups.iter().map(|one| LookupJob::of_option(one)).collect::<Result<_>>()?,
        checks: args.checks.iter().map(|check| Check::of_option(check)).collect::<Result<_>>()?,
    })
}
