//! How paths and values are written where the server and its clients read them: the socket's
//! path, postgresql.conf, connection URLs.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::user::running_as_root;

/// The kernel takes 107 bytes, other systems 103; leave room.
const SOCKET_PATH_BYTES_MAX: usize = 99;

/// The data folder itself where its path is short enough: it is private already. Otherwise a
/// short one, named by the long one.
pub fn socket_dir_for(data_dir: &Path) -> PathBuf {
    let socket_name_bytes = "/.s.PGSQL.65535.lock".len();
    if data_dir.as_os_str().len() + socket_name_bytes <= SOCKET_PATH_BYTES_MAX {
        return data_dir.to_path_buf();
    }
    let mut hasher = DefaultHasher::new();
    data_dir.hash(&mut hasher);
    let name = format!("fullbore-{:016x}", hasher.finish());
    match std::env::var_os("XDG_RUNTIME_DIR") {
        // Root's runtime folder can't be entered by the user that root's servers run as.
        Some(runtime) if runtime.len() < 40 && !runtime.is_empty() && !running_as_root() => {
            Path::new(&runtime).join(name)
        }
        _ => Path::new("/tmp").join(name),
    }
}

/// A value for postgresql.conf.
pub fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

/// A folder in a list setting, where a comma would begin the next one.
pub fn quoted_list_item(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('"', "\"\""))
}

pub fn percent_encode(bytes: &[u8], keep_slash: bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(byte.into());
            }
            b'/' if keep_slash => text.push('/'),
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_paths_stay_short() {
        let short = Path::new("/home/a/.local/share/fullbore/data");
        assert_eq!(socket_dir_for(short), short);
        let long = PathBuf::from("/x".repeat(60));
        let socket_dir = socket_dir_for(&long);
        assert!(socket_dir.as_os_str().len() + 20 <= SOCKET_PATH_BYTES_MAX);
        assert_eq!(socket_dir_for(&long), socket_dir, "the same at every start");
    }

    #[test]
    fn values_are_quoted_for_their_places() {
        assert_eq!(quoted(r"it's \ "), r"'it''s \\ '");
        assert_eq!(quoted_list_item(Path::new("/a,b")), "\"/a,b\"");
        assert_eq!(percent_encode(b"/tmp/a b&c", true), "/tmp/a%20b%26c");
        assert_eq!(percent_encode(b"a/b", false), "a%2Fb");
    }
}
