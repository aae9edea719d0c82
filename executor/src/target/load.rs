//! target.toml into a [`Target`]: bases merged, `--version` and `--paper` applied, every key checked.

use super::dict::Dictionary;
use super::image::image;
use super::near::near;
use super::rules;
use super::section::{Origins, Section, TargetError, read_table, shown};
use super::{ConfigFile, EpochFile, Group, JarSource, Probe, Stable, Target, Workload};
use crate::setup::jdk::JavaRange;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::{Table, Value};

/// Deepest chain of `base`.
const MAX_BASES: usize = 4;
const SECTIONS: &str = "a file starts with [target], then [group.<name>], [ready], [workload]; see docs/target-toml.md";

const JAVA: &str =
    "write java = 8 (that version or any later one) or java = \"8..17\" (both ends included)";

/// The versions of Java that the `java` key allows.
fn java(value: &Value) -> Result<JavaRange, String> {
    match value {
        Value::Integer(n) => JavaRange::at_least(*n),
        Value::String(text) => JavaRange::parse(text),
        other => Err(format!("`{}` is a {}", shown(other), other.type_str())),
    }
}

/// The `base` key of a description.
pub(super) fn base_of(table: &Table) -> Option<&str> {
    table
        .get("base")
        .or_else(|| table.get("target").and_then(|t| t.get("base")))
        .and_then(Value::as_str)
}

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
    let (origins, folders) = read_chain(folder)?;
    let mut merged = Table::new();
    for (_, table) in origins.files.iter().rev() {
        merge(&mut merged, table);
    }
    merged.remove("base");
    if let Some(Value::Table(t)) = merged.get_mut("target") {
        t.remove("base");
    }
    // Groups keep the order of the file that says most about them; a TOML table here is sorted, so the order is read apart.
    let order = group_order(&origins);
    let mut top = Section::new(&origins, "", merged);

    let mut t = top.table("target", SECTIONS)?;
    let name = t.string("name", "write name = \"mysystem\"")?;
    let default_version = t.string("version", "write version = \"1.0\"")?;
    let java = t
        .opt_parsed("java", JAVA, java)?
        .unwrap_or(JavaRange::from(8));
    let main = t.string("main", "write the main class of a node")?;
    let jars = match t
        .string("jars", "write jars = \"maven\" or \"sources\"")?
        .as_str()
    {
        "maven" => JarSource::Maven,
        "sources" => JarSource::Sources,
        other => {
            return Err(t.wrong(
                "jars",
                format!("`{other}` is not known"),
                "write \"maven\" (pom.xml and a lock) or \"sources\" (src/**.java)",
            ));
        }
    };
    if let Some(asked) = version {
        // It becomes part of file names (locks/<version>.lock) and of Maven's command line.
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
        if asked.is_empty() || !asked.chars().all(plain) || asked.starts_with(['.', '-']) {
            return Err(t.wrong(
                "version",
                format!("--version `{asked}` is no version"),
                format!("write one such as --version {default_version}"),
            ));
        }
        if jars == JarSource::Sources && asked != default_version {
            return Err(t.wrong(
                "version",
                format!("--version `{asked}`: {name} is compiled from its sources and has only version {default_version}"),
                "leave --version out; only targets with jars = \"maven\" have other versions",
            ));
        }
    }
    let include = t.strings("include")?;
    if include.is_empty() {
        return Err(t.wrong(
            "include",
            "is empty: no class would be instrumented",
            "write include = [\"the.system.**\"]",
        ));
    }
    let exclude = t.strings("exclude")?;
    let dictionary_name = t.opt_string("dictionary")?;
    let mut dictionary = Dictionary::default();
    if let Some(n) = dictionary_name.filter(|n| !n.is_empty()) {
        let file = dictionary_file(&folders, &n).ok_or_else(|| {
            t.wrong(
                "dictionary",
                format!("`{n}` is not found beside the targets folder in dictionaries/"),
                "create the file or write dictionary = \"\"",
            )
        })?;
        dictionary.add_file(&file)?;
    }
    for file in extra {
        dictionary.add_file(file)?;
    }
    t.end()?;

    let groups = groups(&mut top, &order, &folders)?;
    let total: usize = groups.iter().map(|g| g.count).sum();
    if total > 64 {
        return Err(top.wrong(
            "group",
            format!("{total} nodes are described"),
            "describe at most 64 nodes: a node needs a JVM and an address",
        ));
    }
    let ready = {
        let mut s = top.table("ready", "write [ready] with port, send and expect")?;
        let p = probe(&mut s)?;
        s.end()?;
        p
    };
    let started = opt_probe(&mut top, "started")?;
    let (role, role_names, lead) = match top.opt_table("role")? {
        None => (None, BTreeMap::new(), String::new()),
        Some(mut s) => {
            let lead = s.opt_string("lead")?.unwrap_or_default();
            let p = probe(&mut s)?;
            if s.check_regex("expect", &p.expect)?.captures_len() < 2 {
                return Err(s.wrong(
                    "expect",
                    format!("`{}` captures nothing", p.expect),
                    "put the role's name in parentheses: capture 1 is the role",
                ));
            }
            let names = match s.opt_table("names")? {
                None => BTreeMap::new(),
                Some(mut n) => n.rest_texts()?,
            };
            s.end()?;
            (Some(p), names, lead)
        }
    };
    let stable = match top.opt_table("stable")? {
        None => None,
        Some(mut s) => {
            let stable = Stable {
                port: port(&mut s)?,
                port_step: port_step(&mut s)?,
                send: s.opt_string("send")?.unwrap_or_default(),
                equal: s.opt_string("equal")?.unwrap_or_default(),
                equal_bits: s
                    .opt_int("equal_bits", 0, 63)?
                    .and_then(|n| u32::try_from(n).ok())
                    .unwrap_or(0),
            };
            if !stable.equal.is_empty() && s.check_regex("equal", &stable.equal)?.captures_len() < 2
            {
                return Err(s.wrong(
                    "equal",
                    format!("`{}` captures nothing", stable.equal),
                    "put what must be equal in parentheses",
                ));
            }
            s.end()?;
            Some(stable)
        }
    };
    let workload = {
        let mut s = top.table("workload", "write [workload] with main and clients")?;
        let main = s.string("main", "write the main class of the workload program")?;
        let clients = size(s.int("clients", 1, 100, "write clients = 3")?);
        let options = match s.opt_table("options")? {
            None => BTreeMap::new(),
            Some(mut o) => o.rest_texts()?,
        };
        s.end()?;
        Workload {
            main,
            clients,
            options,
        }
    };
    let image = match top.opt_table("image")? {
        None => None,
        Some(s) => Some(image(s, &groups)?),
    };
    let definite = match top.opt_table("errors")? {
        None => Vec::new(),
        Some(mut s) => {
            let list = s.strings("definite")?;
            s.end()?;
            list
        }
    };
    let exits = rules::exits(&mut top)?;
    let log = rules::log(&mut top)?;
    let mut epochs = Vec::new();
    for mut s in top.tables("epoch")? {
        epochs.push(EpochFile {
            name: s.string("name", "write name = \"currentEpoch\"")?,
            file: s.string("file", "write the path below the node's folder")?,
        });
        s.end()?;
    }
    let collect = match top.opt_table("collect")? {
        None => Vec::new(),
        Some(mut s) => {
            let files = s.strings("files")?;
            s.end()?;
            files
        }
    };
    let clock = clocks(&mut top, paper)?;
    let rejoin = match top.opt_table("promise")? {
        None => false,
        Some(mut s) => {
            let r = s.bool("rejoin", false)?;
            s.end()?;
            r
        }
    };
    top.end()?;
    Ok(Target {
        folders,
        name,
        version: version.map_or_else(|| default_version.clone(), str::to_owned),
        default_version,
        paper,
        java,
        main,
        jars,
        include,
        exclude,
        dictionary,
        groups,
        image,
        ready,
        started,
        role,
        role_names,
        lead,
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
        rejoin,
    })
}

/// The chain of descriptions: the target's own, then its bases.
fn read_chain(folder: &Path) -> Result<(Origins, Vec<PathBuf>), TargetError> {
    let mut origins = Origins::default();
    let mut folders = Vec::new();
    let mut at = folder.to_owned();
    loop {
        let file = at.join("target.toml");
        let table = read_table(&file)?;
        let base = base_of(&table).map(str::to_owned);
        origins.files.push((file.clone(), table));
        folders.push(at.clone());
        let Some(base) = base else {
            return Ok((origins, folders));
        };
        let next = at.join(&base);
        if !next.join("target.toml").is_file() || folders.len() > MAX_BASES {
            return Err(TargetError::Key {
                file,
                key: "base".into(),
                problem: if folders.len() > MAX_BASES {
                    format!("`{base}`: more than {MAX_BASES} bases, or a circle")
                } else {
                    format!("`{base}` has no target.toml")
                },
                remedy: "write a folder relative to this one, such as base = \"../canary\"".into(),
            });
        }
        at = next;
    }
}

/// Tables are merged key by key; anything else is replaced.
fn merge(into: &mut Table, from: &Table) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Group names in the order they are written, the base's first.
fn group_order(origins: &Origins) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (file, _) in origins.files.iter().rev() {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        for line in text.lines() {
            let name = line
                .trim()
                .strip_prefix("[group.")
                .and_then(|r| r.split([']', '.']).next());
            if let Some(n) = name
                && !names.iter().any(|have| have == n)
            {
                names.push(n.to_owned());
            }
        }
    }
    names
}

fn groups(
    top: &mut Section<'_>,
    order: &[String],
    folders: &[PathBuf],
) -> Result<Vec<Group>, TargetError> {
    let mut table = top.table("group", "write at least one [group.<name>]")?;
    let mut sections = table.rest_tables()?;
    if sections.is_empty() {
        return Err(top.wrong("group", "describes no group", "write [group.server]"));
    }
    sections.sort_by_key(|(name, _)| order.iter().position(|o| o == name));
    let mut groups: Vec<Group> = Vec::new();
    for (name, mut s) in sections {
        let prefix = s.string("prefix", "write prefix = \"n\": nodes are n1, n2, …")?;
        if !prefix
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-')
            || prefix.ends_with(|c: char| c.is_ascii_digit())
        {
            return Err(s.wrong(
                "prefix",
                format!("`{prefix}` cannot begin node names"),
                "use letters, digits and '-', not ending in a digit",
            ));
        }
        if groups.iter().any(|g| g.prefix == prefix) {
            return Err(s.wrong(
                "prefix",
                format!("`{prefix}` is another group's"),
                "give each group its own prefix",
            ));
        }
        let count = size(s.int("count", 1, 64, "write count = 3")?);
        let max_dead = size(s.int(
            "max_dead",
            0,
            64,
            "write how many may be dead at once and the group still serves",
        )?);
        if max_dead > count {
            return Err(s.wrong(
                "max_dead",
                format!("{max_dead} is more than the {count} nodes of the group"),
                format!("write at most {count}"),
            ));
        }
        let heap = s.opt_string("heap")?.unwrap_or_else(|| "128m".to_owned());
        if !heap.ends_with(['m', 'g', 'k'])
            || !heap[..heap.len() - 1].chars().all(|c| c.is_ascii_digit())
            || heap.len() < 2
        {
            return Err(s.wrong(
                "heap",
                format!("`{heap}` is no size"),
                "write heap = \"128m\"",
            ));
        }
        let jvm = s.strings("jvm")?;
        let args = s.strings("args")?;
        let main = s.opt_string("main")?;
        let class_path = s.strings("class_path")?;
        let ready = opt_probe(&mut s, "ready")?;
        let files: Vec<(String, PathBuf)> = match s.opt_table("files")? {
            None => Vec::new(),
            Some(mut f) => {
                let list = f.rest_texts()?;
                for path in list.keys() {
                    if path.starts_with('/') || path.split('/').any(|p| p == "..") {
                        return Err(f.wrong(
                            path,
                            "leaves the node's folder",
                            "write a path below node.dir",
                        ));
                    }
                }
                list.into_iter()
                    .map(|(path, template)| (path, PathBuf::from(template)))
                    .collect()
            }
        };
        let read = |(path, template): (String, PathBuf)| {
            let places = folders.iter().map(|f| f.join("conf").join(&template));
            let Some(place) = places.into_iter().find(|p| p.is_file()) else {
                return Err(s.wrong(
                    "files",
                    format!("template `{}` of `{path}` is not in conf/", template.display()),
                    "create it in the conf/ folder beside target.toml (or its base's), or write the name of one that is there",
                ));
            };
            match std::fs::read_to_string(&place) {
                Ok(text) => Ok(ConfigFile {
                    path,
                    template,
                    text,
                }),
                Err(e) => Err(s.wrong(
                    "files",
                    format!(
                        "template `{}` of `{path}` cannot be read: {e}",
                        place.display()
                    ),
                    "make it a text file in UTF-8 that may be read",
                )),
            }
        };
        let files: Vec<ConfigFile> = files.into_iter().map(read).collect::<Result<_, _>>()?;
        s.end()?;
        groups.push(Group {
            name,
            prefix,
            count,
            max_dead,
            heap,
            jvm,
            args,
            main,
            class_path,
            ready,
            files,
        });
    }
    Ok(groups)
}

fn port(s: &mut Section<'_>) -> Result<u16, TargetError> {
    let n = s.int("port", 1, 65535, "write port = 2181")?;
    u16::try_from(n).map_err(|_| s.wrong("port", format!("{n} is no port"), "write 1 to 65535"))
}

fn port_step(s: &mut Section<'_>) -> Result<u16, TargetError> {
    let step = s.opt_int("port_step", 0, 512)?.unwrap_or(0);
    Ok(u16::try_from(step).unwrap_or(0))
}

fn probe(s: &mut Section<'_>) -> Result<Probe, TargetError> {
    let port = port(s)?;
    let port_step = port_step(s)?;
    let send = s.opt_string("send")?.unwrap_or_default();
    let expect = s.opt_string("expect")?.unwrap_or_default();
    s.check_regex("expect", &expect)?;
    let ms = s.opt_int("timeout_ms", 1, 600_000)?.unwrap_or(30_000);
    Ok(Probe {
        port,
        port_step,
        send,
        expect,
        timeout: Duration::from_millis(u64::try_from(ms).unwrap_or(30_000)),
    })
}

/// A section that is a probe and nothing else.
fn opt_probe(s: &mut Section<'_>, name: &'static str) -> Result<Option<Probe>, TargetError> {
    let Some(mut own) = s.opt_table(name)? else {
        return Ok(None);
    };
    let p = probe(&mut own)?;
    own.end()?;
    Ok(Some(p))
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

/// dictionaries/ lies beside the targets folder, or in the target's own folder.
fn dictionary_file(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    folders
        .iter()
        .flat_map(|f| {
            [
                f.join("dictionaries").join(name),
                f.join("../../dictionaries").join(name),
                f.join(name),
            ]
        })
        .find(|p| p.is_file())
}

fn size(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}
