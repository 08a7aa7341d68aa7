//! Finds rows that share a unique key with each other or with existing rows, or that violate an exclusion
//! constraint.

use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::{Error, Result};

use super::{Checked, REMOVED, SHARED_KEY, oids};
use crate::catalog::{self, IndexDefinition};
use crate::direct::filled;
use crate::error::failed;
use crate::naming::derived;

/// A unique index of the target.
pub struct UniqueKey {
    /// Of its constraint, or else of itself.
    pub name: String,
    /// The columns that it depends on.
    pub columns: Vec<String>,
    /// Its columns or expressions, as SQL in the names of the table's columns.
    expressions: Vec<String>,
    /// The columns as people name them.
    pub written: String,
    predicate: Option<String>,
    /// Two NULLs are the same.
    nulls_are_same: bool,
    /// What two rows compare their keys by, one for each expression.
    operators: Vec<String>,
    /// What builds the index, after `ON table `.
    tail: String,
    /// Of an exclusion constraint, or of a key WITHOUT OVERLAPS: its definition.
    exclusion: Option<String>,
}

/// The unique indexes of the target, and those of its exclusion constraints.
pub fn unique(session: &mut Session, table: &Checked<'_>) -> Result<Vec<UniqueKey>> {
    read(session, table).map_err(failed)
}

fn read(session: &mut Session, table: &Checked<'_>) -> Result<Vec<UniqueKey>, ConnectionError> {
    let name = quote_literal(&table.target.name().to_string())?;
    let found = session.query(&format!(
        "SELECT i.indexrelid AS oid, i.indrelid AS relation, pg_get_expr(i.indpred, i.indrelid) AS predicate,
                to_jsonb(i) ->> 'indnullsnotdistinct' = 'true' AS nulls_are_same,
                (SELECT string_agg(pg_get_indexdef(i.indexrelid, n, false)
                        || CASE WHEN i.indcollation[n - 1] <> 0 AND co.oid IS NOT NULL
                                THEN format(' COLLATE %I.%I', cn.nspname, co.collname) ELSE '' END,
                        E'\\x01' ORDER BY n)
                   FROM generate_series(1, i.indnkeyatts) AS n
                   LEFT JOIN pg_collation co ON co.oid = i.indcollation[n - 1]
                   LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace) AS expressions,
                (SELECT string_agg(pg_get_indexdef(i.indexrelid, n, true), ', ' ORDER BY n)
                   FROM generate_series(1, i.indnkeyatts) AS n) AS written,
                i.indisexclusion AS excludes,
                (SELECT string_agg(format('OPERATOR(%I.%s)', n.nspname, o.oprname), E'\\x01'
                                   ORDER BY k.place)
                   FROM pg_constraint con
                   CROSS JOIN unnest(con.conexclop) WITH ORDINALITY AS k(operator, place)
                   JOIN pg_operator o ON o.oid = k.operator
                   JOIN pg_namespace n ON n.oid = o.oprnamespace
                  WHERE con.conindid = i.indexrelid AND con.conrelid = i.indrelid) AS operators,
                -- What a B-tree's operator class calls the same: the third of its operators.
                (SELECT string_agg(format('OPERATOR(%I.%s)', n.nspname, o.oprname), E'\\x01'
                                   ORDER BY k.place)
                   FROM unnest(i.indclass::oid[]) WITH ORDINALITY AS k(class, place)
                   JOIN pg_opclass c ON c.oid = k.class
                   JOIN pg_amop m ON m.amopfamily = c.opcfamily AND m.amopstrategy = 3
                                 AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype
                   JOIN pg_operator o ON o.oid = m.amopopr
                   JOIN pg_namespace n ON n.oid = o.oprnamespace) AS equals,
                (SELECT string_agg(DISTINCT a.attname, E'\\x01') FROM pg_attribute a
                  WHERE a.attrelid = i.indrelid AND a.attnum > 0
                    AND (a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
                         OR EXISTS (SELECT FROM pg_depend d
                                     WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                                       AND d.refobjid = i.indrelid AND d.refobjsubid = a.attnum))
                ) AS columns
           FROM pg_index i
          WHERE i.indrelid = to_regclass({name}) AND (i.indisunique OR i.indisexclusion)
            AND i.indislive ORDER BY i.indexrelid"
    ))?;
    let Some(relation) = found.first().and_then(|row| row.get("relation")?.parse().ok()) else {
        return Ok(Vec::new());
    };
    let built = catalog::indexes(session, relation)?;
    let keys = found.iter().filter_map(|row| {
        let sent = &table.columns().shape.columns;
        let is_sent = |name: &str| sent.iter().any(|column| column.name == name);
        let columns: Vec<String> = row.get("columns")?.split('\u{1}').map(str::to_owned).collect();
        if !columns.iter().all(|name| is_sent(name)) {
            // What the table fills in by itself is in no file.
            return None;
        }
        let oid: u32 = row.get("oid")?.parse().ok()?;
        let index = built.iter().find(|index| index.oid == oid)?;
        let list = |name: &str| -> Option<Vec<String>> {
            Some(row.get(name)?.split('\u{1}').map(str::to_owned).collect())
        };
        let expressions = list("expressions")?;
        let exclusion = index.constraint.as_ref().filter(|_| row.flag("excludes"));
        let operators = match &exclusion {
            Some(_) => list("operators")?,
            None => list("equals")?,
        };
        Some(UniqueKey {
            name: index.known().to_owned(),
            columns,
            expressions,
            operators,
            written: row.get("written").unwrap_or_default().to_owned(),
            predicate: row.get("predicate").map(str::to_owned),
            nulls_are_same: row.flag("nulls_are_same"),
            tail: index.tail.clone(),
            exclusion: exclusion.map(|constraint| {
                let definition = &constraint.definition;
                // One that waits for the end of a transaction could not say which row it lets in.
                definition.strip_suffix(&constraint.timing).unwrap_or(definition).to_owned()
            }),
        })
    });
    Ok(keys.collect())
}

impl UniqueKey {
    /// `k0, k1` after a prefix.
    fn keys(&self, prefix: &str) -> String {
        let keys = (0..self.expressions.len()).map(|n| format!("{prefix}k{n}"));
        keys.collect::<Vec<_>>().join(", ")
    }

    /// The keys of a table's rows that the index holds, `more` of their columns with them.
    pub fn of(&self, table: &str, more: &str) -> String {
        let columns: Vec<String> = self
            .expressions
            .iter()
            .enumerate()
            .map(|(n, expression)| format!("{expression} AS k{n}"))
            .collect();
        let mut conditions: Vec<String> =
            self.predicate.iter().map(|predicate| format!("({predicate})")).collect();
        if !self.nulls_are_same {
            conditions.extend(self.expressions.iter().map(|e| format!("({e}) IS NOT NULL")));
        }
        let conditions = match conditions.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", conditions.join(" AND ")),
        };
        format!("SELECT {}{more} FROM {table}{conditions}", columns.join(", "))
    }

    /// What is true of the rows `a` and `b` of [`UniqueKey::of`] that share the key.
    pub fn same(&self) -> String {
        let each = self.operators.iter().enumerate().map(|(n, operator)| {
            let same = format!("a.k{n} {operator} b.k{n}");
            match self.nulls_are_same {
                true => format!("({same} OR a.k{n} IS NULL AND b.k{n} IS NULL)"),
                false => same,
            }
        });
        each.collect::<Vec<_>>().join(" AND ")
    }

    /// What makes another table let in only rows that may stand side by side.
    pub fn build(&self, table: &str) -> String {
        match &self.exclusion {
            Some(definition) => format!("ALTER TABLE {table} ADD {definition}"),
            None => format!("CREATE UNIQUE INDEX ON {table} {}", self.tail),
        }
    }

    /// SQLSTATE and words of the refusal, the latter up to the constraint's name.
    pub fn words(&self) -> (&'static str, &'static str) {
        match self.exclusion {
            Some(_) => ("23P01", "conflicting key value violates exclusion constraint"),
            None => ("23505", "duplicate key value violates unique constraint"),
        }
    }

    /// The key of a row as people read it.
    pub fn text(&self) -> String {
        format!("concat_ws(', ', {})", self.keys("a."))
    }

    /// Whether an index of a heap that was loaded is the one of this key.
    fn is_kept_by(&self, index: &IndexDefinition) -> bool {
        self.exclusion.is_none() && index.is_unique && index.tail == self.tail
    }

    /// The places (`tid`) of rows in a heap that share their key with another one of it.
    fn shared_within(&self, heap: &str) -> String {
        let keys = self.keys("");
        let all = self.of(heap, ", ctid AS tid");
        if self.exclusion.is_some() {
            return format!(
                "SELECT a.tid FROM ({all}) a
                  WHERE EXISTS (SELECT FROM ({all}) b WHERE a.tid <> b.tid AND {})",
                self.same()
            );
        }
        if self.nulls_are_same {
            // NULLs are the same to a window, but not to a join.
            return format!(
                "SELECT tid FROM (SELECT tid, count(*) OVER (PARTITION BY {keys}) AS n FROM ({all}) k) w
                  WHERE n > 1"
            );
        }
        format!(
            "SELECT a.tid FROM ({all}) a JOIN (SELECT {keys} FROM ({}) k GROUP BY {keys}
                                                HAVING count(*) > 1) b ON {}",
            self.of(heap, ""),
            self.same()
        )
    }

    /// Those that share it with a row of another table.
    fn shared_with(&self, heap: &str, other: &str) -> String {
        format!(
            "SELECT a.tid FROM ({}) a WHERE EXISTS (SELECT FROM ({}) b WHERE {})",
            self.of(heap, ", ctid AS tid"),
            self.of(other, ""),
            self.same()
        )
    }
}

/// Notes all rows that share a key with another one, where they are; how many.
pub fn note(session: &mut Session, table: &Checked<'_>, unique: &[UniqueKey]) -> Result<u64> {
    let mut noted = 0;
    let mut helpers: Vec<QualifiedName> = Vec::new();
    let built = built(session, table, unique)?;
    for (number, heap) in table.heaps.iter().enumerate() {
        let name = heap.to_string();
        let mut shared = Vec::new();
        let mut is_searched = false;
        for (key, built) in unique.iter().zip(&built[number]) {
            match built {
                Some(Built { shared: None, .. }) => {}
                Some(Built { shared: Some(told), .. }) => shared.push(told.clone()),
                None => {
                    is_searched = true;
                    shared.push(key.shared_within(&name));
                }
            }
        }
        if table.joins_target() {
            let target = table.target.alone();
            is_searched |= !unique.is_empty();
            shared.extend(unique.iter().map(|key| key.shared_with(&name, &target)));
        }
        if shared.is_empty() {
            continue;
        }
        // Who excludes whom can be asked of every pair only with an index.
        for (place, key) in unique.iter().enumerate().filter(|(_, key)| key.exclusion.is_some()) {
            let index = derived(heap, "keys", &place.to_string()).map_err(failed)?;
            let name = quote_identifier(index.name()).map_err(failed)?;
            let sql = format!("CREATE INDEX {name} ON {heap} {}", key.tail);
            session.execute(&sql).map_err(failed)?;
            helpers.push(index);
        }
        if is_searched {
            session.execute(&format!("ANALYZE {heap}")).map_err(failed)?;
        }
        noted += session
            .execute(&format!(
                "INSERT INTO {REMOVED}
                 SELECT {}, {SHARED_KEY}, {number}, h.ctid
                   FROM {heap} h JOIN (SELECT DISTINCT tid FROM ({}) t) s ON h.ctid = s.tid",
                table.list("h."),
                shared.join(" UNION ")
            ))
            .map_err(failed)?;
        for index in helpers.drain(..) {
            session.execute(&format!("DROP INDEX {index}")).map_err(failed)?;
        }
    }
    Ok(noted)
}

/// The rows that stay are alone: indexes that were filled with all others as well become valid.
pub fn settle(session: &mut Session, table: &Checked<'_>, unique: &[UniqueKey]) -> Result<()> {
    for index in built(session, table, unique)?.into_iter().flatten().flatten() {
        let Some(shared) = &index.shared else { continue };
        if let Some(row) = session.query(shared).map_err(failed)?.first() {
            let place = row.get("tid").unwrap_or_default();
            return Err(Error::usage(format!(
                "the row {place} shares a key of {}, but was not taken out",
                index.name
            )));
        }
    }
    Ok(())
}

/// An index that was made of a heap's rows before.
struct Built {
    name: String,
    /// Where it is invalid: the query that finds the rows which share its keys.
    shared: Option<String>,
}

/// The index of each key on each heap, where there is one.
fn built(
    session: &mut Session,
    table: &Checked<'_>,
    unique: &[UniqueKey],
) -> Result<Vec<Vec<Option<Built>>>> {
    let oids = oids(session, table.heaps).map_err(failed)?;
    let indexes = catalog::indexes_of(session, &oids).map_err(failed)?;
    let mut told = None;
    let mut all = Vec::new();
    for oid in oids {
        let mut its = Vec::new();
        for key in unique {
            let mut on_heap = indexes.iter().filter(|(of, _)| *of == oid).map(|(_, index)| index);
            let Some(index) = on_heap.find(|index| key.is_kept_by(index)) else {
                its.push(None);
                continue;
            };
            let shared = match index.is_valid {
                true => None,
                false => {
                    let known = match &mut told {
                        Some(known) => known,
                        told => told.insert(filled::Shared::of(session).map_err(failed)?),
                    };
                    Some(known.query(index.oid))
                }
            };
            its.push(Some(Built { name: index.name.clone(), shared }));
        }
        all.push(its);
    }
    Ok(all)
}
