//! What a target's files come to, as one digest: by it a later start knows whether what is tested is still what it was. Called by the command line
//! before set-up. Reads files; fetches and compiles nothing.
//!
//! What changes a run counts: the description and its bases as they are merged, templates, dictionaries, programs, pom.xml and the lock of the
//! version. By itself, as it changes no run: by which rules one is judged ([`JUDGED_BY`]). Not what is told of its bugs (bugs.toml, known-bugs.toml),
//! no README, no comment of a description; nor where the folder lies, nor what the command line changes, which is told beside it.

use super::chain::read_chain;
use super::section::TargetError;
use super::sources::unread;
use super::{JarSource, Target};
use crate::setup::cache;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::path::{Path, PathBuf};
use toml::Value;

/// Sections of a description by which runs are only judged: what a log and an end of a process may say, which errors are definite, what is promised.
/// Which files are logs changes runs, too: no point is in them.
const JUDGED_BY: [&str; 4] = ["log", "exit", "errors", "promise"];

impl Target {
    /// 16 hex digits of the rules by which runs are judged.
    ///
    /// # Errors
    /// [`TargetError`] with the file that cannot be read.
    pub fn rules_content(&self) -> Result<String, TargetError> {
        let mut said = self.described()?;
        said.retain(|section, _| JUDGED_BY.contains(&section));
        Ok(cache::sha256(self.json(&said)?.as_bytes())[..16].to_owned())
    }

    /// 16 hex digits of what is tested, as the files are now; templates and dictionaries as they were read.
    ///
    /// # Errors
    /// [`TargetError`] with the file that cannot be read.
    pub fn content(&self) -> Result<String, TargetError> {
        let mut text = String::new();
        let mut said = self.described()?;
        let logs = said.get("log").and_then(|log| log.get("files")).cloned();
        said.retain(|section, _| !JUDGED_BY.contains(&section));
        said.extend(logs.map(|files| ("log".to_owned(), files)));
        put(&mut text, "description", self.json(&said)?.as_bytes());
        // A table is sorted, and the nodes' order is not.
        let groups: Vec<&str> = self.groups.iter().map(|g| g.name.as_str()).collect();
        put(&mut text, "groups", groups.join(" ").as_bytes());
        for file in self.groups.iter().flat_map(|g| &g.files) {
            put(&mut text, file.template.display(), file.text.as_bytes());
        }
        put(&mut text, "dictionaries", self.dictionaries().as_bytes());
        for (name, path) in self.programs()? {
            put(&mut text, name.display(), &read(&path)?);
        }
        Ok(cache::sha256(text.as_bytes())[..16].to_owned())
    }

    /// The description without the version it names: which one is tested is told beside it, and a newer usual one changes nothing of that.
    fn described(&self) -> Result<toml::Table, TargetError> {
        let folder = self.folders.first().cloned().unwrap_or_default();
        let mut said = read_chain(&folder)?.merged();
        if let Some(Value::Table(target)) = said.get_mut("target") {
            target.remove("version");
        }
        Ok(said)
    }

    fn json(&self, said: &toml::Table) -> Result<String, TargetError> {
        serde_json::to_string(said).map_err(|e| TargetError::Syntax {
            file: self.toml_path(),
            why: e.to_string(),
        })
    }

    /// Not their files: one of `-x` may be a pipe, which is read once.
    fn dictionaries(&self) -> String {
        let mut text = self.dictionary.conf_lines();
        for glob in &self.dictionary.favour {
            let _ = writeln!(text, "favour {glob}");
        }
        for shape in &self.dictionary.shapes {
            let _ = writeln!(text, "{shape:?}");
        }
        text
    }

    /// What is compiled or fetched for it, by names below the target's folder.
    fn programs(&self) -> Result<BTreeMap<PathBuf, PathBuf>, TargetError> {
        let mut files = self.sources("workload")?;
        match self.jars {
            JarSource::Sources => files.extend(self.sources("src")?),
            JarSource::Maven => {
                let lock = Path::new("locks").join(format!("{}.lock", self.version));
                for name in [PathBuf::from("pom.xml"), lock] {
                    // Without a lock the cache has one.
                    if let Some(path) = self.file(&name) {
                        files.insert(name, path);
                    }
                }
            }
        }
        Ok(files)
    }
}

/// One more line: what it is, and the hash of what it says.
fn put(text: &mut String, what: impl Display, said: &[u8]) {
    let _ = writeln!(text, "{what} {}", cache::sha256(said));
}

fn read(path: &Path) -> Result<Vec<u8>, TargetError> {
    std::fs::read(path).map_err(unread(path))
}

#[cfg(test)]
mod tests {
    use super::super::load_target;
    use super::*;
    use std::fs;

    const TOY: &str = r#"
[target]
name = "toy"
version = "1"
main = "toy.Main"
jars = "sources"
include = ["toy.**"]
dictionary = "toy.dict"
[group.zeta]
prefix = "z"
count = 2
max_dead = 1
files = { "conf" = "conf.in" }
[group.alpha]
prefix = "a"
count = 1
max_dead = 0
[ready]
port = 7
[workload]
main = "W"
clients = 2
[clock]
tick_ms = 50
session_ms = 500
"#;

    /// A target with one of each, and one that has it as its base.
    fn targets() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("dictionaries/toy.dict", "version = 1\n"),
            ("targets/toy/target.toml", TOY),
            ("targets/toy/conf/conf.in", "tick={{ tick_ms }}\n"),
            ("targets/toy/src/toy/Main.java", "class Main {}"),
            ("targets/toy/workload/W.java", "class W {}"),
            ("targets/toy/bugs.toml", "version = 1\n"),
            ("targets/toy/pom.xml", "<project/>"),
            ("targets/toy/locks/1.lock", "version 1\n"),
            ("targets/toy/locks/2.lock", "version 1\n"),
            ("targets/child/target.toml", "base = \"../toy\"\n"),
        ] {
            write(dir.path(), file, text);
        }
        dir
    }

    fn write(dir: &Path, file: &str, text: &str) {
        let path = dir.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn content(dir: &Path, target: &str, more: &[PathBuf]) -> String {
        let folder = dir.join("targets").join(target);
        let target = load_target(&folder, None, false, more).unwrap();
        target.content().unwrap()
    }

    #[test]
    fn what_changes_a_run_counts_and_nothing_else() {
        let comment = format!("# The toy.\n{TOY}");
        let newer = TOY.replace("version = \"1\"", "version = \"2\"");
        let slower = TOY.replace("tick_ms = 50", "tick_ms = 60");
        let judged = format!("{TOY}[exit]\nlegal = []\n");
        let logs = format!("{TOY}[log]\nfiles = [\"stdout\", \"log/*\"]\n");
        let fatal = format!("{TOY}[log]\nfatal_log = [\"FATAL\"]\n");
        // The same table, and other node indices.
        let (head, groups) = TOY.split_at(TOY.find("[group.zeta]").unwrap());
        let (zeta, rest) = groups.split_at(groups.find("[group.alpha]").unwrap());
        let (alpha, tail) = rest.split_at(rest.find("[ready]").unwrap());
        let turned = format!("{head}{alpha}{zeta}{tail}");
        let hook = "version = 1\n[[hook]]\nmethod = \"toy.A.b\"\nkind = \"write\"\n";
        let favour = "version = 1\n[[favour]]\nstack = \"toy.*\"\n";
        let table = [
            ("targets/toy/target.toml", slower.as_str(), true),
            ("targets/toy/target.toml", turned.as_str(), true),
            ("targets/toy/target.toml", comment.as_str(), false),
            ("targets/toy/target.toml", judged.as_str(), false),
            ("targets/toy/target.toml", logs.as_str(), true),
            ("targets/toy/target.toml", fatal.as_str(), false),
            ("targets/toy/target.toml", newer.as_str(), false),
            ("targets/toy/conf/conf.in", "tick=7\n", true),
            ("targets/toy/conf/other.in", "x", false),
            ("targets/toy/src/toy/Main.java", "class Main { }", true),
            ("targets/toy/src/toy/more/B.java", "class B {}", true),
            ("targets/toy/src/notes.txt", "x", false),
            ("targets/toy/workload/W.java", "class W { }", true),
            ("dictionaries/toy.dict", hook, true),
            ("dictionaries/toy.dict", favour, true),
            ("dictionaries/toy.dict", "version = 1\n# Why.\n", false),
            ("targets/toy/bugs.toml", "version = 1\n# a\n", false),
            ("targets/toy/known-bugs.toml", "version = 1\n", false),
            ("targets/toy/README.md", "x", false),
            // It has no jars from Maven.
            ("targets/toy/pom.xml", "<other/>", false),
        ];
        // A base's files are those of the other target, too.
        let names = ["toy", "child"];
        let was = names.map(|name| content(targets().path(), name, &[]));
        assert_eq!(was[0].len(), 16);
        for (file, text, counts) in table {
            let dir = targets();
            write(dir.path(), file, text);
            for (name, was) in names.iter().zip(&was) {
                let changed = content(dir.path(), name, &[]) != *was;
                assert_eq!(changed, counts, "{name}: {file}: {text}");
            }
        }
    }

    #[test]
    fn rules_to_judge_by_have_their_own_digest() {
        let rules = |toml: &str| {
            let dir = targets();
            write(dir.path(), "targets/toy/target.toml", toml);
            let target = load_target(&dir.path().join("targets/child"), None, false, &[]).unwrap();
            target.rules_content().unwrap()
        };
        let was = rules(TOY);
        assert_eq!(rules(&TOY.replace("tick_ms = 50", "tick_ms = 60")), was);
        assert_ne!(rules(&format!("{TOY}[exit]\nlegal = []\n")), was);
    }

    #[test]
    fn jars_of_maven_are_told_by_pom_and_lock() {
        let toml = TOY.replace("jars = \"sources\"", "jars = \"maven\"");
        let with = |file: &str, text: &str| {
            let dir = targets();
            write(dir.path(), "targets/toy/target.toml", &toml);
            write(dir.path(), file, text);
            content(dir.path(), "toy", &[])
        };
        let was = with("targets/toy/README.md", "x");
        for (file, counts) in [
            ("targets/toy/pom.xml", true),
            ("targets/toy/locks/1.lock", true),
            // Another version's.
            ("targets/toy/locks/2.lock", false),
            ("targets/toy/src/toy/Main.java", false),
        ] {
            assert_eq!(with(file, "y") != was, counts, "{file}");
        }
    }

    #[test]
    fn a_source_of_the_target_replaces_its_bases_and_a_dictionary_may_be_added() {
        let dir = targets();
        let was = content(dir.path(), "child", &[]);
        let more = dir.path().join("more.dict");
        fs::write(&more, "version = 1\n[[skip]]\nframe = \"toy.Log.*\"\n").unwrap();
        assert_ne!(content(dir.path(), "child", &[more]), was);
        write(dir.path(), "targets/child/workload/W.java", "class W { }");
        let own = content(dir.path(), "child", &[]);
        assert_ne!(own, was);
        // The base's is not compiled any more.
        write(dir.path(), "targets/toy/workload/W.java", "class W {  }");
        assert_eq!(content(dir.path(), "child", &[]), own);
    }
}
