//! Tables that are replaced in one transaction: foreign keys among them are made on the new tables, before
//! anything is visible.

use fullbore_load::plan::Plan;
use fullbore_pgwire::{QualifiedName, Session, quote_literal};
use fullbore_read::error::Result;
use fullbore_record::terms::Publish;

use super::rebuild::foreign_keys;
use super::tools::quote;
use crate::error::failed;
use crate::postgres::Postgres;

/// A table that is replaced.
struct Member {
    old: u32,
    name: QualifiedName,
    staging: QualifiedName,
    /// The new table, once there is one.
    new: Option<u32>,
}

/// The tables that a run replaces; none where they are kept, which foreign keys would tie to each other.
#[derive(Default)]
pub struct Company {
    members: Vec<Member>,
}

impl Company {
    pub fn of(postgres: &Postgres, session: &mut Session, plan: &Plan) -> Result<Self> {
        let targets = postgres.targets().iter().enumerate();
        let replaced = targets.filter(|(_, target)| target.publish == Publish::Replace);
        let mut members = Vec::new();
        for (number, target) in replaced {
            if target.keep_old {
                return Ok(Self::default());
            }
            members.push(Member {
                old: postgres.planned(number).oid(),
                name: target.name().clone(),
                staging: target.staging(plan)?,
                new: None,
            });
        }
        for member in &mut members {
            let name = quote_literal(&member.staging.to_string()).map_err(failed)?;
            let sql = format!("SELECT to_regclass({name})::oid AS oid");
            let rows = session.query(&sql).map_err(failed)?;
            member.new = rows.first().and_then(|row| row.number("oid"));
        }
        Ok(Self { members })
    }

    /// The old tables.
    pub fn oids(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.old).collect()
    }

    /// The name that a member has in the end, by the old table or the new one.
    pub fn name_of(&self, oid: u32) -> Option<&QualifiedName> {
        let is_it = |member: &&Member| member.old == oid || member.new == Some(oid);
        self.members.iter().find(is_it).map(|member| &member.name)
    }

    /// The new table in an old one's place.
    pub fn staging_of(&self, old: u32) -> Option<&QualifiedName> {
        self.members.iter().find(|member| member.old == old).map(|member| &member.staging)
    }

    /// The statements that part the old tables, so that each can be dropped by itself; with the table of each.
    pub fn part(&self, session: &mut Session) -> Result<Vec<(QualifiedName, String)>> {
        let mut statements = Vec::new();
        for member in &self.members {
            for key in foreign_keys(session, member.old).map_err(failed)? {
                if !key.is_to_itself() && self.staging_of(key.other).is_some() {
                    let (table, name) = (&member.name, quote(&key.name)?);
                    let parts = format!("ALTER TABLE {table} DROP CONSTRAINT {name}");
                    statements.push((table.clone(), parts));
                }
            }
        }
        Ok(statements)
    }
}
