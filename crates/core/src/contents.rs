//! Whether a directory is a store, by the names in it. Who looks lists them; this only judges, so that a mistyped path is
//! told alike by all.

/// What lies in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Nothing, or no more than a lock: the making of a store was cut short.
    Nothing,
    /// A store.
    Store,
    /// Somebody else's files.
    Others,
}

impl Contents {
    /// Judges a directory by the names in it.
    pub fn of<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Contents {
        let mut found = Contents::Nothing;
        for name in names {
            let name = name.as_ref();
            if name == "mark" || name == "checkpoint" || name.ends_with(".log") {
                return Contents::Store;
            }
            // A disk that was just formatted has a directory of its own.
            if name != "lock" && name != "lost+found" {
                found = Contents::Others;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_known_by_the_names_in_it() {
        let table = [
            (&[][..], Contents::Nothing),
            (&["lock", "lost+found"], Contents::Nothing),
            (&["lock", "notes.txt"], Contents::Others),
            (&["notes.txt", "0000000001.log"], Contents::Store),
            (&["mark"], Contents::Store),
            (&["checkpoint"], Contents::Store),
        ];
        for (names, contents) in table {
            assert_eq!(Contents::of(names), contents, "{names:?}");
        }
    }
}
