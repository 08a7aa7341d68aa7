//! Checks who owns the ledger and what could run code in it. Its contents are never trusted
//! ([`super::read`]). But functions of views, triggers, policies, defaults and expressions run with the
//! rights of the role that reads or writes the tables. So they are checked first, and the owner must be a
//! role that could run code anyway: the role itself, a superuser, the database's owner.

use std::sync::{Mutex, PoisonError};

use fullbore_pgwire::{ConnectionError, Session, quote_literal};
use fullbore_read::error::Result;

use super::read::rows;
use crate::error::{failed, refuse};

/// What is wrong with a ledger, and what to do about it.
pub struct Distrust {
    pub reason: String,
    pub hint: String,
}

/// Roles whose objects are trusted with one's own rights. The members of `pg_database_owner` are the
/// database's owner alone.
pub const TRUSTED: &str = "
    SELECT oid FROM pg_roles WHERE rolsuper OR rolname IN (current_user, 'pg_database_owner')
    UNION SELECT datdba FROM pg_database WHERE datname = current_database()";

/// The first thing that is wrong with the ledger in schema `{schema}`. A trigger is left to the table's
/// owner where its function is a trusted role's own and not a C function, which does what its arguments say;
/// nobody else may make one, or refer to the table by a foreign key, whose cascades run deferred triggers
/// with other rights than their owner's.
const OBSTACLES: &str = "
    WITH trusted AS ({trusted}),
    t AS (
        SELECT c.oid, c.relkind, c.relowner, c.relrowsecurity, c.relacl, c.relname,
               format('%I.%I', n.nspname, c.relname) AS name
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = {schema}
           AND c.relname IN ('runs', 'pieces', 'pieces_unlogged', 'parts', 'checksums', 'merges', 'batches',
                             'taken')),
    granted AS (
        SELECT t.name, a.privilege_type, a.grantee FROM t, aclexplode(t.relacl) a
        UNION
        SELECT t.name, a.privilege_type, a.grantee
          FROM t JOIN pg_attribute c ON c.attrelid = t.oid, aclexplode(c.attacl) a)
    SELECT reason, remedy FROM (
        SELECT 1 AS place, format('schema %I is owned by role %I', nspname, pg_get_userbyid(nspowner)) AS reason,
               format('ALTER SCHEMA %I OWNER TO', nspname) AS remedy
          FROM pg_namespace
         WHERE nspname = {schema} AND nspowner NOT IN (SELECT oid FROM trusted)
        UNION ALL
        SELECT 2, format('%s is owned by role %I', name, pg_get_userbyid(relowner)),
               format('ALTER TABLE %s OWNER TO', name)
          FROM t WHERE relowner NOT IN (SELECT oid FROM trusted)
        UNION ALL
        SELECT 3, name || ' is not an ordinary table', NULL FROM t WHERE relkind <> 'r'
        UNION ALL
        SELECT 4, name || ' has row-level security', NULL
          FROM t WHERE relrowsecurity OR EXISTS (SELECT FROM pg_policy WHERE polrelid = t.oid)
        UNION ALL
        SELECT 5, format('%s has the rule %I', name, rulename), NULL
          FROM t JOIN pg_rewrite ON ev_class = t.oid
        UNION ALL
        SELECT 6, format('%s has the trigger %I, whose function %s is not an SQL or PL function of a trusted role',
                         name, tgname, tgfoid::regprocedure), NULL
          FROM t JOIN pg_trigger ON tgrelid = t.oid AND NOT tgisinternal
          JOIN pg_proc p ON p.oid = tgfoid JOIN pg_language l ON l.oid = p.prolang
         WHERE p.proowner NOT IN (SELECT oid FROM trusted) OR l.lanname IN ('c', 'internal')
        UNION ALL
        SELECT 7, format('table %s refers to %s', conrelid::regclass, name), NULL
          FROM t JOIN pg_constraint ON confrelid = t.oid
         WHERE conrelid NOT IN (SELECT oid FROM t)
        UNION ALL
        SELECT 8, format('table %s inherits from %s', inhrelid::regclass, name), NULL
          FROM t JOIN pg_inherits ON inhparent = t.oid
         WHERE inhrelid NOT IN (SELECT oid FROM t)
        UNION ALL
        SELECT 9, format('%s inherits from %s', name, inhparent::regclass), NULL
          FROM t JOIN pg_inherits ON inhrelid = t.oid
         WHERE inhparent NOT IN (SELECT oid FROM t)
        UNION ALL
        SELECT 10, format('%s grants TRIGGER or REFERENCES privilege to role %s', name,
                          CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END),
               format('REVOKE TRIGGER, REFERENCES ON %s FROM %s', name,
                      CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END)
          FROM granted
         WHERE privilege_type IN ('TRIGGER', 'REFERENCES') AND grantee NOT IN (SELECT oid FROM trusted)
        UNION ALL
        SELECT 11, format('column %I of %s has the default %s', attname, name, pg_get_expr(adbin, adrelid)), NULL
          FROM t JOIN pg_attrdef d ON d.adrelid = t.oid
          JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.adnum
         WHERE a.attgenerated <> ''
            OR pg_get_expr(adbin, adrelid) NOT IN ('1', 'CURRENT_USER', 'clock_timestamp()')
        UNION ALL
        SELECT 12, format('column %I of %s is of type %s', attname, name, format_type(atttypid, atttypmod)), NULL
          FROM t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
          JOIN pg_type y ON y.oid = a.atttypid
         WHERE y.typnamespace <> 'pg_catalog'::regnamespace
        UNION ALL
        SELECT 13, format('%s has the constraint %I', name, conname), NULL
          FROM t JOIN pg_constraint ON conrelid = t.oid
         WHERE contype NOT IN ('p', 'u', 'f', 'n', 't')
           AND (contype <> 'c' OR pg_get_expr(conbin, conrelid) <> '((part >= 1) AND (part <= parts))'
                AND pg_get_expr(conbin, conrelid)
                    !~ '^\\(state = ANY \\(ARRAY\\[(''[a-z]+''::text(, )?)+\\]\\)\\)$')
        UNION ALL
        SELECT 14, format('the index %s has an expression', indexrelid::regclass), NULL
          FROM t JOIN pg_index ON indrelid = t.oid WHERE indexprs IS NOT NULL OR indpred IS NOT NULL
    ) AS found ORDER BY place, reason LIMIT 1";

/// The schema and the tables that are there, whose they are, and what others may do with them.
const IDENTITY: &str = "
    SELECT concat_ws(' ', n.oid, n.nspowner,
                     string_agg(concat_ws(' ', c.oid, c.relowner, c.relacl::text), ' ' ORDER BY c.oid)) AS it
      FROM pg_namespace n
      LEFT JOIN pg_class c ON c.relnamespace = n.oid
                          AND c.relname IN ('runs', 'pieces', 'pieces_unlogged', 'parts', 'checksums', 'merges', 'batches',
                             'taken')
     WHERE n.nspname = {schema} GROUP BY n.oid, n.nspowner";

/// Ledgers that this process has found to be trusted. They stay so as long as they are the same ones: who
/// could change what they are made of is trusted. To ask this takes a twentieth of the time that looking
/// at all of it takes, which a load would do four times.
#[derive(Debug, Default)]
pub struct Trusted(Mutex<Vec<String>>);

impl Trusted {
    /// As [`obstacle`].
    pub fn obstacle(
        &self,
        session: &mut Session,
        schema: &str,
    ) -> Result<Option<Distrust>, ConnectionError> {
        let sql = IDENTITY.replace("{schema}", &quote_literal(schema)?);
        let it = rows(session, &sql)?.first().map(|row| row.told("it").for_people().to_owned());
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if it.as_ref().is_some_and(|it| known().contains(it)) {
            return Ok(None);
        }
        let found = obstacle(session, schema)?;
        if let (None, Some(it)) = (&found, it) {
            known().push(it);
        }
        Ok(found)
    }

    /// As [`check`].
    pub fn check(&self, session: &mut Session, schema: &str) -> Result<()> {
        refuse_any(self.obstacle(session, schema))
    }
}

/// What is wrong with the ledger in a schema, by its bare name, if anything is.
pub fn obstacle(session: &mut Session, schema: &str) -> Result<Option<Distrust>, ConnectionError> {
    let sql = OBSTACLES.replace("{trusted}", TRUSTED).replace("{schema}", &quote_literal(schema)?);
    let found = rows(session, &sql)?;
    Ok(found.first().map(|row| {
        let remedy = match row.told("remedy").for_people() {
            "" => "remove it, as its owner".to_owned(),
            ends if ends.ends_with("OWNER TO") => {
                format!("as a superuser: {ends} a superuser or the owner of the database")
            }
            whole => format!("as its owner: {whole}"),
        };
        Distrust {
            reason: format!(
                "the ledger can't be trusted: {}, which could run code with the privileges of this \
                 role",
                row.told("reason").for_people()
            ),
            hint: format!("{remedy}; or name another schema with --ledger-schema"),
        }
    }))
}

/// Refuses a ledger in a schema, by its bare name, that could run somebody's code.
pub fn check(session: &mut Session, schema: &str) -> Result<()> {
    refuse_any(obstacle(session, schema))
}

fn refuse_any(found: Result<Option<Distrust>, ConnectionError>) -> Result<()> {
    match found.map_err(failed)? {
        None => Ok(()),
        Some(Distrust { reason, hint }) => Err(refuse(reason, hint)),
    }
}
