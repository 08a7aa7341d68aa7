//! Finds the objects behind a URL: one, those under a prefix, or those that match a pattern.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use glob::{MatchOptions, Pattern};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta};

use crate::error::{Error, Kind, Result};
use crate::location::{Location, Scheme};
use crate::object::Object;
use crate::options::StoreOptions;
use crate::store::Store;

/// Fetched of each object's beginning and end: what is looked at first.
const HEAD_BYTES: u64 = 16 * 1024 + 1;
const TAIL_BYTES: u64 = 4 * 1024;
/// The end of a Parquet file, where its metadata is.
const FOOTER_BYTES: u64 = 64 * 1024;
const PARQUET: &[u8] = b"PAR1";
pub(crate) const PIPE_IT: &str = "pipe it: curl -sSfL URL | fullbore load - --table TABLE";

/// Most that is kept of all beginnings and ends; the others are fetched when they are looked at.
const KEPT_BYTES: usize = 64 << 20;
/// Kept of each beginning in any case: it tells formats apart.
const KEPT_OF_EACH: usize = 64;

/// Requests in flight while many objects are looked at.
const LOOKS: usize = 32;

/// A star stays within its folder; two do not.
const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// The objects behind a URL. A key that exists is taken literally even where it
/// holds glob characters. A prefix gives the objects under it, as a folder its files: hidden ones are left
/// out, and those further down unless their folders are called `key=value`.
///
/// # Errors
/// Where nothing is found, or the store can't be asked.
pub fn list(source: &str, options: &StoreOptions) -> Result<Vec<Arc<Object>>> {
    let location = Location::parse(source)?;
    let store = Store::open(&location, options)?;
    store.fetching.wait(found(&store, &location))
}

async fn found(store: &Arc<Store>, location: &Location) -> Result<Vec<Arc<Object>>> {
    let key = location.key.as_str();
    let is_http = location.scheme == Scheme::Http;
    let is_pattern = !is_http && key.contains(['*', '?', '[']);
    let is_prefix = key.is_empty() || key.ends_with('/');
    if is_http && (is_prefix || key.contains('*')) {
        let message = "is no file: a web server can't be asked which files it has";
        return Err(Error::new(Kind::Usage, location.url_of(key), message)
            .hinted("name each file by its URL"));
    }
    let mut missing = None;
    if !is_prefix {
        match one(store, key).await {
            Ok(object) => return Ok(vec![Arc::new(object)]),
            Err(error) if error.kind == Kind::NotFound && !is_http => missing = Some(error),
            Err(error) => return Err(error),
        }
    }
    let metas = match is_pattern {
        true => matching(store, key).await?,
        false => under(store, key).await?,
    };
    if metas.is_empty() {
        return Err(missing.filter(|_| !is_pattern).unwrap_or_else(|| {
            Error::new(Kind::NotFound, location.url_of(key), "matches no object")
                .hinted("check the pattern or prefix; `**` matches any number of folders")
        }));
    }
    Ok(metas.into_iter().map(|found| Arc::new(Object::new(store.clone(), found))).collect())
}

/// Fetches beginning and end of all objects, which are looked at one after the other then.
///
/// # Errors
/// Where one was replaced, or can't be read.
pub fn look_at(objects: &[Arc<Object>]) -> Result<()> {
    let Some(first) = objects.first() else { return Ok(()) };
    let kept = AtomicUsize::new(0);
    let new = objects.iter().filter(|object| object.head.get().is_none());
    let looks = stream::iter(new.map(|object| look(object, None, &kept)));
    first.store.fetching.wait(looks.buffer_unordered(LOOKS).try_collect::<Vec<()>>())?;
    Ok(())
}

/// An object by its key, known by its first bytes: some signed URLs allow nothing but to read.
async fn one(store: &Arc<Store>, key: &str) -> Result<Object> {
    let path = store.path(key)?;
    let options =
        GetOptions { range: Some(GetRange::Bounded(0..HEAD_BYTES)), ..GetOptions::default() };
    let kept = AtomicUsize::new(0);
    let failed = |error: object_store::Error| {
        Error::of(&store.location, &store.location.url_of(key), &error)
    };
    let error = match store.client.get_opts(&path, options).await {
        Ok(found) => {
            let meta = found.meta.clone();
            let object = Object::new(store.clone(), ObjectMeta { location: path, ..meta });
            if !object.tells_changes() {
                let message = "has no ETag and no modification time: a change while it is read would not \
                               be noticed";
                return Err(Error::new(Kind::Usage, object.url(), message).hinted(PIPE_IT));
            }
            let head = found.bytes().await.map_err(failed)?;
            look(&object, Some(head), &kept).await?;
            return Ok(object);
        }
        Err(error) => error,
    };
    let of_range = failed(error);
    if of_range.kind != Kind::Refused && of_range.kind != Kind::Failed {
        return Err(of_range);
    }
    // An empty object has no range at all.
    let head = GetOptions { head: true, ..GetOptions::default() };
    match store.client.get_opts(&path, head).await {
        Ok(found) if found.meta.size == 0 => {
            Ok(Object::new(store.clone(), ObjectMeta { location: path, ..found.meta }))
        }
        _ => Err(of_range),
    }
}

/// Fetches an object's beginning, unless it is given, and its end.
async fn look(object: &Object, given: Option<Bytes>, kept: &AtomicUsize) -> Result<()> {
    let size = object.size();
    if size == 0 {
        return Ok(());
    }
    let head = match given {
        Some(head) => head,
        None => object.bound.fetch(0..HEAD_BYTES.min(size)).await?,
    };
    let is_parquet = head.starts_with(PARQUET);
    let tail_bytes = if is_parquet { FOOTER_BYTES } else { TAIL_BYTES };
    let is_full = kept.load(Ordering::Relaxed) > KEPT_BYTES;
    let keep = |bytes: Bytes, most: usize| {
        let bytes = bytes.slice(..bytes.len().min(most));
        kept.fetch_add(bytes.len(), Ordering::Relaxed);
        // Not a view of something larger.
        Bytes::copy_from_slice(&bytes)
    };
    if !is_full && size > head.len() as u64 {
        let tail = object.bound.fetch(size.saturating_sub(tail_bytes)..size).await?;
        let _ = object.tail.set(keep(tail, FOOTER_BYTES as usize));
    }
    let most = if is_full || is_parquet { KEPT_OF_EACH } else { HEAD_BYTES as usize };
    let _ = object.head.set(keep(head, most));
    Ok(())
}

/// All objects under a prefix that match a pattern.
async fn matching(store: &Arc<Store>, key: &str) -> Result<Vec<ObjectMeta>> {
    let pattern = Pattern::new(key).map_err(|error| {
        let message = format!("is not a valid glob: {error}");
        Error::new(Kind::Usage, store.location.url_of(key), message)
    })?;
    let literal = &key[..key.find(['*', '?', '[']).unwrap_or(key.len())];
    let folder = literal.rfind('/').map_or("", |end| &literal[..end]);
    let mut all = all_under(store, folder).await?;
    all.retain(|found| pattern.matches_with(found.location.as_ref(), MATCHING));
    Ok(all)
}

/// The objects of a prefix, as a folder has files.
async fn under(store: &Arc<Store>, key: &str) -> Result<Vec<ObjectMeta>> {
    let prefix = key.trim_end_matches('/');
    let all = all_under(store, prefix).await?;
    let any = !all.is_empty();
    let is_of_folder = |found: &ObjectMeta| {
        let rest = found.location.as_ref()[prefix.len()..].trim_start_matches('/');
        let (folders, name) = rest.rsplit_once('/').unwrap_or(("", rest));
        let is_shown = |part: &str| !part.starts_with(['.', '_']);
        let mut folders = folders.split('/').filter(|folder| !folder.is_empty());
        is_shown(name) && folders.all(|folder| is_shown(folder) && folder.contains('='))
    };
    let files: Vec<_> = all.into_iter().filter(is_of_folder).collect();
    if files.is_empty() && any {
        let url = store.location.url_of(key);
        return Err(Error::new(Kind::Usage, &url, "has only objects in folders further down")
            .hinted(format!("use a pattern, in quotes: '{}/**/*'", url.trim_end_matches('/'))));
    }
    Ok(files)
}

async fn all_under(store: &Arc<Store>, prefix: &str) -> Result<Vec<ObjectMeta>> {
    let path = store.path(prefix)?;
    let prefix = Some(&path).filter(|path| !path.as_ref().is_empty());
    let mut all: Vec<ObjectMeta> = store
        .client
        .list(prefix)
        .try_collect()
        .await
        .map_err(|error| Error::of(&store.location, &store.url(&path), &error))?;
    // Folders are sometimes marked by an empty object of their name.
    let folders: HashSet<Path> = all.iter().flat_map(|found| parents(&found.location)).collect();
    all.retain(|found| found.size > 0 || !folders.contains(&found.location));
    Ok(all)
}

fn parents(path: &Path) -> Vec<Path> {
    let text = path.as_ref();
    let ends = text.match_indices('/').map(|(at, _)| Path::from(&text[..at]));
    ends.collect()
}
