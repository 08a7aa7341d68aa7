//! A source that is open: a file or an object, read at any place.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fullbore_objects::OpenObject;

/// What can be read at any place.
#[derive(Debug)]
pub enum Opened {
    File(File),
    Object(OpenObject),
}

impl Opened {
    /// The file, where it is one of this machine's.
    pub fn file(&self) -> Option<&File> {
        match self {
            Self::File(file) => Some(file),
            Self::Object(_) => None,
        }
    }

    /// Bytes, as they are now.
    pub fn size(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Object(object) => Ok(object.object().size()),
        }
    }

    /// Reads from a place on; nothing at the end.
    pub fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read_at(out, at),
            Self::Object(object) => object.read_at(out, at),
        }
    }

    /// Reads from a place on until all is filled.
    ///
    /// # Errors
    /// As [`FileExt::read_exact_at`].
    pub fn read_exact_at(&self, mut out: &mut [u8], mut at: u64) -> io::Result<()> {
        while !out.is_empty() {
            match self.read_at(out, at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    out = &mut out[count..];
                    at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
