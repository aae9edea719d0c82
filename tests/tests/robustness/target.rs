//! target.toml and what belongs to it, broken in each way there is: exit 2 before anything is made. (Each single key is in
//! executor's `target/tests.rs`; here is what a user sees.)

use super::{Broken, fuzz, nothing_made, refused};
use std::os::unix::fs::symlink;

#[test]
fn an_unknown_target_names_the_known_ones() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["nosuch", "../canary", ""] {
        refused(
            fuzz(dir.path(), name, &[]),
            2,
            &[
                &format!("no target `{name}`"),
                "known targets: canary",
                "--targets",
            ],
        );
    }
    nothing_made(dir.path());
}

#[test]
fn each_kind_of_mistake_names_file_key_value_and_remedy() {
    // (what is replaced, by what, what the text must say)
    let table: [(&str, &str, &[&str]); 19] = [
        ("[target]", "[target", &["not TOML", "line 3"]),
        (
            "name = \"canary\"",
            "",
            &["`target.name`", "missing", "name ="],
        ),
        (
            "name = \"canary\"",
            "name = 3",
            &["`target.name`", "`3` is a integer"],
        ),
        ("name = \"canary\"\n", "", &["`target.name`", "missing"]),
        (
            "name = \"canary\"",
            "nmae = \"canary\"",
            &["`target.nmae`", "did you mean `name`, which is missing"],
        ),
        (
            "java = 8",
            "java = 8\njaba = 9",
            &["`target.jaba`", "`9`", "write one of"],
        ),
        (
            "java = 8",
            "java = \"eight\"",
            &["`target.java`", "`eight` is no range", "java = \"8..17\""],
        ),
        (
            "java = 8",
            "java = 7",
            &["`target.java`", "7 is out of range"],
        ),
        (
            "version = \"1\"",
            "version = 1",
            &["`target.version`", "`1` is a integer"],
        ),
        (
            "jars = \"sources\"",
            "jars = \"ant\"",
            &["`target.jars`", "`ant`", "\"maven\""],
        ),
        (
            "include = [\"canary.**\"]",
            "include = []",
            &["`target.include`", "no class would be"],
        ),
        (
            "include = [\"canary.**\"]",
            "include = [3]",
            &["`target.include`", "[\"…\", …]"],
        ),
        (
            "canary.dict",
            "absent.dict",
            &["`target.dictionary`", "`absent.dict`", "create the file"],
        ),
        (
            "count = 3",
            "count = 0",
            &["`group.server.count`", "0 is out of range"],
        ),
        (
            "max_dead = 1",
            "max_dead = 4",
            &["`group.server.max_dead`", "4 is more than the 3"],
        ),
        (
            "members.in",
            "absent.in",
            &["`group.server.files`", "`absent.in`", "conf/"],
        ),
        (
            "Mode: (leader|follower)",
            "Mode: (leader|follower",
            &["`ready.expect`", "no regular expression", "mend"],
        ),
        (
            "[workload]",
            "[group.other]\nprefix = \"c\"\ncount = 1\nmax_dead = 0\n[workload]",
            &["prefix", "`c` is another group's"],
        ),
        (
            "tick_ms = 50",
            "tick_ms = 0",
            &["`clock.tick_ms`", "0 is no time"],
        ),
    ];
    for (from, to, parts) in table {
        let broken = Broken::new();
        broken.change("target.toml", from, to);
        let targets = broken.targets();
        let mut all = vec!["target.toml"];
        all.extend(parts);
        refused(
            fuzz(broken.dir.path(), "canary", &["--targets", &targets]),
            2,
            &all,
        );
        nothing_made(broken.dir.path());
    }
}

#[test]
fn a_description_that_cannot_be_read_is_named() {
    let broken = Broken::new();
    let targets = broken.targets();
    let toml = broken.toml();
    let shown = toml.display().to_string();
    let go = |parts: &[&str]| {
        refused(
            fuzz(broken.dir.path(), "canary", &["--targets", &targets]),
            2,
            parts,
        )
    };
    std::fs::write(&toml, b"[target]\nname = \"caf\xe9\"\n").unwrap();
    go(&[&shown, "UTF-8"]);
    std::fs::remove_file(&toml).unwrap();
    symlink("target.toml", &toml).unwrap();
    go(&["no target `canary`"]);
    // A broken dictionary is the dictionary's mistake, a bad -x the user's.
    let broken = Broken::new();
    let dict = broken.dir.path().join("dictionaries/canary.dict");
    std::fs::write(&dict, "version = 9\n").unwrap();
    let targets = broken.targets();
    refused(
        fuzz(broken.dir.path(), "canary", &["--targets", &targets]),
        2,
        &["canary.dict", "`version`", "9"],
    );
    refused(
        fuzz(broken.dir.path(), "canary", &["-x", "/nowhere.dict"]),
        2,
        &["/nowhere.dict"],
    );
    nothing_made(broken.dir.path());
}

/// One broken description does not hide the others.
#[test]
fn targets_shows_the_broken_one_beside_the_others() {
    let broken = Broken::new();
    let other = broken.dir.path().join("targets/half");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("target.toml"), "[target]\nname = 3\n").unwrap();
    let ran = warren_tests::run(
        warren_tests::warren(&["targets", "--targets", &broken.targets()]),
        super::MINUTE,
    )
    .expect_code(0);
    assert!(
        ran.out.contains("half") && ran.out.contains("cannot be used"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("3 x server"), "{}", ran.out);
}
