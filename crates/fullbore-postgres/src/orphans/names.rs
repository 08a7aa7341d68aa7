//! Names of files in a database's folder: `123`, `123.1`, `123_fsm`, `t3_123_vm.1`.

/// The relation file that a name belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelationFile {
    pub filenode: u32,
    /// The backend's number, for a temporary relation.
    pub backend: Option<u32>,
}

impl RelationFile {
    /// Reads a file's name; `None` for what is no relation's, as `PG_VERSION`.
    pub fn of(name: &str) -> Option<Self> {
        let (name, backend) = match name.strip_prefix('t') {
            Some(rest) => {
                let (backend, rest) = rest.split_once('_')?;
                (rest, Some(number(backend)?))
            }
            None => (name, None),
        };
        let (name, segment) = match name.split_once('.') {
            Some((name, segment)) => (name, Some(segment)),
            None => (name, None),
        };
        if let Some(segment) = segment {
            number(segment)?;
        }
        let (filenode, fork) = match name.split_once('_') {
            Some((filenode, fork)) => (filenode, Some(fork)),
            None => (name, None),
        };
        if fork.is_some_and(|fork| !matches!(fork, "fsm" | "vm" | "init")) {
            return None;
        }
        Some(Self { filenode: number(filenode)?, backend })
    }

    /// The name of its first file.
    pub fn name(self) -> String {
        match self.backend {
            Some(backend) => format!("t{backend}_{}", self.filenode),
            None => self.filenode.to_string(),
        }
    }
}

/// A number as the server writes it; `parse` alone would take `+1` too.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_relations() {
        let plain = Some(RelationFile { filenode: 123, backend: None });
        for name in ["123", "123.1", "123_fsm", "123_vm", "123_init", "123_fsm.12"] {
            assert_eq!(RelationFile::of(name), plain, "{name}");
        }
        let temporary = Some(RelationFile { filenode: 123, backend: Some(3) });
        for name in ["t3_123", "t3_123.1", "t3_123_vm"] {
            assert_eq!(RelationFile::of(name), temporary, "{name}");
            assert_eq!(temporary.map(RelationFile::name).as_deref(), Some("t3_123"));
        }
    }

    #[test]
    fn names_of_other_files() {
        for name in [
            "PG_VERSION",
            "pg_filenode.map",
            "pg_internal.init",
            "pg_internal.init.41",
            "",
            "123_",
            "123_old",
            "123.",
            "123.x",
            "123.1.2",
            "+123",
            "t3",
            "t_123",
            "tx_123",
            "t3_",
            "99999999999",
        ] {
            assert_eq!(RelationFile::of(name), None, "{name}");
        }
    }
}
