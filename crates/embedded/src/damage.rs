//! What a file may answer instead of its content: an I/O error, or bytes that are not what was written.
//!
//! The two are kept apart because they are answered differently: an I/O error may pass or concern the machine, damage
//! stays and concerns this one file. Both always name the file, since that is the first thing a person needs.

use std::{fmt, io};

use auxo_core::{Code, Error};

use crate::format::FORMAT;

/// Bytes that are not what was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The name of the file in the data directory.
    pub file: String,
    /// The byte at which the damaged part begins.
    pub offset: u64,
    /// What is wrong there: lower case, no full stop.
    pub what: String,
}

impl Damage {
    /// Damage in `file` at `offset`.
    pub fn new(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Damage {
        Damage {
            file: file.into(),
            offset,
            what: what.into(),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "file {} at byte {}: {}",
            self.file, self.offset, self.what
        )
    }
}

impl std::error::Error for Damage {}

/// Why a file could not be read: the disk failed, or the content is damaged.
#[derive(Debug)]
pub enum Trouble {
    /// The operating system refused or failed.
    Io {
        /// The name of the file in the data directory.
        file: String,
        /// What the operating system said.
        error: io::Error,
    },
    /// The bytes were read and are wrong.
    Damaged(Damage),
    /// The file is whole, and in a format that this build does not read.
    OtherFormat {
        /// The name of the file in the data directory.
        file: String,
        /// The version of its format.
        format: u32,
    },
}

impl Trouble {
    /// An I/O error on `file`.
    pub fn io(file: impl Into<String>, error: io::Error) -> Trouble {
        Trouble::Io {
            file: file.into(),
            error,
        }
    }

    /// Damage in `file` at `offset`.
    pub fn damaged(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Trouble {
        Trouble::Damaged(Damage::new(file, offset, what))
    }

    /// The name of the file.
    pub fn file(&self) -> &str {
        match self {
            Trouble::Io { file, .. } | Trouble::OtherFormat { file, .. } => file,
            Trouble::Damaged(damage) => &damage.file,
        }
    }

    /// Whether the bytes are wrong, as opposed to unreadable.
    pub fn is_damage(&self) -> bool {
        matches!(self, Trouble::Damaged(_))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Io { file, error } => write!(f, "file {file}: {error}"),
            Trouble::Damaged(damage) => damage.fmt(f),
            Trouble::OtherFormat { file, format } if *format < FORMAT => write!(
                f,
                "the store was not opened: an older build of Auxo wrote it in format {format} (file {file}), and this build reads and \
                 writes format {FORMAT}. Nothing was changed. To move its jobs, start a server of the older build on the directory and \
                 run, with this build, `auxo migrate --from http://HOST:8000 --to NEW_DIR`"
            ),
            Trouble::OtherFormat { file, format } => write!(
                f,
                "the store was not opened: a newer build of Auxo wrote it in format {format} (file {file}), and this build reads and \
                 writes format {FORMAT}. Nothing was changed. Use the newer build"
            ),
        }
    }
}

impl std::error::Error for Trouble {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Trouble::Io { error, .. } => Some(error),
            Trouble::Damaged(damage) => Some(damage),
            Trouble::OtherFormat { .. } => None,
        }
    }
}

impl From<Damage> for Trouble {
    fn from(damage: Damage) -> Trouble {
        Trouble::Damaged(damage)
    }
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Error {
        let code = match trouble {
            Trouble::Io { .. } => Code::Unavailable,
            Trouble::Damaged(_) => Code::Internal,
            Trouble::OtherFormat { .. } => Code::Conflict,
        };
        Error::new(code, trouble.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_file_and_the_byte() {
        let trouble = Trouble::damaged("7.idx", 4096, "checksum does not match");
        assert_eq!(
            trouble.to_string(),
            "file 7.idx at byte 4096: checksum does not match"
        );
        assert_eq!(Error::from(trouble).code(), Code::Internal);
    }

    #[test]
    fn an_unreadable_file_is_unavailable_and_not_damaged() {
        let trouble = Trouble::io("7.idx", io::ErrorKind::PermissionDenied.into());
        assert!(!trouble.is_damage());
        assert_eq!(trouble.file(), "7.idx");
        assert_eq!(Error::from(trouble).code(), Code::Unavailable);
    }
}
