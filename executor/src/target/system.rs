//! `[target]` of target.toml: which system it is, in which version, on which Java, which of its classes are instrumented, and with which
//! dictionary. Called by the loading of a target.

use super::JarSource;
use super::dict::Dictionary;
use super::section::{Section, TargetError, shown};
use crate::setup::jdk::JavaRange;
use std::path::PathBuf;
use toml::Value;

const SECTIONS: &str = "a file starts with [target], then [group.<name>], [ready], [workload]; see docs/target-toml.md";
const JAVA: &str =
    "write java = 8 (that version or any later one) or java = \"8..17\" (both ends included)";

/// What `[target]` says.
pub(super) struct System {
    pub name: String,
    /// The one asked for, else the described one.
    pub version: String,
    pub default_version: String,
    pub java: JavaRange,
    pub main: String,
    pub jars: JarSource,
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    pub dictionary: Dictionary,
}

/// Reads it; `asked` replaces the described version, `extra` are more dictionaries. The described one is looked for in these folders.
pub(super) fn system(
    top: &mut Section<'_>,
    asked: Option<&str>,
    extra: &[PathBuf],
    folders: &[PathBuf],
) -> Result<System, TargetError> {
    let mut t = top.table("target", SECTIONS)?;
    let name = t.string("name", "write name = \"mysystem\"")?;
    let default_version = t.string("version", "write version = \"1.0\"")?;
    let java = t
        .opt_parsed("java", JAVA, java)?
        .unwrap_or(JavaRange::from(8));
    let main = t.string("main", "write the main class of a node")?;
    let jars = jars(&mut t)?;
    if let Some(asked) = asked {
        check_version(&t, asked, &name, &default_version, jars)?;
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
    let dictionary = dictionary(&mut t, extra, folders)?;
    t.end()?;
    Ok(System {
        name,
        version: asked.map_or_else(|| default_version.clone(), str::to_owned),
        default_version,
        java,
        main,
        jars,
        include,
        exclude,
        dictionary,
    })
}

/// The versions of Java that the `java` key allows.
fn java(value: &Value) -> Result<JavaRange, String> {
    match value {
        Value::Integer(n) => JavaRange::at_least(*n),
        Value::String(text) => JavaRange::parse(text),
        other => Err(format!("`{}` is a {}", shown(other), other.type_str())),
    }
}

fn jars(t: &mut Section<'_>) -> Result<JarSource, TargetError> {
    let text = t.string("jars", "write jars = \"maven\" or \"sources\"")?;
    match text.as_str() {
        "maven" => Ok(JarSource::Maven),
        "sources" => Ok(JarSource::Sources),
        other => Err(t.wrong(
            "jars",
            format!("`{other}` is not known"),
            "write \"maven\" (pom.xml and a lock) or \"sources\" (src/**.java)",
        )),
    }
}

/// Refuses a version that cannot be one: it becomes part of file names (locks/<version>.lock) and of Maven's command line.
fn check_version(
    t: &Section<'_>,
    asked: &str,
    name: &str,
    default_version: &str,
    jars: JarSource,
) -> Result<(), TargetError> {
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
    Ok(())
}

/// The target's own dictionary, and these.
fn dictionary(
    t: &mut Section<'_>,
    extra: &[PathBuf],
    folders: &[PathBuf],
) -> Result<Dictionary, TargetError> {
    let name = t.opt_string("dictionary")?;
    let mut dictionary = Dictionary::default();
    if let Some(n) = name.filter(|n| !n.is_empty()) {
        let file = dictionary_file(folders, &n).ok_or_else(|| {
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
    Ok(dictionary)
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
