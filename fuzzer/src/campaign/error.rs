//! What can go wrong with a campaign, and how its user gets out of it. Made by all that reads or writes a campaign's files and by the engine;
//! the CLI chooses the exit code.

use super::vacant::MIRROR;
use nix::errno::Errno;
use std::path::{Path, PathBuf};

/// What can go wrong with a campaign.
#[derive(Debug, thiserror::Error)]
pub enum FuzzError {
    /// The CLI exits 2.
    #[error("{}", held(.folder, .marker))]
    HoldsCampaign { folder: PathBuf, marker: String },
    /// The CLI exits 2.
    #[error("{0}")]
    Usage(String),
    #[error("{doing} {path}: {source}")]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: {why}")]
    Format { path: PathBuf, why: String },
    /// Another Warren wrote it: nothing is wrong with the file.
    #[error("{path}: has version {found}, this program reads {reads}")]
    Version {
        path: PathBuf,
        found: u32,
        reads: String,
    },
    /// The cluster could not be run at all, or never gave a usable fault-free run.
    #[error("{0}")]
    Cluster(String),
    #[error("learning: {0}")]
    Learning(String),
    /// Writing into the campaign folder from inside the framework.
    #[error("{doing}: {source}")]
    Disk {
        doing: String,
        source: std::io::Error,
    },
    #[error("the fuzzing framework refused: {0}")]
    Framework(#[source] libafl::Error),
}

/// Whose the campaign of a folder is, and the way out. A mirror cannot be resumed, and as long as its instance lives a broker makes it again.
fn held(folder: &Path, marker: &str) -> String {
    let folder = folder.display();
    match marker {
        MIRROR => format!(
            "{folder} is the mirror of an instance on another machine: choose another name (-M, -S), or remove it if that instance is gone for good"
        ),
        _ => format!(
            "{folder} already holds a campaign ({marker} is there)\n  resume it with `-i -` or WARREN_AUTORESUME=1, choose another folder with -o, or remove it"
        ),
    }
}

impl From<libafl::Error> for FuzzError {
    fn from(e: libafl::Error) -> Self {
        match e {
            // The store names the file; LibAFL's own queue entries carry no name.
            libafl::Error::OsError(source, doing, _) if doing.starts_with("writing ") => {
                FuzzError::Disk { doing, source }
            }
            libafl::Error::OsError(source, ..) => FuzzError::Disk {
                doing: "writing into the campaign folder".into(),
                source,
            },
            e => FuzzError::Framework(e),
        }
    }
}

/// How the user of a verb gets out of trouble with files: only the verb knows its flags.
#[derive(Clone, Copy, Debug)]
pub struct WayOut<'a> {
    /// Where a file or folder cannot be made, read or written: another place.
    pub place: &'a str,
    /// Where a file does not hold what it should.
    pub content: &'a str,
}

impl FuzzError {
    /// A file is damaged or gone, and will be when it is read again: what can do without it goes on. Whatever else kept it from being read
    /// may pass, and another version of Warren reads what this one does not.
    #[must_use]
    pub fn is_of_lost_file(&self) -> bool {
        match self {
            FuzzError::Format { .. } => true,
            FuzzError::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// The text, with the way out where there is one.
    #[must_use]
    pub fn told(&self, way_out: WayOut<'_>) -> String {
        use std::io::ErrorKind as K;
        let WayOut { place, content } = way_out;
        match self {
            FuzzError::Format { .. } | FuzzError::Version { .. } => format!("{self}\n  {content}"),
            FuzzError::Io { source, .. } | FuzzError::Disk { source, .. } => match source.kind() {
                K::StorageFull | K::QuotaExceeded => format!("{self}\n  free space or {place}"),
                // Another place has no more of them.
                _ if source.raw_os_error() == Some(Errno::EMFILE as i32) => {
                    format!("{self}\n  raise the limit of open files: `ulimit -n 1024`")
                }
                _ => format!("{self}\n  {place}"),
            },
            _ => self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stays_as_it_is_is_lost() {
        let path = || PathBuf::from("runs/000001.run");
        let io = |code| FuzzError::Io {
            doing: "reading",
            path: path(),
            source: std::io::Error::from_raw_os_error(code),
        };
        let damaged = FuzzError::Format {
            path: path(),
            why: "is damaged".into(),
        };
        let newer = FuzzError::Version {
            path: path(),
            found: 9,
            reads: "2 to 4".into(),
        };
        // ENOENT; EIO, EMFILE, EACCES.
        for (e, lost) in [
            (damaged, true),
            (io(2), true),
            (newer, false),
            (io(5), false),
            (io(24), false),
            (io(13), false),
        ] {
            assert_eq!(e.is_of_lost_file(), lost, "{e}");
        }
    }

    /// Also kinds of trouble that have no name in std, or whose name nobody thought of: a loop of links, a folder in a file's place.
    #[test]
    fn each_trouble_with_a_place_has_a_way_out() {
        let way_out = WayOut {
            place: "elsewhere",
            content: "",
        };
        for (code, part) in [
            (Errno::ENOSPC, "\n  free space or elsewhere"),
            (Errno::EDQUOT, "\n  free space or elsewhere"),
            (Errno::EACCES, "\n  elsewhere"),
            (Errno::ENOTDIR, "\n  elsewhere"),
            (Errno::ELOOP, "\n  elsewhere"),
            (Errno::EISDIR, "\n  elsewhere"),
            (Errno::ENAMETOOLONG, "\n  elsewhere"),
            (Errno::EIO, "\n  elsewhere"),
            (
                Errno::EMFILE,
                "\n  raise the limit of open files: `ulimit -n 1024`",
            ),
        ] {
            let source = || std::io::Error::from(code);
            let io = FuzzError::Io {
                doing: "making",
                path: "out".into(),
                source: source(),
            };
            let disk = FuzzError::Disk {
                doing: "making out".into(),
                source: source(),
            };
            for e in [io, disk] {
                let text = e.told(way_out);
                assert!(text.ends_with(part), "{code}: {text}");
            }
        }
    }

    #[test]
    fn a_full_disk_says_the_way_out_whoever_met_it() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let table = [
            (
                libafl::Error::os_error(full(), "writing out/runs/000001.run"),
                "writing out/runs/000001.run: ",
                "free space or elsewhere",
            ),
            (
                libafl::Error::from(full()),
                "writing into the campaign folder: ",
                "free space or elsewhere",
            ),
            (
                libafl::Error::illegal_state("else"),
                "the fuzzing framework refused: ",
                "else",
            ),
        ];
        let way_out = WayOut {
            place: "elsewhere",
            content: "",
        };
        for (e, start, part) in table {
            let text = FuzzError::from(e).told(way_out);
            assert!(text.starts_with(start) && text.contains(part), "{text}");
        }
    }
}
