//! What the fields of a table's files are called, by the headers: the same names in each file, in
//! whatever order.

use std::collections::HashSet;
use std::sync::Arc;

use fullbore_parse::dialect::Header;
use fullbore_read::error::{Error, Result};

use super::look::Sources;
use crate::TargetColumn;
use crate::job::TableJob;

/// Bytes of an identifier, PostgreSQL's NAMEDATALEN less one.
const NAME_BYTES_MAX: usize = 63;

/// Whether two names are one, without regard to case, to blanks around them, and to what joins their
/// words.
pub fn alike(one: &str, other: &str) -> bool {
    one == other || plain(one) == plain(other)
}

/// A name without what differs in such: as SQL reads it without quotes.
pub fn plain(name: &str) -> String {
    let mut plain = String::new();
    for c in name.trim().chars() {
        match c {
            ' ' | '_' | '-' | '.' if plain.ends_with('_') => {}
            ' ' | '_' | '-' | '.' => plain.push('_'),
            c => plain.extend(c.to_lowercase()),
        }
    }
    plain
}

/// Whether the job computes a column, renames a field to it, or leaves it out.
pub fn is_selected(job: &TableJob, column: &str) -> bool {
    job.select.0.iter().any(|(name, _)| alike(name, column))
}

/// The column of a name: of just that, else of one like it, where that is not ambiguous.
pub fn named<'a>(name: &str, target: &'a [TargetColumn]) -> Option<&'a TargetColumn> {
    let only = |is_it: &dyn Fn(&str) -> bool| {
        let mut same = target.iter().filter(|column| is_it(&column.name));
        same.next().filter(|_| same.next().is_none())
    };
    only(&|column| column == name)
        // As an unquoted name in SQL is.
        .or_else(|| only(&|column| column.eq_ignore_ascii_case(name)))
        .or_else(|| only(&|column| alike(column, name)))
}

/// Takes the fields' names from the first header, and how the other headers' fields stand to them. The job
/// may skip lines before each of them.
pub fn take(sources: &mut Sources, skips_lines: bool) -> Result<()> {
    let outlines = std::mem::take(&mut sources.outlines);
    let mut first: Option<(usize, Vec<String>)> = None;
    for (file, outline) in outlines.iter().enumerate() {
        let Some(outline) = outline.as_ref().filter(|outline| !outline.names.is_empty()) else {
            continue;
        };
        let names = texts(&outline.names)?;
        let Some((_, wanted)) = &first else {
            first = Some((file, names));
            continue;
        };
        let Some(order) = order(wanted, &names) else {
            return Err(Error::usage_with_hint(
                format!(
                    "{}: its header is {names:?}, but that of the first file is {wanted:?}",
                    sources.files[file].path.display()
                ),
                "load files with other columns separately, or use --columns",
            ));
        };
        if order.iter().enumerate().any(|(field, place)| field != *place) {
            sources.notes.push(format!(
                "{}: its columns are in a different order; they are matched by name",
                sources.files[file].path.display()
            ));
            let header = outline.before_records(Header::True, skips_lines);
            Arc::make_mut(&mut sources.files[file]).own_header = Some(Arc::from(header));
            sources.orders.insert(file, Arc::from(order));
        }
    }
    let names = first.map(|(_, names)| names);
    let pipes = sources.files.iter_mut().zip(&outlines).filter(|(_, outline)| outline.is_none());
    for (file, _) in pipes.filter(|(file, _)| !file.is_regular) {
        Arc::make_mut(file).expected_header.clone_from(&names);
    }
    sources.header_names = names.clone();
    sources.names = names.map(|names| distinct(&names, &mut sources.notes));
    sources.outlines = outlines;
    Ok(())
}

fn texts(names: &[Vec<u8>]) -> Result<Vec<String>> {
    let text = |name: &Vec<u8>| {
        String::from_utf8(name.clone()).map_err(|_| {
            Error::usage_with_hint("the header is not UTF-8", "name the file's --encoding")
        })
    };
    names.iter().map(text).collect()
}

/// For each name that is wanted, where it stands among those that were found; none where these are
/// others.
fn order(wanted: &[String], found: &[String]) -> Option<Vec<usize>> {
    if wanted == found {
        return Some((0..wanted.len()).collect());
    }
    if wanted.len() != found.len() {
        return None;
    }
    let is_one = |names: &[String], name: &String| {
        names.iter().filter(|other| alike(other, name)).count() == 1
    };
    wanted
        .iter()
        .map(|name| {
            let place = found.iter().position(|other| alike(other, name))?;
            (is_one(wanted, name) && is_one(found, name)).then_some(place)
        })
        .collect()
}

/// Names that can be those of a table's columns: none empty, none twice, none too long.
pub fn distinct(names: &[String], notes: &mut Vec<String>) -> Vec<String> {
    let mut taken: HashSet<String> = HashSet::new();
    let mut renamed = Vec::new();
    let distinct = names
        .iter()
        .enumerate()
        .map(|(place, name)| {
            let base = match name.trim() {
                "" => format!("column{}", place + 1),
                name => shortened(name, NAME_BYTES_MAX).to_owned(),
            };
            let mut unique = base.clone();
            let mut number = 2;
            while taken.contains(&unique) || unique != *name && names.contains(&unique) {
                let tail = format!("_{number}");
                unique = format!("{}{tail}", shortened(&base, NAME_BYTES_MAX - tail.len()));
                number += 1;
            }
            if unique != name.trim() {
                renamed.push(format!("field {} ({name:?}) is called {unique}", place + 1));
            }
            taken.insert(unique.clone());
            unique
        })
        .collect();
    if !renamed.is_empty() {
        const SHOWN: usize = 5;
        let more = match renamed.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        renamed.truncate(SHOWN);
        notes.push(format!("names that the header lacks or repeats: {}{more}", renamed.join(", ")));
    }
    distinct
}

/// A name cut to so many bytes, between characters.
fn shortened(name: &str, bytes: usize) -> &str {
    let mut end = name.len().min(bytes);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn names_are_alike_whatever_joins_their_words() {
        assert!(alike("Order ID", "order_id"));
        assert!(alike(" Sepal.Length", "sepal length"));
        assert!(!alike("order", "orders"));
        assert!(!alike("a_b", "ab"));
    }

    #[test]
    fn names_are_made_distinct() {
        let mut notes = Vec::new();
        let names = owned(&["", "a", "a", "a_2", " b ", "a"]);
        let made = distinct(&names, &mut notes);
        assert_eq!(made, ["column1", "a", "a_3", "a_2", "b", "a_4"]);
        assert_eq!(notes.len(), 1);
        let long = "ä".repeat(40);
        let made = distinct(&owned(&[&long, &long]), &mut notes);
        assert_eq!(made[0], "ä".repeat(31));
        assert_eq!(made[1], format!("{}_2", "ä".repeat(30)));
    }

    #[test]
    fn orders_lead_from_the_first_files_fields_to_anothers() {
        let order = |one: &[&str], other: &[&str]| order(&owned(one), &owned(other));
        assert_eq!(order(&["a", "b", "c"], &["c", "A", "b"]), Some(vec![1, 2, 0]));
        assert_eq!(order(&["a", "b"], &["a", "c"]), None);
        assert_eq!(order(&["a", ""], &["", "a"]), Some(vec![1, 0]));
        assert_eq!(order(&["a", "", ""], &["", "a", ""]), None);
        assert_eq!(order(&["a", "a"], &["a", "a"]), Some(vec![0, 1]));
    }
}
