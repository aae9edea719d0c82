//! Fetches Debian's CRIU: packages from a mirror, unpacked into one tree in the cache.
//!
//! Called under the cache's lock when there is no CRIU that works. Needs apt-get and dpkg-deb on PATH.

use super::version::new_enough;
use super::{Criu, argv_in, ask};
use crate::setup::cache;
use crate::setup::debian::{Debian, weight};
use crate::setup::error::{NoCriu, SetupError};
use std::env;
use std::path::Path;

pub(super) fn fetch(cache: &Path, say: &dyn Fn(&str)) -> Result<Criu, SetupError> {
    fetch_packages(cache, say).map_err(|e| match e {
        SetupError::Debian { source } => NoCriu::from(source).into(),
        other => other,
    })
}

fn fetch_packages(cache: &Path, say: &dyn Fn(&str)) -> Result<Criu, SetupError> {
    let scratch = cache::scratch(cache)?;
    let debian = Debian::open(scratch.path(), "CRIU (some 20 MB)", say)?;
    let none = || NoCriu::NotInSuite {
        mirror: debian.mirror(),
        arch: debian.arch.clone(),
    };
    let packages = debian.closure("criu")?.ok_or_else(none)?;
    let found = packages.iter().find(|(name, _)| name == "criu");
    let found = found.map_or("", |(_, version)| version);
    if !new_enough(found) {
        return Err(SetupError::from(NoCriu::TooOld {
            mirror: debian.mirror(),
            found: found.into(),
        }));
    }
    let names: Vec<&str> = packages.iter().map(|(name, _)| name.as_str()).collect();
    let root = debian.unpacked(&names, say)?;
    let bad = |said: String| {
        let mirror = debian.mirror();
        SetupError::from(NoCriu::BadCopy { mirror, said })
    };
    let strange = || bad("the packages have no criu or no ld.so where they were looked for".into());
    let made = ask(argv_in(&root).ok_or_else(strange)?, true)?.map_err(bad)?;
    if !new_enough(&made.version) {
        return Err(bad(format!("it is {}", made.version)));
    }
    let name = format!("{}-{}", made.version, env::consts::ARCH);
    let place = cache.join("criu").join(name);
    let megabytes = weight(&root).div_ceil(1_000_000);
    cache::put(&root, &place)?;
    say(&format!(
        "CRIU {} is in {} ({megabytes} MB)",
        made.version,
        place.display()
    ));
    Ok(Criu {
        argv: argv_in(&place).ok_or_else(strange)?,
        ..made
    })
}
