//! Partitions of MariaDB and MySQL that are filled aside and exchanged.
//!
//! Rows are staged in a table of the same partitions. Once they are compared it is renamed: from then on its partitions
//! are published, and whatever ends the process, the next attempt continues. Each partition is exchanged with a table without
//! partitions, and that with the target's empty partition. The server checks that its rows belong there.

use fullbore_pgwire::{QualifiedName, quote_identifier};
use fullbore_read::error::{Error, Result};

use super::Dialect;
use super::mysql::MySql;
use crate::error::cannot;
use crate::link::{Link, Row};
use crate::table::{has_rows, named};

/// Refuses a table whose partitions can't be exchanged.
pub fn check(link: &mut dyn Link, table: &QualifiedName) -> Result<()> {
    let found = described(link, table)?;
    let has_parts_of_parts = found.iter().any(|row| row.get(1).is_some_and(Option::is_some));
    match (found.is_empty(), has_parts_of_parts) {
        (false, false) => Ok(()),
        (true, _) => {
            Err(cannot(format!("{table} has no partitions"), "use --publish append or replace"))
        }
        (_, true) => Err(cannot(
            format!("{table} has subpartitions, which can't be exchanged"),
            "use --publish append or replace",
        )),
    }
}

/// Says that what is staged is shown from now on, once it is certain that nothing is in its way.
pub fn begin(link: &mut dyn Link, table: &QualifiedName, stage: &QualifiedName) -> Result<()> {
    for partition in partitions(link, stage)? {
        if holds(link, stage, &partition)? && holds(link, table, &partition)? {
            return Err(cannot(
                format!("partition {partition} of {table} has rows already"),
                "empty it and resume the run, or abort the run and load with --publish append",
            ));
        }
    }
    link.execute(&format!("RENAME TABLE {stage} TO {}", shown(stage)?))
}

/// Exchanges what is left of the partitions that are shown.
pub fn go_on(link: &mut dyn Link, table: &QualifiedName, stage: &QualifiedName) -> Result<()> {
    let (shown, swap) = (shown(stage)?, swap(stage)?);
    if !is_there(link, &shown)? {
        return Ok(());
    }
    let partitions = partitions(link, table)?;
    if is_there(link, &swap)? && has_rows(link, &swap.to_string())? {
        // An attempt ended between two exchanges: the server lets rows into their own partition alone.
        for partition in &partitions {
            if !holds(link, table, partition)? && exchange(link, table, partition, &swap).is_ok() {
                break;
            }
        }
        if has_rows(link, &swap.to_string())? {
            return Err(cannot(
                format!("rows of {swap} belong to no empty partition of {table}"),
                "empty the partition that they belong to, and resume the run",
            ));
        }
    }
    link.execute(&format!("DROP TABLE IF EXISTS {swap}"))?;
    for partition in &partitions {
        if holds(link, &shown, partition)? {
            link.execute(&format!("CREATE TABLE {swap} LIKE {table}"))?;
            link.execute(&format!("ALTER TABLE {swap} REMOVE PARTITIONING"))?;
            exchange(link, &shown, partition, &swap)?;
            exchange(link, table, partition, &swap)?;
            if has_rows(link, &swap.to_string())? {
                // Of somebody who was faster: theirs go back, and ours wait.
                exchange(link, table, partition, &swap)?;
                exchange(link, &shown, partition, &swap)?;
                return Err(cannot(
                    format!("partition {partition} of {table} has got rows meanwhile"),
                    "empty it, and resume the run",
                ));
            }
            link.execute(&format!("DROP TABLE {swap}"))?;
        }
    }
    if has_rows(link, &shown.to_string())? {
        return Err(cannot(
            format!("rows of {shown} belong to no partition of {table} any more"),
            "add the partition that they belong to, and resume the run",
        ));
    }
    link.execute(&format!("DROP TABLE {shown}"))
}

/// Refuses to take away what is staged where some of its partitions may be shown.
pub fn check_over(link: &mut dyn Link, stage: &QualifiedName) -> Result<()> {
    if !is_there(link, &shown(stage)?)? {
        return Ok(());
    }
    Err(cannot("partitions of this run are being published", "resume it: fullbore runs resume"))
}

fn exchange(
    link: &mut dyn Link,
    table: &QualifiedName,
    partition: &str,
    other: &QualifiedName,
) -> Result<()> {
    // Without it, MariaDB 10.11 waits for a lock of its own as it checks the rows.
    link.execute("SET SESSION autocommit = 1")?;
    let exchange = format!("ALTER TABLE {table} EXCHANGE PARTITION {partition} WITH TABLE {other}");
    let exchanged = link.execute(&exchange);
    link.execute("SET SESSION autocommit = 0")?;
    exchanged
}

fn holds(link: &mut dyn Link, table: &QualifiedName, partition: &str) -> Result<bool> {
    has_rows(link, &format!("{table} PARTITION ({partition})"))
}

/// The partitions of a table, each with a part of it if it has parts.
fn described(link: &mut dyn Link, table: &QualifiedName) -> Result<Vec<Row>> {
    link.query(&format!(
        "SELECT partition_name, subpartition_name FROM information_schema.partitions
          WHERE partition_name IS NOT NULL AND {} ORDER BY partition_ordinal_position",
        MySql::is_about("", table)?
    ))
}

/// The names of a table's partitions, quoted.
fn partitions(link: &mut dyn Link, table: &QualifiedName) -> Result<Vec<String>> {
    let found = described(link, table)?;
    let names = found.iter().filter_map(|row| row.first()?.as_deref());
    names.map(|name| quote_identifier(name).map_err(|e| Error::usage(e.to_string()))).collect()
}

fn is_there(link: &mut dyn Link, table: &QualifiedName) -> Result<bool> {
    Ok(MySql.columns(link, table)?.is_some())
}

/// What is staged is called so while it is shown.
fn shown(stage: &QualifiedName) -> Result<QualifiedName> {
    named(stage, "_new")
}

/// A table of one partition's rows, between two exchanges.
fn swap(stage: &QualifiedName) -> Result<QualifiedName> {
    named(stage, "_one")
}
