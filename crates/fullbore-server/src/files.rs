//! File helpers: locks, private directories, copies of trees.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use super::error::ServerError;
use super::user::RunAs;

/// Waits for and holds an exclusive lock (flock) on `path` until the result is dropped. The
/// file stays: removing it would let two holders lock two files of the same name.
pub fn lock(path: &Path) -> Result<File, ServerError> {
    if let Some(folder) = path.parent() {
        create_dir_all(folder)?;
    }
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(ServerError::io("open", path))?;
    file.lock().map_err(ServerError::io("lock", path))?;
    Ok(file)
}

/// `mkdir -p` with 0755, whatever the umask: a server of another user must pass through.
pub fn create_dir_all(path: &Path) -> Result<(), ServerError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_dir_all(parent)?;
    }
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(0o755))
            .map_err(ServerError::io("change the mode of", path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(ServerError::io("create", path)(error)),
    }
}

/// Makes a folder that only `owner` can enter.
pub fn create_private_dir(path: &Path, owner: &RunAs) -> Result<(), ServerError> {
    DirBuilder::new().mode(0o700).create(path).map_err(ServerError::io("create", path))?;
    owner.give(path)
}

/// A private folder in a place where others can write (/tmp): made, or found as it should be.
/// Found otherwise, somebody else may be waiting there for our password.
pub fn private_dir_in_public(path: &Path, owner: &RunAs) -> Result<(), ServerError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return owner.give(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(ServerError::io("create", path)(error)),
    }
    let meta = fs::symlink_metadata(path).map_err(ServerError::io("look at", path))?;
    let problem = if !meta.is_dir() {
        "not a folder"
    } else if meta.uid() != owner.uid() {
        "another user's"
    } else if meta.mode() & 0o077 != 0 {
        "open to other users"
    } else {
        return Ok(());
    };
    Err(ServerError::UnsafeSocketDir { path: path.into(), problem })
}

/// Writes a file that only its owner can read, and that was not there before.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), ServerError> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            file.write_all(content)
        })
        .map_err(ServerError::io("write", path))
}

/// Makes `to` hold every file of `from`, readable by all. Files that are there with the same
/// size and time are left; others are replaced by renaming, so that a running server keeps the
/// libraries it has loaded.
pub fn mirror(from: &Path, to: &Path) -> Result<(), ServerError> {
    create_dir_all(to)?;
    let entries = fs::read_dir(from).map_err(ServerError::io("read", from))?;
    for entry in entries {
        let entry = entry.map_err(ServerError::io("read", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let meta = fs::symlink_metadata(&source).map_err(ServerError::io("look at", &source))?;
        if meta.is_dir() {
            mirror(&source, &target)?;
        } else if meta.is_symlink() {
            let goal = fs::read_link(&source).map_err(ServerError::io("read", &source))?;
            if fs::read_link(&target).is_ok_and(|present| present == goal) {
                continue;
            }
            let _ = fs::remove_file(&target);
            symlink(&goal, &target).map_err(ServerError::io("create", &target))?;
        } else if !same_file_content(&meta, &target) {
            copy_file(&source, &meta, &target)?;
        }
    }
    Ok(())
}

fn same_file_content(source: &fs::Metadata, target: &Path) -> bool {
    fs::symlink_metadata(target).is_ok_and(|present| {
        present.is_file()
            && present.len() == source.len()
            && present.modified().ok() == source.modified().ok()
    })
}

fn copy_file(source: &Path, meta: &fs::Metadata, target: &Path) -> Result<(), ServerError> {
    let mut partial = target.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    fs::copy(source, partial).map_err(ServerError::io("copy", source))?;
    let mode = if meta.mode() & 0o100 != 0 { 0o755 } else { 0o644 };
    fs::set_permissions(partial, fs::Permissions::from_mode(mode))
        .map_err(ServerError::io("change the mode of", partial))?;
    let modified = meta.modified().map_err(ServerError::io("look at", source))?;
    File::options()
        .write(true)
        .open(partial)
        .and_then(|file| file.set_modified(modified))
        .map_err(ServerError::io("set the time of", partial))?;
    fs::rename(partial, target).map_err(ServerError::io("create", target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_follows_its_original() {
        let root = std::env::temp_dir().join(format!("fullbore-mirror-{}", std::process::id()));
        let (from, to) = (root.join("from"), root.join("to"));
        fs::create_dir_all(from.join("lib")).unwrap();
        fs::write(from.join("lib/a.so"), "one").unwrap();
        symlink("a.so", from.join("lib/a.so.1")).unwrap();
        mirror(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("lib/a.so.1")).unwrap(), "one");

        // What an extension's `make install` does to the original later.
        fs::write(from.join("lib/a.so"), "three").unwrap();
        fs::write(from.join("lib/b.so"), "two").unwrap();
        mirror(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("lib/a.so.1")).unwrap(), "three");
        assert_eq!(fs::read_to_string(to.join("lib/b.so")).unwrap(), "two");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_socket_folder_open_to_others_is_refused() {
        let path = std::env::temp_dir().join(format!("fullbore-open-{}", std::process::id()));
        let us = RunAs::Ourselves;
        private_dir_in_public(&path, &us).unwrap();
        private_dir_in_public(&path, &us).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let refused = private_dir_in_public(&path, &us);
        fs::remove_dir(&path).unwrap();
        assert!(matches!(refused, Err(ServerError::UnsafeSocketDir { .. })));
    }
}
