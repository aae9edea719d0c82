//! Who may depend on whom, asserted from `cargo metadata` (docs/ARCHITECTURE.md, "Arrows"); that no rooms of a crate use each other in a circle;
//! that what is declared is used and has its reason; and that the files and modules which heads of files name are there.
//!
//! For arrows between crates it reads only what the manifests declare, of every kind (normal, build, dev), without the network, and no source
//! code: an arrow that is not declared cannot be used.

use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand, Package};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Every arrow allowed between crates of the workspace; `warren-tests` may know all of them.
const ALLOWED: &[(&str, &[&str])] = &[
    ("warren-model", &[]),
    ("warren-agent", &[]),
    ("warren-executor", &["warren-model", "warren-agent"]),
    ("warren-feedback", &["warren-model"]),
    (
        "warren",
        &["warren-executor", "warren-feedback", "warren-model"],
    ),
    (
        "warren-tests",
        &[
            "warren",
            "warren-executor",
            "warren-feedback",
            "warren-model",
            "warren-agent",
        ],
    ),
];

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata")
}

/// Names of workspace crates a package declares, whatever kind.
fn inner<'a>(package: &'a Package, members: &BTreeSet<String>) -> Vec<&'a Dependency> {
    package
        .dependencies
        .iter()
        .filter(|d| members.contains(d.name.as_str()))
        .collect()
}

/// Arrows that are not in `allowed`, as text; also crates the table does not know.
fn violations(meta: &Metadata, allowed: &[(&str, &[&str])]) -> Vec<String> {
    let members: BTreeSet<String> = meta.packages.iter().map(|p| p.name.to_string()).collect();
    let mut bad = Vec::new();
    for package in &meta.packages {
        let Some((_, may)) = allowed.iter().find(|(name, _)| package.name == *name) else {
            bad.push(format!("{} stands in no arrow", package.name));
            continue;
        };
        for d in inner(package, &members) {
            if !may.contains(&d.name.as_str()) {
                bad.push(format!("{} -> {}", package.name, d.name));
            }
        }
    }
    bad
}

#[test]
fn only_the_arrows_of_the_design() {
    let meta = metadata();
    assert_eq!(violations(&meta, ALLOWED), Vec::<String>::new());
    // Every crate of the table exists: a renamed crate must not slip past it.
    for (name, _) in ALLOWED {
        assert!(
            meta.packages.iter().any(|p| p.name == *name),
            "`{name}` is no member of the workspace"
        );
    }
}

/// The check itself can fail: with one arrow taken out of the table, exactly that one is reported.
#[test]
fn a_forbidden_arrow_is_seen() {
    let narrowed: Vec<(&str, &[&str])> = ALLOWED
        .iter()
        .map(|(name, may)| {
            if *name == "warren-feedback" {
                (*name, &[] as &[&str])
            } else {
                (*name, *may)
            }
        })
        .collect();
    assert_eq!(
        violations(&metadata(), &narrowed),
        vec!["warren-feedback -> warren-model".to_owned()]
    );
}

#[test]
fn libafl_is_behind_a_feature_in_model() {
    let meta = metadata();
    let model = meta
        .packages
        .iter()
        .find(|p| p.name == "warren-model")
        .expect("warren-model");
    let libafl: Vec<&Dependency> = model
        .dependencies
        .iter()
        .filter(|d| d.name.starts_with("libafl") && d.kind == DependencyKind::Normal)
        .collect();
    assert!(!libafl.is_empty(), "model has lost its LibAFL feature");
    for d in libafl {
        assert!(d.optional, "{} must be optional in model", d.name);
    }
    let default = model.features.get("default").cloned().unwrap_or_default();
    assert!(
        !default.iter().any(|f| f.contains("libafl")),
        "model's default features bring LibAFL: {default:?}"
    );
}

#[test]
fn tokio_only_in_executor() {
    let users: Vec<String> = metadata()
        .packages
        .iter()
        .filter(|p| p.dependencies.iter().any(|d| d.name == "tokio"))
        .map(|p| p.name.to_string())
        .collect();
    assert!(
        users.iter().all(|u| u == "warren-executor"),
        "tokio is declared by {users:?}"
    );
}

/// `cargo run` works without `--bin` only while there is exactly one binary.
#[test]
fn exactly_one_binary() {
    let bins: Vec<String> = metadata()
        .packages
        .iter()
        .flat_map(|p| &p.targets)
        .filter(|t| t.is_bin())
        .map(|t| t.name.clone())
        .collect();
    assert_eq!(bins, vec!["warren".to_owned()]);
}

/// The folder of a crate.
fn folder(package: &Package) -> PathBuf {
    let manifest = package.manifest_path.as_std_path();
    manifest
        .parent()
        .expect("a manifest lies in a folder")
        .to_owned()
}

/// The `.rs` files of a crate, by their paths below its folder.
type Sources = BTreeMap<PathBuf, String>;

fn sources(package: &Package) -> Sources {
    let root = folder(package);
    let mut found = Sources::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of a crate") {
            let path = entry.expect("an entry of a folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source");
                let below = path.strip_prefix(&root).expect("below its crate");
                found.insert(below.to_owned(), text);
            }
        }
    }
    assert!(!found.is_empty(), "no source in {}", root.display());
    found
}

/// The rooms of a crate: the modules that lie beside its lib.rs. Of each those that its sources name, tests apart, by `crate::` or through what
/// lib.rs hands on.
fn rooms(own: &Sources) -> BTreeMap<&str, BTreeSet<&str>> {
    let lib = own.get(Path::new("src/lib.rs")).map_or("", String::as_str);
    let handed_on: BTreeMap<&str, &str> = lib
        .split(';')
        .filter_map(|s| s.rsplit_once("pub use ")?.1.split_once("::"))
        .flat_map(|(room, names)| words(names).map(move |name| (name, room)))
        .collect();
    let mut rooms: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, text) in own {
        let mut parts = path.iter().skip(1).filter_map(|p| p.to_str());
        let room = parts.next().unwrap_or_default().trim_end_matches(".rs");
        let tests = path.iter().any(|p| p == "tests" || p == "tests.rs");
        if !path.starts_with("src") || ["lib", "main"].contains(&room) || tests {
            continue;
        }
        let uses = rooms.entry(room).or_default();
        for named in named_rooms(text) {
            let named = handed_on.get(named).copied().unwrap_or(named);
            if named != room {
                uses.insert(named);
            }
        }
    }
    rooms
}

/// What follows `crate::` in code, tests and comments apart; of `crate::{a::b, c}` each first word.
fn named_rooms(text: &str) -> Vec<&str> {
    let code = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text);
    let mut named = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let line = &code[code[..at].rfind('\n').map_or(0, |n| n + 1)..at];
        let rest = &code[at + "crate::".len()..];
        let other = line.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if line.trim_start().starts_with("//") || other {
            continue;
        }
        match rest.strip_prefix('{') {
            None => named.extend(words(rest).next()),
            Some(list) => {
                let mut depth = 0;
                let list = list.split(';').next().unwrap_or_default();
                let firsts = list.split(|c| {
                    depth += match c {
                        '{' => 1,
                        '}' => -1,
                        _ => 0,
                    };
                    c == ',' && depth == 0
                });
                named.extend(firsts.filter_map(|first| words(first).next()));
            }
        }
    }
    named
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// The rooms that can be come back to from where they are, each with those it uses that can be, too.
fn circles(rooms: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<String> {
    let reached = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&str> = rooms.get(from).into_iter().flatten().copied().collect();
        while let Some(room) = next.pop() {
            if seen.insert(room) {
                next.extend(rooms.get(room).into_iter().flatten());
            }
        }
        seen
    };
    let around: Vec<&str> = rooms
        .keys()
        .copied()
        .filter(|r| reached(r).contains(r))
        .collect();
    let uses = |room: &&str| {
        let back = rooms[*room].iter().filter(|r| reached(r).contains(room));
        format!("{room} -> {}", back.copied().collect::<Vec<_>>().join(", "))
    };
    around.iter().map(uses).collect()
}

#[test]
fn no_rooms_of_a_crate_use_each_other_in_a_circle() {
    let meta = metadata();
    let mut bad = Vec::new();
    for package in &meta.packages {
        let own = sources(package);
        let found = circles(&rooms(&own));
        bad.extend(found.into_iter().map(|c| format!("{}: {c}", package.name)));
    }
    assert_eq!(bad, Vec::<String>::new());
}

#[test]
fn a_circle_of_rooms_is_seen() {
    let own: Sources = [
        (
            "src/lib.rs",
            "pub mod a;\npub mod b;\npub use c::{Deep, deep};\npub use d::Far;\n",
        ),
        ("src/a.rs", "use crate::{b::B, std::{c, d}};\n// crate::e\n"),
        ("src/b/mod.rs", "fn f() -> crate::Deep {}\n"),
        ("src/b/inner.rs", "use crate::b::B;\nuse some_crate::e;\n"),
        ("src/c.rs", "#[cfg(test)]\nmod tests {\nuse crate::b;\n}\n"),
        ("src/c/x.rs", "use crate::Far;"),
        ("src/d.rs", "fn g() { crate::b::h() }"),
        ("src/d/tests/t.rs", "use crate::a;"),
        ("src/e.rs", "use crate::a;"),
        ("build.rs", "use crate::e;"),
    ]
    .map(|(path, text)| (PathBuf::from(path), text.to_owned()))
    .into();
    let rooms = rooms(&own);
    let all: Vec<String> = rooms
        .iter()
        .map(|(room, uses)| {
            format!(
                "{room}:{}",
                uses.iter().copied().collect::<Vec<_>>().join("+")
            )
        })
        .collect();
    assert_eq!(all, ["a:b+std", "b:c", "c:d", "d:b", "e:a"]);
    assert_eq!(circles(&rooms), ["b -> c", "c -> d", "d -> b"]);
}

/// Whether a line of code, not one of comments alone, names a crate: `name::`.
fn names(text: &str, name: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .any(|line| {
            line.match_indices(name).any(|(at, _)| {
                !line[..at].ends_with(in_word) && line[at + name.len()..].starts_with("::")
            })
        })
}

/// The entries of the workspace's table of dependencies, and whether each has its reason: a comment right above or beside it.
fn reasons(manifest: &str) -> BTreeMap<String, bool> {
    let table = manifest
        .split_once("[workspace.dependencies]\n")
        .expect("a table of dependencies")
        .1;
    let mut found = BTreeMap::new();
    let mut above = "";
    for line in table.lines().take_while(|line| !line.starts_with('[')) {
        if !line.starts_with('#')
            && let Some((name, value)) = line.split_once('=')
        {
            let reason = above.starts_with('#') || value.contains('#');
            found.insert(name.trim().to_owned(), reason);
        }
        above = line;
    }
    found
}

#[test]
fn each_dependency_is_used_and_has_its_reason() {
    let meta = metadata();
    let mut bad = Vec::new();
    let mut declared = BTreeSet::new();
    for package in &meta.packages {
        let sources = sources(package);
        for d in &package.dependencies {
            declared.insert(d.name.clone());
            let name = d.name.replace('-', "_");
            if d.kind == DependencyKind::Normal && !sources.values().any(|t| names(t, &name)) {
                bad.push(format!("{} does not use {}", package.name, d.name));
            }
        }
    }
    let manifest = meta.workspace_root.join("Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).expect("the workspace's manifest");
    let reasons = reasons(&manifest);
    for (name, reason) in &reasons {
        if !declared.contains(name) {
            bad.push(format!("{name} is declared by no crate"));
        }
        // Our own crates are in docs/ARCHITECTURE.md, with the arrows between them.
        let own = meta.packages.iter().any(|p| p.name == *name);
        if !own && !reason {
            bad.push(format!("{name} has no reason in Cargo.toml"));
        }
    }
    for name in &declared {
        if !reasons.contains_key(name) {
            bad.push(format!("{name} is not in the workspace's table"));
        }
    }
    assert_eq!(bad, Vec::<String>::new());
}

#[test]
fn what_is_not_used_or_has_no_reason_is_seen() {
    for (text, want) in [
        ("use abc::d;", true),
        ("    #[derive(abc::D)]", true),
        ("    // use abc::d;", false),
        ("use xabc::d;", false),
        ("let abc = abc_of();", false),
    ] {
        assert_eq!(names(text, "abc"), want, "{text}");
    }
    let table = "[workspace.dependencies]\n# why\na = \"1\"\nb = \"1\"\nc = \"1\" # why\n\n[profile.dev]\nd = 1\n";
    let want = [("a", true), ("b", false), ("c", true)];
    let want: BTreeMap<String, bool> = want.map(|(name, reason)| (name.to_owned(), reason)).into();
    assert_eq!(reasons(table), want);
}

/// What stands between backticks in the head of a file.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map_while(|line| line.strip_prefix("//!"))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whether a text has an item of this name.
fn declares(text: &str, name: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "trait", "type", "const", "static"];
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|w| !w.is_empty())
        .collect();
    words
        .windows(2)
        .any(|pair| kinds.contains(&pair[0]) && pair[1] == name)
}

/// What the head of a file names and is not there. `x.rs` is to be a file of its crate, `a/x.rs` one of any; `a::b`, if `a` is a folder
/// of modules of its crate, a module there, or an item of `a` or of the file itself. What else is named is not looked at.
fn misnamed(file: &Path, own: &Sources, all: &BTreeSet<PathBuf>) -> Vec<String> {
    let is_word = |w: &&str| !w.is_empty() && w.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_there = |name: &str| {
        if name.ends_with(".rs") {
            return match name.contains('/') {
                true => all.iter().any(|p| p.ends_with(name)),
                false => own.keys().any(|p| p.ends_with(name)),
            };
        }
        let path: Vec<&str> = name.split("::").collect();
        let [folder, .., last] = path[..] else {
            return true;
        };
        let is_folder = own.keys().filter_map(|p| p.parent()).any(|above| {
            let mut names = above.components();
            names.any(|c| c.as_os_str() == folder)
        });
        if !is_folder || !path.iter().all(is_word) {
            return true;
        }
        let whole: PathBuf = path.iter().collect();
        let within: PathBuf = path[..path.len() - 1].iter().collect();
        own.iter().any(|(p, text)| {
            let module = p.with_extension("");
            let of_folder =
                p.ends_with("mod.rs") && p.parent().is_some_and(|f| f.ends_with(&within));
            let looked_at = p == file || of_folder || module.ends_with(&within);
            module.ancestors().any(|m| m.ends_with(&whole)) || (looked_at && declares(text, last))
        })
    };
    named(&own[file])
        .filter(|name| !is_there(name))
        .map(|name| format!("{}: `{name}`", file.display()))
        .collect()
}

#[test]
fn files_and_modules_that_heads_name_are_there() {
    let meta = metadata();
    let crates: Vec<Sources> = meta.packages.iter().map(sources).collect();
    let all: BTreeSet<PathBuf> = crates.iter().flat_map(BTreeMap::keys).cloned().collect();
    let mut bad = Vec::new();
    for own in &crates {
        for file in own.keys() {
            bad.extend(misnamed(file, own, &all));
        }
    }
    assert_eq!(bad, Vec::<String>::new());
}

#[test]
fn a_head_that_names_what_is_not_there_is_seen() {
    let head = "//! `page.rs`, `ui/page.rs`, `host.rs`: `run::made::image`, `run::image`, `run::Runner`,\n//! `run::gone`, `warp::gone`, `gone.rs`, `run/host.rs`, `here`, `slot::mine`.\n\nfn mine() {}\n//! `late.rs`\n";
    let own: Sources = [
        ("src/run/mod.rs", "/// `run::image`\npub struct Runner;"),
        ("src/run/made/image.rs", ""),
        ("src/slot/host.rs", head),
    ]
    .map(|(path, text)| (PathBuf::from(path), text.to_owned()))
    .into();
    let mut all: BTreeSet<PathBuf> = own.keys().cloned().collect();
    all.insert("src/ui/page.rs".into());
    let said = misnamed(Path::new("src/slot/host.rs"), &own, &all);
    let want = [
        "page.rs",
        "run::image",
        "run::gone",
        "gone.rs",
        "run/host.rs",
    ];
    assert_eq!(said, want.map(|name| format!("src/slot/host.rs: `{name}`")));
}
