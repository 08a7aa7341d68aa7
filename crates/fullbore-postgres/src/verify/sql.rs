//! The same sums, asked of the server: plain SQL over functions that it has, no extension.
//!
//! A value's hash is that of its type's send function; what is then done with hashes is arithmetic of
//! `bigint`. `OFFSET 0` keeps the planner from putting a hash into every place where it is used.

use fullbore_load::plan::lineage::ORDER_COLUMN;
use fullbore_load::sums::{ColumnSums, Sums};
use fullbore_parse::types::FieldType;
use fullbore_pgwire::{ConnectionError, Row, Session, quote_identifier, quote_literal};
use fullbore_read::error::Result;

use super::column::{NULL_HASH, SummedColumn, unit};
use super::extent::{self, Measure};
use super::hash::HashKind;
use super::summer::{MARK_MASK, weight};
use crate::catalog::Relation;
use crate::error::{failed, refuse};

/// What sums are made modulo.
const MODULUS: &str = "18446744073709551616";

/// How the sums of a table's rows are made in SQL.
#[derive(Debug, Clone)]
pub struct Formula {
    pub kind: HashKind,
    columns: Vec<ServerColumn>,
}

#[derive(Debug, Clone)]
struct ServerColumn {
    /// Quoted.
    name: String,
    /// The function that gives its bytes, with its schema.
    send: Option<String>,
    is_not_null: bool,
    measure: Option<Measure>,
}

/// How much is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What proves that rows are the same.
    Proof,
    /// What tells how they differ, too.
    Everything,
}

/// A table's columns as they are summed, by their names in the order in which they are sent.
pub fn summed_columns(relation: &Relation, names: &[String]) -> Result<Vec<SummedColumn>> {
    names
        .iter()
        .map(|name| {
            if name == ORDER_COLUMN {
                let (name, field_type) = (name.clone(), FieldType::Int64);
                return Ok(SummedColumn { name, field_type, unit: 1, padded: 0, element_oid: 0 });
            }
            let column = relation.columns.iter().find(|column| column.name == *name);
            let column = column.ok_or_else(|| {
                refuse(
                    format!("{} no longer has column {name:?}", relation.name),
                    "loaded rows can be compared only in the columns they were loaded into",
                )
            })?;
            let known = &column.catalog_type;
            let element = known.element.as_ref();
            let type_name = element.map_or(known.name.as_str(), |(element, _)| &element.name);
            let is_padded = type_name == "bpchar" && known.modifier > MODIFIER_HEADER;
            Ok(SummedColumn {
                name: name.clone(),
                // Only the server knows the others; they have no extent either.
                field_type: known.field_type(true).unwrap_or(FieldType::Jsonb),
                unit: match type_name {
                    "time" | "timestamp" | "timestamptz" => unit(known.modifier),
                    _ => 1,
                },
                padded: if is_padded { (known.modifier - MODIFIER_HEADER) as usize } else { 0 },
                element_oid: element.map_or(0, |(_, oid)| *oid),
            })
        })
        .collect()
}

/// The header that a type modifier counts too (`VARHDRSZ`).
const MODIFIER_HEADER: i32 = 4;

impl Formula {
    /// Asks how values of the columns of `table` are turned into bytes.
    pub fn of(
        session: &mut Session,
        kind: HashKind,
        table: &str,
        columns: &[SummedColumn],
    ) -> Result<Self> {
        let rows = session
            .query(&format!(
                "SELECT a.attname, a.attnotnull, format('%I.%I', n.nspname, p.proname) AS send
                   FROM pg_attribute a
                   JOIN pg_type t ON t.oid = a.atttypid
                   JOIN pg_proc p ON p.oid = t.typsend
                   JOIN pg_namespace n ON n.oid = p.pronamespace
                  WHERE a.attrelid = {}::regclass AND a.attnum > 0 AND NOT a.attisdropped",
                quote_literal(table).map_err(failed)?
            ))
            .map_err(failed)?;
        let columns = columns.iter().map(|column| {
            let found = rows.iter().find(|row| row.get("attname") == Some(&column.name));
            Ok(ServerColumn {
                name: quote_identifier(&column.name)?,
                send: found.and_then(|row| row.get("send")).map(str::to_owned),
                is_not_null: found.and_then(|row| row.get("attnotnull")) == Some("t"),
                measure: extent::measure(column),
            })
        });
        let columns: Result<Vec<_>, ConnectionError> = columns.collect();
        Ok(Self { kind, columns: columns.map_err(failed)? })
    }

    /// The query for the sums of the rows of `from`, in parts by the expression `part` if there is one.
    pub fn query(&self, from: &str, part: Option<&str>, detail: Detail) -> String {
        let all = |item: &dyn Fn(usize, &ServerColumn) -> String, joint: &str| -> String {
            let items = self.columns.iter().enumerate();
            items.map(|(at, column)| item(at, column)).collect::<Vec<_>>().join(joint)
        };
        let inner = all(&|at, column| format!("{} AS h{at}", self.hash(column)), ", ");
        // What can't be NULL needs no step to look for it; where it is, all sums are wrong.
        let hash = |at: usize, column: &ServerColumn| match column.is_not_null {
            true => format!("h{at}"),
            false => format!("coalesce(h{at}, {NULL_HASH})"),
        };
        let mark = all(&|at, column| format!("{} * {}", hash(at, column), weight(at)), " + ");
        let passed = all(&|at, _| format!("h{at}"), ", ");
        let sums = all(&|at, _| format!("coalesce(sum(h{at}), 0) % {MODULUS}"), ", ");
        let count = |at: usize, column: &ServerColumn| match column.is_not_null {
            true => "count(*)".to_owned(),
            false => format!("count(h{at})"),
        };
        let values = all(&count, ", ");
        let (mut more, mut measured, mut passed_measures) = Default::default();
        if detail == Detail::Everything {
            let without = all(
                &|at, _| {
                    let rest = format!(
                        "(m - coalesce(h{at}, {NULL_HASH}) * {} & {MARK_MASK})",
                        weight(at)
                    );
                    format!("coalesce(sum({rest} * {rest}), 0) % {MODULUS}")
                },
                ", ",
            );
            let ends = |end: &str| all(&|at, _| format!("{end}(x{at})"), ", ");
            more = format!(
                ", ARRAY[{without}]::text AS withouts, ARRAY[{}]::text AS lows, ARRAY[{}]::text AS highs",
                ends("min"),
                ends("max")
            );
            let of = |column: &ServerColumn| match column.measure {
                Some(measure) => extent::sql(measure, &column.name, &bytes(column)),
                None => "NULL::bigint".into(),
            };
            measured = all(&|at, column| format!(", {} AS x{at}", of(column)), "");
            passed_measures = all(&|at, _| format!(", x{at}"), "");
        }
        let (shown, inner_part, passed_part, grouped) = match part {
            Some(part) => ("part::text", format!("{part} AS part, "), "part, ", "GROUP BY part"),
            None => ("''", String::new(), "", ""),
        };
        format!(
            "SELECT {shown} AS part, count(*) AS rows, coalesce(sum(m * m), 0) % {MODULUS} AS row,
                    ARRAY[{sums}]::text AS sums, ARRAY[{values}]::text AS counts{more}
               FROM (SELECT {passed_part}({mark}) & {MARK_MASK} AS m, {passed}{passed_measures}
                       FROM (SELECT {inner_part}{inner}{measured} FROM {from} OFFSET 0)
                            AS hashed OFFSET 0) AS marked {grouped}"
        )
    }

    /// Asks for sums.
    pub fn ask(
        &self,
        session: &mut Session,
        from: &str,
        part: Option<&str>,
        detail: Detail,
    ) -> Result<Vec<(String, Sums)>, ConnectionError> {
        let rows = session.query(&self.query(from, part, detail))?;
        rows.iter().map(|row| self.read(row, detail)).collect()
    }

    /// The sums of all rows of `from`.
    pub fn total(
        &self,
        session: &mut Session,
        from: &str,
        detail: Detail,
    ) -> Result<Sums, ConnectionError> {
        let found = self.ask(session, from, None, detail)?.into_iter().next();
        Ok(found.map_or_else(|| Sums::of_columns(self.columns.len()), |(_, sums)| sums))
    }

    /// NULL of a NULL.
    fn hash(&self, column: &ServerColumn) -> String {
        let hash = self.kind.sql(&bytes(column));
        match self.kind {
            HashKind::Crc32c => hash,
            HashKind::Lookup3 => {
                // Of a row type, IS NOT NULL would ask for its fields.
                format!("CASE WHEN {} IS DISTINCT FROM NULL THEN {hash} END", column.name)
            }
        }
    }

    fn read(&self, row: &Row, detail: Detail) -> Result<(String, Sums), ConnectionError> {
        let damaged =
            |what: &str| ConnectionError::protocol(format!("the sums have no proper {what}"));
        let number = |name: &str| -> Result<u64, ConnectionError> {
            row.get(name).and_then(|text| text.parse().ok()).ok_or_else(|| damaged(name))
        };
        let list = |name: &str| -> Result<Vec<&str>, ConnectionError> {
            let text = row.get(name).and_then(|text| text.strip_prefix('{')?.strip_suffix('}'));
            let items: Vec<&str> = text.ok_or_else(|| damaged(name))?.split(',').collect();
            if items.len() == self.columns.len() { Ok(items) } else { Err(damaged(name)) }
        };
        let numbers = |name: &str| -> Result<Vec<u64>, ConnectionError> {
            let items = list(name)?;
            items.iter().map(|item| item.parse().map_err(|_| damaged(name))).collect()
        };
        let rows = number("rows")?;
        let (sums, counts) = (numbers("sums")?, numbers("counts")?);
        let mut columns: Vec<ColumnSums> = Vec::with_capacity(sums.len());
        for (sum, count) in sums.iter().zip(&counts) {
            let nulls = rows.checked_sub(*count).ok_or_else(|| damaged("counts"))?;
            // The server leaves NULLs out.
            let sum = sum.wrapping_add(nulls.wrapping_mul(u64::from(NULL_HASH)));
            columns.push(ColumnSums { sum, nulls, ..ColumnSums::default() });
        }
        if detail == Detail::Everything {
            for (column, without) in columns.iter_mut().zip(numbers("withouts")?) {
                column.without = without;
            }
            let (lows, highs) = (list("lows")?, list("highs")?);
            for ((column, low), high) in columns.iter_mut().zip(lows).zip(highs) {
                column.extent = low.parse().ok().zip(high.parse().ok());
            }
        }
        let part = row.get("part").unwrap_or_default().to_owned();
        Ok((part, Sums { rows, row: number("row")?, columns }))
    }

    /// How the least and the greatest value of a column are measured.
    pub fn measure(&self, column: usize) -> Option<Measure> {
        self.columns.get(column).and_then(|column| column.measure)
    }
}

/// The SQL for a value's bytes.
fn bytes(column: &ServerColumn) -> String {
    match &column.send {
        Some(send) => format!("{send}({})", column.name),
        // A type that can't be sent in binary form has its text.
        None => format!("pg_catalog.convert_to({}::text, 'UTF8')", column.name),
    }
}

/// Whether the server makes the hashes that are made here; asked before they are relied on.
pub fn agrees(session: &mut Session, kind: HashKind) -> Result<bool, ConnectionError> {
    const LENGTHS: usize = 40;
    let sample: Vec<u8> = (0..LENGTHS).map(|at| (at * 37 + 11) as u8).collect();
    let hex: String = sample.iter().map(|byte| format!("{byte:02x}")).collect();
    let rows = session.query(&format!(
        "SELECT string_agg({}::text, ',' ORDER BY n) AS hashes
           FROM generate_series(0, {LENGTHS}) AS n",
        kind.sql(&format!("pg_catalog.substr('\\x{hex}'::bytea, 1, n)"))
    ))?;
    let ours: Vec<String> =
        (0..=LENGTHS).map(|length| kind.of(&sample[..length]).to_string()).collect();
    Ok(rows.first().and_then(|row| row.get("hashes")) == Some(&ours.join(",")))
}
