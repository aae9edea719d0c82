//! Who may depend on whom, asserted from `cargo metadata` (docs/ARCHITECTURE.md, "Arrows").
//!
//! Reads only what the manifests declare, of every kind (normal, build, dev), without the network. It does not look at
//! source code: an arrow that is not declared cannot be used.

use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand, Package};
use std::collections::BTreeSet;

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
