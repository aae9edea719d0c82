//! `[group.<name>]` of target.toml: nodes configured alike, with the templates of their files read. Called by the loading of a target; files are
//! rendered per node by `run::nodes`.

use super::probes::opt_probe;
use super::section::{Section, TargetError};
use super::{ConfigFile, Group};
use std::path::PathBuf;

/// Most nodes: a node needs a JVM and an address.
const MAX_NODES: usize = 64;

/// All groups in this order; templates are looked for in conf/ of these folders.
pub(super) fn groups(
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
    for (name, section) in sections {
        let next = group(name, section, &groups, folders)?;
        groups.push(next);
    }
    let total: usize = groups.iter().map(|g| g.count).sum();
    if total > MAX_NODES {
        return Err(top.wrong(
            "group",
            format!("{total} nodes are described"),
            format!("describe at most {MAX_NODES} nodes: a node needs a JVM and an address"),
        ));
    }
    Ok(groups)
}

/// One group, after these.
fn group(
    name: String,
    mut s: Section<'_>,
    before: &[Group],
    folders: &[PathBuf],
) -> Result<Group, TargetError> {
    let prefix = prefix(&mut s, before)?;
    let (count, max_dead) = sizes(&mut s)?;
    let group = Group {
        name,
        prefix,
        count,
        max_dead,
        heap: heap(&mut s)?,
        jvm: s.strings("jvm")?,
        args: s.strings("args")?,
        main: s.opt_string("main")?,
        class_path: s.strings("class_path")?,
        ready: opt_probe(&mut s, "ready")?,
        files: files(&mut s, folders)?,
    };
    s.end()?;
    Ok(group)
}

/// What the group's node names begin with.
fn prefix(s: &mut Section<'_>, before: &[Group]) -> Result<String, TargetError> {
    let prefix = s.string("prefix", "write prefix = \"n\": nodes are n1, n2, …")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !prefix.chars().all(plain) || prefix.ends_with(|c: char| c.is_ascii_digit()) {
        return Err(s.wrong(
            "prefix",
            format!("`{prefix}` cannot begin node names"),
            "use letters, digits and '-', not ending in a digit",
        ));
    }
    if before.iter().any(|g| g.prefix == prefix) {
        return Err(s.wrong(
            "prefix",
            format!("`{prefix}` is another group's"),
            "give each group its own prefix",
        ));
    }
    Ok(prefix)
}

/// Count and max dead.
fn sizes(s: &mut Section<'_>) -> Result<(usize, usize), TargetError> {
    let size = |n: i64| usize::try_from(n).unwrap_or(0);
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
    Ok((count, max_dead))
}

/// As -Xmx takes it.
fn heap(s: &mut Section<'_>) -> Result<String, TargetError> {
    let heap = s.opt_string("heap")?.unwrap_or_else(|| "128m".to_owned());
    let number = heap.strip_suffix(['m', 'g', 'k']).unwrap_or_default();
    if number.is_empty() || !number.chars().all(|c| c.is_ascii_digit()) {
        return Err(s.wrong(
            "heap",
            format!("`{heap}` is no size"),
            "write heap = \"128m\"",
        ));
    }
    Ok(heap)
}

/// The group's configuration files: path below the node's folder = name of a template in conf/.
fn files(s: &mut Section<'_>, folders: &[PathBuf]) -> Result<Vec<ConfigFile>, TargetError> {
    let Some(mut table) = s.opt_table("files")? else {
        return Ok(Vec::new());
    };
    let list = table.rest_texts()?;
    let leaves = |path: &&String| path.starts_with('/') || path.split('/').any(|p| p == "..");
    if let Some(path) = list.keys().find(leaves) {
        return Err(table.wrong(
            path,
            "leaves the node's folder",
            "write a path below node.dir",
        ));
    }
    let read = |(path, template): (String, String)| template_of(s, path, template.into(), folders);
    list.into_iter().map(read).collect()
}

fn template_of(
    s: &Section<'_>,
    path: String,
    template: PathBuf,
    folders: &[PathBuf],
) -> Result<ConfigFile, TargetError> {
    let mut places = folders.iter().map(|f| f.join("conf").join(&template));
    let Some(place) = places.find(|p| p.is_file()) else {
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
}
