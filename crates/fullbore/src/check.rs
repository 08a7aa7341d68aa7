//! Refuses a job whose options contradict each other, before anything is looked at.

use fullbore_load::job::{DirectIo, EndpointPolicy, Job, TableJob};
use fullbore_load::run::placement::Nodes;
use fullbore_read::error::{Error, Result};
use fullbore_read::foreign::refuse_remote;
use fullbore_record::terms::{Compress, Method, Publish, Verify};

use crate::destinations::{is_database, is_server};
use crate::ordered;
use crate::sources::is_database as is_database_source;

/// Refuses a job that cannot be meant as it stands.
pub fn check(job: &Job) -> Result<()> {
    check_sources(job)?;
    check_server_options(job)?;
    check_direct_options(job)?;
    check_created(job)?;
    check_kept(job)?;
    check_atomic(job)?;
    check_upsert(job)?;
    check_locks(job)?;
    check_if_loaded(job)?;
    check_endpoints(job)?;
    check_placement(job)?;
    check_part(job)?;
    check_engine(job)?;
    ordered::check(job)?;
    match job.tables.is_empty() {
        true => Err(Error::usage_with_hint("the job has no table", "add a [[table]] to it")),
        false => Ok(()),
    }
}

/// Refuses sources that are databases, for what reads files alone. Their URLs may hold passwords, and are not said.
pub fn refuse_databases(job: &Job) -> Result<()> {
    let mut sources = job.tables.iter().flat_map(|table| &table.sources);
    match sources.any(|source| is_database_source(source)) {
        false => Ok(()),
        true => Err(Error::usage_with_hint(
            "a source that is a database is only for `fullbore load`",
            "name files of the same rows",
        )),
    }
}

/// A database named among the sources: it may hold a password, so it is not said again.
fn check_sources(job: &Job) -> Result<()> {
    let is_connection =
        |source: &String| source.contains("password=") && !is_database_source(source);
    let of_file = job.tables.iter().find(|table| {
        table.query.is_some() && !table.sources.iter().all(|source| is_database_source(source))
    });
    if of_file.is_some() {
        return Err(Error::usage_with_hint(
            "--query is for a source that is a database",
            "write its URL as the source: postgresql://HOST/DATABASE",
        ));
    }
    let sources = job.tables.iter().flat_map(|table| &table.sources);
    let mut files = sources.clone().filter(|source| !is_database_source(source));
    match sources.clone().any(is_connection) {
        false => files.try_for_each(|source| refuse_remote(source)),
        true => Err(Error::usage_with_hint(
            "a source looks like the connection string of a database",
            "write postgresql://HOST/DATABASE?table=TABLE; where rows go is --to URL",
        )),
    }
}

/// What only a server can do is refused where rows go elsewhere.
fn check_server_options(job: &Job) -> Result<()> {
    if is_server(job.to.as_deref()) {
        return Ok(());
    }
    match is_database(job.to.as_deref()) {
        true => refuse_given(
            &[
                (job.pause_when.is_some(), "--pause-when"),
                (job.ledger_schema.is_some(), "--ledger-schema"),
            ],
            "needs a PostgreSQL server",
            "",
        )?,
        false => refuse_given(
            &[(job.if_loaded.is_some(), "--if-loaded")],
            "needs a database",
            "name one with --to, or ",
        )?,
    }
    let publishes = |publish| job.tables.iter().any(|table| table.publish == publish);
    let is_files = job.to.as_deref().is_some_and(|to| to.starts_with("parquet:"));
    let given = [
        // The files of earlier loads stay beside the new ones.
        (is_files && publishes(Publish::Replace), "--publish replace"),
        (is_files && publishes(Publish::Partitions), "--publish partitions"),
        (job.method == Method::Direct, "--method direct"),
        (is_codec(job.compress), "--compress"),
        (job.direct_io != DirectIo::Auto, "--direct-io"),
        (job.verify == Verify::Full, "--verify full"),
        (!job.tablespaces.is_empty(), "--tablespaces"),
        (job.skip_logical_decoding, "--skip-logical-decoding"),
        (job.lock_timeout.is_some(), "--lock-timeout"),
        (job.replace_anyway, "--replace-anyway"),
        (job.lock_writers, "--lock-writers"),
        (!job.endpoints.is_empty(), "--endpoint"),
        (job.polite, "--polite"),
        (job.congestion.is_some(), "--congestion"),
        (job.send_buffer.is_some(), "--send-buffer"),
        (job.message_size.is_some(), "--message-size"),
        (job.tables.iter().any(|table| table.schema_file.is_some()), "--schema"),
        (job.tables.iter().any(|table| !table.control.is_empty()), "--control"),
        (job.tables.iter().any(|table| table.publish == Publish::Upsert), "--publish upsert"),
        (job.part.is_some(), "--part"),
    ];
    refuse_given(&given, "needs a PostgreSQL server", "name one with --to URL, or ")
}

/// Refuses the first of the options that is given: it would do nothing. The reason follows its name, and
/// what can be done instead stands before leaving it out.
pub fn refuse_given(given: &[(bool, &str)], because: &str, instead: &str) -> Result<()> {
    match given.iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, option)) => Err(Error::usage_with_hint(
            format!("{option} {because}"),
            format!("{instead}omit {option}"),
        )),
    }
}

/// What says how a table is made, where none is made by it.
fn check_created(job: &Job) -> Result<()> {
    let to_server = is_server(job.to.as_deref()) || is_database(job.to.as_deref());
    for table in &job.tables {
        let is_made = table.create;
        let (option, hint) = match table {
            _ if table.schema_file.is_some() && !is_made => ("--schema", "add --create"),
            _ if table.partition_by.is_some() && !is_made => ("--partition-by", "add --create"),
            _ if table.types.is_empty() => continue,
            _ if table.schema_file.is_some() => ("--type", "write the type into the --schema file"),
            _ if to_server && !is_made => ("--type", "add --create, or omit --type"),
            _ => continue,
        };
        return Err(Error::usage_with_hint(
            format!("{option} applies only to a table that this load creates"),
            hint,
        ));
    }
    Ok(())
}

/// Whether rows are to be compressed whatever comes.
fn is_codec(compress: Compress) -> bool {
    matches!(compress, Compress::Lz4 | Compress::Zstd)
}

/// An option that could do nothing is refused.
fn check_direct_options(job: &Job) -> Result<()> {
    if job.method != Method::Copy {
        return Ok(());
    }
    let given = [
        (is_codec(job.compress), "--compress"),
        (job.direct_io != DirectIo::Auto, "--direct-io"),
        (job.skip_logical_decoding, "--skip-logical-decoding"),
    ];
    let because = "requires method direct, but --method copy was given";
    refuse_given(&given, because, "choose --method auto or direct, or ")
}

fn check_placement(job: &Job) -> Result<()> {
    match Nodes::missing(job.placement) {
        None => Ok(()),
        Some(node) => Err(Error::usage_with_hint(
            format!("this machine has no memory node {node}"),
            "see /sys/devices/system/node, or omit --placement",
        )),
    }
}

/// A policy needs something to choose from, and a weight a policy that looks at it.
fn check_endpoints(job: &Job) -> Result<()> {
    let policy = job.endpoint_policy;
    if policy != EndpointPolicy::default() && job.endpoints.len() < 2 {
        return Err(Error::usage_with_hint(
            "--endpoint-policy needs several endpoints",
            "name each with --endpoint HOST, or omit --endpoint-policy",
        ));
    }
    let weighted = job.endpoints.iter().find(|endpoint| endpoint.weight != 1);
    match weighted.filter(|_| policy != EndpointPolicy::Weighted) {
        None => Ok(()),
        Some(endpoint) => Err(Error::usage_with_hint(
            format!("endpoint {endpoint} has a weight, which policy {} ignores", policy.name()),
            "add --endpoint-policy weighted, or omit the weight",
        )),
    }
}

/// Only a table that is replaced can be kept.
fn check_kept(job: &Job) -> Result<()> {
    let other = job.tables.iter().find(|table| table.keep_old && table.publish != Publish::Replace);
    match other {
        None => Ok(()),
        Some(_) => Err(Error::usage_with_hint(
            "--keep-old is for --publish replace",
            "omit --keep-old, or load with --publish replace",
        )),
    }
}

/// Whatever takes the place of rows is shown at once in any case.
fn check_atomic(job: &Job) -> Result<()> {
    let is_idle = |table: &TableJob| table.atomic && !table.publish.joins_rows();
    let idle = [(job.tables.iter().any(is_idle), "--atomic")];
    refuse_given(
        &idle,
        "applies only to --publish append and upsert: other modes are always atomic",
        "",
    )
}

/// What says how rows are merged is refused where none are, and what can't be meant where they are.
fn check_upsert(job: &Job) -> Result<()> {
    for table in &job.tables {
        if table.publish != Publish::Upsert {
            let given = [
                (!table.key.is_empty(), "--key"),
                (table.on_conflict.is_some(), "--on-conflict"),
                (table.delete_missing, "--delete-missing"),
            ];
            refuse_given(&given, "applies only to --publish upsert", "add --publish upsert, or ")?;
            continue;
        }
        if job.write.is_some() {
            return Err(Error::usage_with_hint(
                "--publish upsert: rows that tasks of an engine write have no order",
                "append them to a staging table and merge it from there",
            ));
        }
        let mut columns = table.key.clone();
        columns.sort();
        if let Some(twice) = columns.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::usage_with_hint(
                format!("--key names {:?} twice", twice[0]),
                "name each column of the key once",
            ));
        }
        if table.create && table.key.is_empty() {
            return Err(Error::usage_with_hint(
                "--create makes no key unless it is named",
                "name the columns of the key with --key a,b",
            ));
        }
        if table.delete_missing && job.max_rejects.allows_any() {
            return Err(Error::usage_with_hint(
                "--delete-missing would delete the rows of rejected keys",
                "omit --max-rejects, or --delete-missing",
            ));
        }
    }
    Ok(())
}

/// Options about locks are refused where there is nothing that they could do.
pub fn check_locks(job: &Job) -> Result<()> {
    let replaces = job.tables.iter().any(|table| table.publish == Publish::Replace);
    let is_atomic = job.max_rejects.allows_any() || job.tables.iter().any(|table| table.atomic);
    let publishes = is_atomic || job.tables.iter().any(|t| t.publish != Publish::Append);
    let of_replace = [
        (job.replace_anyway && !replaces, "--replace-anyway"),
        (job.lock_writers && !replaces, "--lock-writers"),
    ];
    refuse_given(
        &of_replace,
        "applies only to --publish replace",
        "load with --publish replace, or ",
    )?;
    if job.replace_anyway && job.lock_writers {
        return Err(Error::usage_with_hint(
            "--replace-anyway has no effect with --lock-writers, which blocks all writers",
            "omit one of them",
        ));
    }
    let locks = [(job.lock_timeout.is_some() && !publishes, "--lock-timeout")];
    refuse_given(
        &locks,
        "applies only to atomic publishing; plain append publishes piece by piece",
        "",
    )
}

/// `--if-loaded` is refused where nothing is appended, and where no ledger knows what was.
fn check_if_loaded(job: &Job) -> Result<()> {
    let appends = job.tables.iter().any(|table| table.publish.joins_rows());
    let is_given = job.if_loaded.is_some();
    let no_append = [(is_given && !appends, "--if-loaded")];
    refuse_given(&no_append, "applies only to --publish append and upsert", "")?;
    let no_ledger = [(is_given && job.no_ledger, "--if-loaded")];
    refuse_given(&no_ledger, "needs the ledger, which --no-ledger disables", "")?;
    let part = [(is_given && job.part.is_some(), "--if-loaded")];
    refuse_given(&part, "is for loads of one host", "")
}

fn check_part(job: &Job) -> Result<()> {
    job.part.map_or(Ok(()), |part| check_shared(job, &format!("--part {part}")))
}

/// What hosts can't do together is refused; `option` is the one that has them do it.
fn check_shared(job: &Job, option: &str) -> Result<()> {
    for table in &job.tables {
        if table.name.is_none() {
            return Err(Error::usage_with_hint(
                format!("{option}: each host would derive another table name from its own files"),
                "name the table with --table",
            ));
        }
        if table.create {
            return Err(Error::usage_with_hint(
                format!("{option}: several hosts can't create the table at the same time"),
                "create it first; `fullbore plan` with --create and without --part prints the \
                 statement",
            ));
        }
        if table.publish == Publish::Upsert {
            return Err(Error::usage_with_hint(
                format!("{option}: rows of several hosts have no order, which upsert needs"),
                "load on one host, or append to a staging table and merge it from there",
            ));
        }
        if !table.control.is_empty() {
            return Err(Error::usage_with_hint(
                format!("{option}: control totals are those of all files, which no host has alone"),
                "omit --control: row counts of both sides are still compared",
            ));
        }
        if table.publish.has_one_session(job.method) {
            return Err(Error::usage_with_hint(
                format!("{option}: only one session can fill a table directly"),
                "choose --method copy or auto, or --publish partitions",
            ));
        }
    }
    if job.lock_writers {
        return Err(Error::usage_with_hint(
            format!(
                "{option}: the lock of --lock-writers would be released when its host's part \
                 ends"
            ),
            "omit --lock-writers: rows written by others are detected before the swap",
        ));
    }
    if job.tables.iter().any(|table| table.keep_old) {
        return Err(Error::usage_with_hint(
            format!(
                "{option}: --keep-old is for loads by one host: only their runs can restore \
                 the old table"
            ),
            "omit --keep-old",
        ));
    }
    if job.verify == Verify::Full {
        return Err(Error::usage_with_hint(
            format!("{option}: --verify full is for loads of one host"),
            "omit --verify full: row counts of both sides are still compared",
        ));
    }
    if job.no_ledger {
        return Err(Error::usage_with_hint(
            format!("{option}: the parts are joined through the ledger"),
            "omit --no-ledger",
        ));
    }
    Ok(())
}

/// What an engine can't do is refused, and what needs one.
fn check_engine(job: &Job) -> Result<()> {
    let Some(on) = &job.on else {
        let hosts = [(!job.hosts.is_empty(), "[hosts]")];
        return refuse_given(&hosts, "needs an engine that runs on them", "add --on ray, or ");
    };
    if on != "ray" && !on.starts_with("ray://") {
        return Err(Error::usage_with_hint(
            format!("--on {on:?} is no engine"),
            "choose ray, for the cluster of this machine, or ray://HOST:PORT",
        ));
    }
    let given = [(job.part.is_some(), "--part"), (job.pause_when.is_some(), "--pause-when")];
    refuse_given(&given, "can't be used with --on", "")?;
    check_shared(job, &format!("--on {on}"))
}

/// Refuses a job that an engine is to run where it would run on this host alone.
pub fn check_alone(job: &Job) -> Result<()> {
    match &job.on {
        None => Ok(()),
        Some(on) => Err(Error::usage_with_hint(
            format!("this job is to run on {on}"),
            "use `fullbore load`, or fullbore.ray.load in Python",
        )),
    }
}
