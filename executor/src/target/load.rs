//! target.toml into a [`Target`]: bases merged, `--version` and `--paper` applied, every key checked. One module reads each larger section;
//! the small ones are read here.

use super::chain::read_chain;
use super::groups::groups;
use super::image::image;
use super::names::check_shapes;
use super::near::near;
use super::probes;
use super::promise::promise;
use super::rules;
use super::section::{Section, TargetError};
use super::system::system;
use super::{EpochFile, Target, Workload};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Reads the target in `folder`. `version` replaces the described one, `paper` takes `[paper]` as the clock, `extra` are more
/// dictionaries (`-x`).
///
/// # Errors
/// [`TargetError`] naming file, key, value and remedy.
pub fn load_target(
    folder: &Path,
    version: Option<&str>,
    paper: bool,
    extra: &[PathBuf],
) -> Result<Target, TargetError> {
    let chain = read_chain(folder)?;
    let mut top = Section::new(&chain.origins, "", chain.merged());
    let system = system(&mut top, version, extra, &chain.folders)?;
    let groups = groups(&mut top, &chain.group_order(), &chain.folders)?;
    let ready = probes::ready(&mut top)?;
    let started = probes::opt_probe(&mut top, "started")?;
    let role = probes::role(&mut top)?;
    let stable = probes::stable(&mut top)?;
    let workload = workload(&mut top)?;
    let image = match top.opt_table("image")? {
        None => None,
        Some(s) => Some(image(s, &groups)?),
    };
    let definite = strings_of(&mut top, "errors", "definite")?;
    let exits = rules::exits(&mut top)?;
    let log = rules::log(&mut top)?;
    let epochs = epochs(&mut top)?;
    let collect = strings_of(&mut top, "collect", "files")?;
    let clock = clocks(&mut top, paper)?;
    let promise = promise(&mut top)?;
    top.end()?;
    let target = Target {
        folders: chain.folders,
        name: system.name,
        version: system.version,
        default_version: system.default_version,
        paper,
        java: system.java,
        main: system.main,
        jars: system.jars,
        include: system.include,
        exclude: system.exclude,
        dictionary: system.dictionary,
        groups,
        image,
        ready,
        started,
        role: role.probe,
        role_names: role.names,
        lead: role.lead,
        stable,
        workload,
        definite,
        legal_exits: exits.legal,
        exit_cause: exits.cause,
        logs: log.files,
        fatal_log: log.fatal,
        legal_log: log.legal,
        log_ignore: log.ignore,
        epochs,
        collect,
        clock,
        promise,
    };
    check_shapes(&target)?;
    Ok(target)
}

/// `[workload]`.
fn workload(top: &mut Section<'_>) -> Result<Workload, TargetError> {
    let mut s = top.table("workload", "write [workload] with main and clients")?;
    let main = s.string("main", "write the main class of the workload program")?;
    let clients = s.int("clients", 1, 100, "write clients = 3")?;
    let options = match s.opt_table("options")? {
        None => BTreeMap::new(),
        Some(mut o) => o.rest_texts()?,
    };
    s.end()?;
    Ok(Workload {
        main,
        clients: usize::try_from(clients).unwrap_or(0),
        options,
    })
}

/// A section that is one list and nothing else; where there is none, it is empty.
fn strings_of(
    top: &mut Section<'_>,
    section: &'static str,
    key: &'static str,
) -> Result<Vec<String>, TargetError> {
    let Some(mut s) = top.opt_table(section)? else {
        return Ok(Vec::new());
    };
    let list = s.strings(key)?;
    s.end()?;
    Ok(list)
}

/// `[[epoch]]`.
fn epochs(top: &mut Section<'_>) -> Result<Vec<EpochFile>, TargetError> {
    let mut epochs = Vec::new();
    for mut s in top.tables("epoch")? {
        epochs.push(EpochFile {
            name: s.string("name", "write name = \"currentEpoch\"")?,
            file: s.string("file", "write the path below the node's folder")?,
        });
        s.end()?;
    }
    Ok(epochs)
}

/// `[clock]`, overlaid by `[paper]` when asked for.
fn clocks(top: &mut Section<'_>, paper: bool) -> Result<BTreeMap<String, i64>, TargetError> {
    let mut s = top.table("clock", "write [clock] with tick_ms and session_ms")?;
    let mut clock = s.rest_ints()?;
    for key in ["tick_ms", "session_ms"] {
        match clock.get(key) {
            Some(n) if *n > 0 => {}
            Some(n) => {
                return Err(s.wrong(key, format!("{n} is no time"), "write milliseconds above 0"));
            }
            None => {
                // Any key may stand here, for the templates: one that looks like it is read already.
                let slip = near(key, clock.keys().map(String::as_str));
                let meant = slip.map(|slip| format!(" (did you mean that instead of `{slip}`?)"));
                let remedy = format!("write {key} = 500{}", meant.unwrap_or_default());
                return Err(s.wrong(key, "is missing", remedy));
            }
        }
    }
    let papers = match top.opt_table("paper")? {
        None => BTreeMap::new(),
        Some(mut p) => {
            let values = p.rest_ints()?;
            if let Some(key) = values.keys().find(|k| !clock.contains_key(*k)) {
                return Err(p.wrong(
                    key,
                    "is not in [clock]",
                    "use the same keys in [clock] and [paper]",
                ));
            }
            values
        }
    };
    if paper {
        clock.extend(papers);
    }
    Ok(clock)
}
